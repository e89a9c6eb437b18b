//! SHOW CREATE JOB, SHOW JOBS and SHOW JOB RUNS.

use std::collections::HashMap;

use domain::id::JobId;
use domain::job::{Job, When};
use engine::{JobFilter, LastRun, RunFilter};
use query::{Row, Value};
use sql::Spanned;

use super::answer::{JOBS, PRINTED, RUNS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::problem::Problem;
use crate::rest::find;
use crate::rest::shape::job_view::next_run;
use crate::sys::state_name;

/// How many rows a question of the store answers.
pub(super) const PAGE: u32 = 500;

/// How many rows an answer has, at most.
pub(super) const ROWS_MAX: usize = 10_000;

impl Session {
    pub(super) async fn show_create_job(
        &self,
        name: &Spanned<String>,
        version: Option<&Spanned<u32>>,
    ) -> Result<Answer> {
        let mut job = self.job(name).await?;
        if let Some(version) = version {
            job = self.job_at(&job, version).await?;
        }
        if job.definition.is_dag() {
            let error =
                SqlError::from(Problem::no_job(format_args!("{:?}: it is a DAG", job.name)));
            return Err(error.with_hint("Write SHOW CREATE DAG.").or_at(name.at));
        }
        let printed = self.printed(&job).await?;
        Ok(Answer::rows(PRINTED, vec![vec![text(&job.name), text(printed)]]))
    }

    /// The statement that creates a job or a DAG.
    pub(super) async fn printed(&self, job: &Job) -> Result<String> {
        let ids: Vec<JobId> = job.definition.depends_on.iter().map(|it| it.job).collect();
        let jobs = self.app.engine.by(&self.actor).jobs_by_id(&ids).await?;
        let names: HashMap<JobId, String> =
            jobs.into_iter().map(|job| (job.id, job.name)).collect();
        // A job that the actor does not see is known by its id.
        let name_of = |id: JobId| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
        let engine = self.app.engine.by(&self.actor);
        let (definition, timeout) = engine.spelled_out(&job.definition).await?;
        Ok(match definition.is_dag() {
            true => sql::create_dag(&job.name, job.state, &definition, &name_of),
            false => sql::create_job(&job.name, job.state, &definition, &name_of, timeout),
        })
    }

    pub(super) async fn show_jobs(&self, like: Option<&str>) -> Result<Answer> {
        let filter = JobFilter::of_tenant(self.actor.tenant);
        let (mut after, mut rows, mut is_cut) = (None::<String>, Vec::new(), false);
        loop {
            let engine = &self.app.engine;
            let page = engine.by(&self.actor).list_jobs(&filter, after.as_deref(), PAGE).await?;
            let mut jobs = page.items;
            jobs.retain(|job| like.is_none_or(|pattern| is_like(&job.name, pattern)));
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            let last = engine.by(&self.actor).last_runs(&ids).await?;
            let last: HashMap<JobId, LastRun> = last.into_iter().map(|it| (it.job, it)).collect();
            rows.extend(jobs.iter().map(|job| self.job_row(job, last.get(&job.id))));
            after = page.next;
            if rows.len() >= ROWS_MAX {
                is_cut = rows.len() > ROWS_MAX || after.is_some();
                rows.truncate(ROWS_MAX);
                break;
            }
            if after.is_none() {
                break;
            }
        }
        let answer = Answer::rows(JOBS, rows);
        Ok(match is_cut {
            true => answer.with_notice(format!("only the first {ROWS_MAX} jobs are shown")),
            false => answer,
        })
    }

    fn job_row(&self, job: &Job, last: Option<&LastRun>) -> Row {
        vec![
            text(&job.name),
            text(state_name(job.state)),
            text(schedule(&job.definition.when)),
            or_null(next_run(job, &self.app), Value::Time),
            or_null(last.map(|last| last.scheduled_for), Value::Time),
            or_null(last.map(|last| last.outcome.name()), text),
            or_null(job.definition.description.as_ref(), text),
        ]
    }

    pub(super) async fn show_runs(
        &self,
        job: &Spanned<String>,
        limit: Option<u32>,
    ) -> Result<Answer> {
        // The runs of a deleted job are found by its name.
        let found = find::job_ever(&self.app, &self.actor, &job.value).await;
        let job = found.map_err(|problem| SqlError::from(problem).or_at(job.at))?;
        let most = limit.map_or(ROWS_MAX, |limit| limit as usize).min(ROWS_MAX);
        let filter = RunFilter::of_job(job.id);
        let (mut before, mut rows) = (None, Vec::new());
        while rows.len() < most {
            let page = self.app.engine.by(&self.actor).list_runs(&filter, before, PAGE).await?;
            for run in page.items {
                let message = run.message.or(run.error).or(run.reason_text);
                rows.push(vec![
                    Value::Uuid(run.id.0),
                    text(run.state.to_string()),
                    Value::Time(run.scheduled_for),
                    or_null(run.started_at, Value::Time),
                    or_null(run.finished_at, Value::Time),
                    Value::Int(i64::from(run.attempts.saturating_sub(1))),
                    or_null(message, text),
                ]);
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        rows.truncate(most);
        Ok(Answer::rows(RUNS, rows))
    }
}

/// When a job is due, as its clause says it.
pub(super) fn schedule(when: &When) -> String {
    match when {
        When::Manual => "MANUAL".to_owned(),
        When::AfterDependencies => "AFTER DEPENDENCIES".to_owned(),
        When::Cron { expression, zone, .. } => format!("CRON '{expression}' ({zone})"),
        When::Every { interval, .. } => format!("EVERY {interval:#}"),
        When::At { at } => format!("AT '{at}'"),
    }
}

/// A piece of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Any,
    One,
    Letter(char),
}

/// Whether a text matches a pattern of LIKE: `%` is any text, `_` any letter, and a backslash takes
/// their meaning away.
pub(super) fn is_like(text: &str, pattern: &str) -> bool {
    let mut pieces = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        pieces.push(match letter {
            '%' => Piece::Any,
            '_' => Piece::One,
            '\\' => Piece::Letter(letters.next().unwrap_or('\\')),
            letter => Piece::Letter(letter),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut t, mut p) = (0, 0);
    // Where the last % stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pieces.get(p) {
            Some(Piece::Any) => {
                star = Some((p, t));
                p += 1;
            }
            Some(piece) if *piece == Piece::One || *piece == Piece::Letter(text[t]) => {
                t += 1;
                p += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pieces[p..].iter().all(|piece| *piece == Piece::Any)
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("etl_load", "etl%", true),
            ("etl_load", "etl\\_%", true),
            ("etlxload", "etl\\_%", false),
            ("etl_load", "%load", true),
            ("etl_load", "%o_d", true),
            ("etl_load", "load", false),
            ("", "%", true),
            ("", "_", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%c", false),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} LIKE {pattern}");
        }
    }
}
