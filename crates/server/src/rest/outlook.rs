//! Previews of a job: validation and the times to come.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::find;
use super::jobs::new_job;
use super::shape::job::JobSpec;
use super::warnings::{JobWarnings, warnings};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The default number of times shown.
const COUNT_DEFAULT: u32 = 10;

/// The most times that are shown.
const COUNT_MAX: u32 = 1_000;

/// A preview of a job.
#[derive(Serialize, ToSchema)]
pub struct Outlook {
    /// The schedule in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The times to come.
    pub next_runs: Vec<Timestamp>,
    /// Warnings about the definition.
    pub warnings: Vec<String>,
}

/// Checks a job without making it.
#[utoipa::path(
    post, path = "/v1/jobs:validate", operation_id = "validate_job", tag = "jobs", request_body = JobSpec,
    responses((status = 200, body = Outlook), (status = 409, body = ErrorBody))
)]
pub(crate) async fn validate(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<JobSpec>,
) -> Result<Json<Outlook>> {
    let mut new = new_job(&app, &actor, &spec).await?;
    app.engine.by(&actor).check_job(new.clone()).await?;
    app.engine.by(&actor).resolve_calendars(&mut new.definition).await?;
    let now = app.now();
    let warnings = JobWarnings::new(&app).of_new(&new).await;
    outlook(&app, &new.definition, now, COUNT_DEFAULT, warnings).map(Json)
}

/// Which times are shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NextParams {
    /// How many; 10 when absent, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    count: Option<u32>,
    /// Times after this one; the present when absent.
    after: Option<Timestamp>,
}

/// The times at which a job is due next, whatever its state.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/next-runs", operation_id = "list_next_runs", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name."), NextParams),
    responses((status = 200, body = Outlook))
)]
pub(crate) async fn next_runs(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<NextParams>,
) -> Result<Json<Outlook>> {
    let count = params.count.unwrap_or(COUNT_DEFAULT);
    if !(1..=COUNT_MAX).contains(&count) {
        let text = format!("must be 1 to {COUNT_MAX}, not {count}");
        return Err(Problem::field(Code::InvalidRequest, "count", text));
    }
    let job = find::job(&app, &actor, &job).await?;
    let after = params.after.unwrap_or_else(|| app.now());
    let warnings = warnings(&app, &job).await;
    outlook(&app, &job.definition, after, count, warnings).map(Json)
}

fn outlook(
    app: &App,
    definition: &domain::job::Definition,
    after: Timestamp,
    count: u32,
    warnings: Vec<String>,
) -> Result<Outlook> {
    let mut definition = definition.clone();
    let starts_now = definition.when.needs_start();
    if starts_now {
        definition.when.start_at(after);
    }
    let schedule = definition.schedule(&app.zones)?;
    let next = |after| schedule.as_ref().and_then(|schedule| schedule.next(after));
    let first = if starts_now { Some(after) } else { next(after) };
    let times = std::iter::successors(first, |at| next(*at));
    let description = match schedule.as_ref().map(domain::schedule::Schedule::base) {
        Some(domain::schedule::Schedule::Cron(cron)) => Some(cron.describe()),
        _ => None,
    };
    Ok(Outlook { description, next_runs: times.take(count as usize).collect(), warnings })
}
