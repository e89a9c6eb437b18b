//! Jobs as they are shown: the definition, and what is known about the job besides it.

use std::borrow::Cow;

use domain::job::{Job, JobState, When};
use domain::schedule::{Schedule, Zones};
use engine::{LastRun, RecentEnd};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use super::job::JobSpec;
use super::mirror::JobStatus;
use crate::app::App;

/// A job as it is shown.
#[derive(Debug, Serialize)]
pub struct JobView {
    /// State and history.
    #[serde(flatten)]
    pub record: JobRecord,
    /// The definition.
    #[serde(flatten)]
    pub spec: JobSpec,
}

/// Fields of a job besides its definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobRecord {
    /// Its identity.
    pub job_id: Uuid,
    /// When it is due next.
    pub next_run_time: Option<Timestamp>,
    /// The user who made it: it runs with their rights.
    pub created_by: Uuid,
    /// The time that its last run stood for, among those that have ended; in lists and where one
    /// job is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_time: Option<Timestamp>,
    /// How that run ended: `COMPLETED`, `FAILED`, `CANCELLED` or `TIMEOUT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last_status: Option<&'static str>,
    /// Its schedule in words.
    pub schedule_text: String,
    /// How its last runs ended, newest first; in lists that ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_outcomes: Option<Vec<RunOutcome>>,
    /// Permitted operations of the caller: `ALTER`, `DROP`, `EXECUTE` and `VIEW_HISTORY`; in lists and
    /// where one job is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<String>)]
    pub may: Vec<&'static str>,
    /// Warnings: where one job is read or changed, and in lists that ask for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunOutcome {
    /// The run.
    pub execution_id: Uuid,
    /// How it ended.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// The time that it stands for.
    pub at: Timestamp,
}

impl From<&RecentEnd> for RunOutcome {
    fn from(end: &RecentEnd) -> Self {
        RunOutcome { execution_id: end.run.0, status: end.outcome.name(), at: end.scheduled_for }
    }
}

/// The fields of both in one object: a definition on its own refuses those of the other.
impl PartialSchema for JobView {
    fn schema() -> RefOr<Schema> {
        let (mut shown, record) = match (JobSpec::schema(), JobRecord::schema()) {
            (RefOr::T(Schema::Object(spec)), RefOr::T(Schema::Object(record))) => (spec, record),
            (other, _) => return other,
        };
        shown.description = Some("A job as it is shown.".to_owned());
        shown.additional_properties = None;
        shown.properties.extend(record.properties);
        shown.required.extend(record.required);
        shown.into()
    }
}

impl ToSchema for JobView {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobView")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        JobSpec::schemas(schemas);
        JobRecord::schemas(schemas);
    }
}

/// A job that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobCreated {
    /// Its identity.
    pub job_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its activity.
    pub status: JobStatus,
    /// When it is due next.
    pub next_run_time: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Warnings about the definition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
}

impl JobView {
    /// The present view of a job.
    pub fn of(job: &Job, app: &App) -> Self {
        JobView {
            record: JobRecord {
                job_id: job.id.0,
                next_run_time: next_run(job, app),
                created_by: job.owner.0,
                last_run_time: None,
                last_status: None,
                schedule_text: schedule_text(&job.definition.when, &app.zones),
                last_outcomes: None,
                may: Vec::new(),
                warnings: Vec::new(),
                created_at: job.created_at,
                updated_at: job.updated_at,
            },
            spec: JobSpec::of(job),
        }
    }

    /// The same with its last run.
    pub fn with_last(mut self, last: Option<&LastRun>) -> Self {
        self.record.last_run_time = last.map(|last| last.scheduled_for);
        self.record.last_status = last.map(|last| last.outcome.name());
        self
    }
}

/// A schedule in words.
fn schedule_text(when: &When, zones: &Zones) -> String {
    match when {
        When::Manual => "only when triggered".to_owned(),
        When::AfterDependencies => "after the jobs that it depends on".to_owned(),
        When::At { at } => format!("once, at {at}"),
        When::Every { interval, .. } => format!("every {interval:#}"),
        When::Cron { expression, .. } => match when.compile(zones) {
            Ok(Some(Schedule::Cron(cron))) => cron.describe(),
            _ => expression.clone(),
        },
    }
}

impl JobCreated {
    /// The response to a new job.
    pub fn of(job: &Job, app: &App, warnings: Vec<String>) -> Self {
        JobCreated {
            job_id: job.id.0,
            name: job.name.clone(),
            status: job.state.into(),
            next_run_time: next_run(job, app),
            created_at: job.created_at,
            warnings,
        }
    }
}

/// When a job is due next, outside of blackouts. Times that were planned ahead have left the job's
/// own next time behind and have not come yet.
pub fn next_run(job: &Job, app: &App) -> Option<Timestamp> {
    if job.state != JobState::Enabled {
        return None;
    }
    let blackouts = app.engine.node().blackouts(job.tenant);
    let schedule = job.definition.schedule_under(&app.zones, &blackouts).ok().flatten()?;
    // A time that a calendar or a blackout excludes is planned like the others, and does not run.
    let planned = job.next_run.filter(|planned| schedule.exclusion(*planned).is_none());
    match schedule.next(app.now()) {
        Some(next) => Some(planned.map_or(next, |planned| planned.min(next))),
        None => planned,
    }
}
