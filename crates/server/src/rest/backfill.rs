//! Runs for times of the past.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use domain::id::JobId;
use domain::raw_json::RawJson;
use engine::Backfill;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::find;
use super::verbs::parameters_text;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::problem::{ErrorBody, Problem, Result};

/// Which times are filled.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillBody {
    /// From this time on.
    from: Timestamp,
    /// Up to this time.
    until: Timestamp,
    /// How many of the runs may be at work at a time, at most the concurrency of the job; as many as
    /// the job allows if absent.
    #[serde(default)]
    concurrency: Option<u32>,
    /// Newest first instead of oldest first.
    #[serde(default)]
    newest_first: bool,
    /// Only say what would run.
    #[serde(default)]
    dry_run: bool,
    /// Values for the action.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    parameters: Option<BTreeMap<String, RawJson>>,
}

/// The times that are filled, in the order in which they run.
#[derive(Serialize, ToSchema)]
pub struct Backfilled {
    /// How many.
    pub count: usize,
    /// The times.
    pub scheduled_times: Vec<Timestamp>,
}

/// Asks for runs of times that have passed; works while the job is paused.
#[utoipa::path(
    post, path = "/v1/jobs/{job_id}/backfill", operation_id = "backfill_job", tag = "jobs", request_body = BackfillBody,
    params(("job_id" = String, Path, description = "The job's id or name.")),
    responses(
        (status = 200, body = Backfilled, description = "The runs that would start."), (status = 202, body = Backfilled),
        (status = 409, body = ErrorBody),
    )
)]
pub(crate) async fn backfill(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Body(body): Body<BackfillBody>,
) -> Result<(StatusCode, Json<Backfilled>)> {
    let job = find::job(&app, &actor, &job).await?;
    backfilled(&app, &actor, job.id, body).await
}

/// Asks for runs of a job or a DAG.
pub(super) async fn backfilled(
    app: &App,
    actor: &Actor,
    job: JobId,
    body: BackfillBody,
) -> Result<(StatusCode, Json<Backfilled>)> {
    if body.from > body.until {
        return Err(Problem::invalid("until", "must not be before from"));
    }
    let backfill = Backfill {
        from: body.from,
        until: body.until,
        concurrency: body.concurrency,
        newest_first: body.newest_first,
        dry_run: body.dry_run,
        parameters: parameters_text("parameters", body.parameters.as_ref())?,
        requested_by: None,
    };
    let times = app.engine.by(actor).backfill(job, backfill).await?;
    let status = if body.dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(Backfilled { count: times.len(), scheduled_times: times })))
}
