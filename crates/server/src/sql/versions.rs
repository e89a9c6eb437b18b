//! The versions of a job.

use domain::job::Job;
use query::Value;
use sql::Spanned;

use super::answer::{DIFFERENCES, VERSIONS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::problem::Problem;
use crate::rest::versions;
use crate::sys::state_name;

/// How many versions are shown when the statement does not say.
const VERSIONS_DEFAULT: u32 = 1_000;

/// How many versions a question of the store answers.
const PAGE: u32 = 100;

impl Session {
    /// The job as a version was.
    pub(super) async fn job_at(&self, job: &Job, version: &Spanned<u32>) -> Result<Job> {
        let found = self.app.engine.by(&self.actor).job_version(job.id, version.value).await;
        let found = found.map_err(|error| SqlError::from(error).or_at(version.at))?;
        Ok(versions::job_at(job, found))
    }

    pub(super) async fn restore_job(
        &self,
        job: &Spanned<String>,
        version: &Spanned<u32>,
    ) -> Result<Answer> {
        let job = self.job(job).await?;
        let check = |_: &Job| Ok::<(), SqlError>(());
        let engine = self.app.engine.by(&self.actor);
        let restored = engine.restore_job(job.id, version.value, check).await;
        restored.map_err(|error| error.or_at(version.at))?;
        Ok(Answer::done("RESTORE JOB"))
    }

    pub(super) async fn show_versions(
        &self,
        job: &Spanned<String>,
        limit: Option<u32>,
    ) -> Result<Answer> {
        let job = self.job(job).await?;
        let most = limit.unwrap_or(VERSIONS_DEFAULT) as usize;
        let (mut before, mut rows) = (None, Vec::new());
        while rows.len() < most {
            let engine = self.app.engine.by(&self.actor);
            let page = engine.job_versions(job.id, before, PAGE).await?;
            for version in page.items {
                rows.push(vec![
                    Value::Int(i64::from(version.version)),
                    Value::Time(version.changed_at),
                    text(&version.changed_by),
                    text(version.changed.join(", ")),
                    text(&version.name),
                    text(state_name(version.state)),
                ]);
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        rows.truncate(most);
        Ok(Answer::rows(VERSIONS, rows))
    }

    pub(super) async fn show_diff(
        &self,
        job: &Spanned<String>,
        from: Option<&Spanned<u32>>,
        to: Option<&Spanned<u32>>,
    ) -> Result<Answer> {
        let job = self.job(job).await?;
        let (from_version, to_version) = (from.map(|it| it.value), to.map(|it| it.value));
        let diff = versions::compare(&self.app, &self.actor, &job, from_version, to_version).await;
        let place = from.or(to).map_or(0, |version| version.at);
        let diff = diff.map_err(|problem: Problem| SqlError::from(problem).or_at(place))?;
        let json = |value: serde_json::Value| match value {
            serde_json::Value::String(value) => text(value),
            value => text(value.to_string()),
        };
        let row = |field: versions::FieldDiff| {
            vec![text(field.path), or_null(field.from, json), or_null(field.to, json)]
        };
        Ok(Answer::rows(DIFFERENCES, diff.fields.into_iter().map(row).collect()))
    }
}
