//! Why a job or a run is in its state, and why a job did or did not run at a time.

use axum::Json;
use axum::extract::{Path, State};
use domain::decide::explain::Line;
use domain::id::RunId;
use engine::{EngineError, Explained};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{ErrorBody, Problem, Result};

/// Which time.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainParams {
    /// The time in question, past or to come: `2026-03-29T00:30:00Z`, a local time of the job's
    /// zone (`2026-03-29 02:30`, `yesterday 02:30`, `02:30`), or a distance (`90m ago`). The job as
    /// a whole when absent.
    at: Option<String>,
}

/// An explanation.
#[derive(Serialize, ToSchema)]
pub struct Explanation {
    /// The id of the job.
    pub job_id: Uuid,
    /// The name of the job.
    pub job_name: String,
    /// The time in question; the present when none was named.
    pub at: Timestamp,
    /// The verdict, a word. About a run: its status, or `RETRYING`, `WAITING`, `PLANNED`. About a
    /// time without a run: `PLANNED`, `LATE`, `NOT_SCHEDULED`, `NO_SCHEDULE`, `PAUSED`, `DISABLED`,
    /// `COMPLETED`, `DELETED`, `BEFORE_JOB`, `BEFORE_CHANGE`, `FORGOTTEN` or `DST_GAP`. About a job
    /// as a whole: `OK`, `FAILING`, `NEW`, `PAUSED`, `DISABLED`, `COMPLETED` or `DELETED`.
    pub verdict: &'static str,
    /// The verdict and its cause, a sentence.
    pub message: String,
    /// The code of the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The execution that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// The whole explanation, line by line, as SQL and the command line show it.
    pub lines: Vec<ExplanationLine>,
    /// The reason that a run has not started, or what may prevent the next one.
    pub obstacles: Vec<String>,
    /// The progress of the parts of the execution, or of the last one before the time, if it was
    /// split: first how many, then those that did not complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub parts: Vec<String>,
    /// The time of the schedule before it.
    pub previous_time: Option<Timestamp>,
    /// The time of the schedule after it; none if nothing is planned in the state of the job.
    pub next_time: Option<Timestamp>,
    /// Local times between those two that do not happen, because clocks jump over them.
    pub skipped: Vec<String>,
}

/// A line of an explanation.
#[derive(Serialize, ToSchema)]
pub struct ExplanationLine {
    /// The topic: `verdict`, `job`, `schedule`, `health`, `now`, `last`, `skipped`, `waits`,
    /// `origin`, `late`, `attempt`, `run`, `parts`, `state`, `step`, `previous`, `dst`, `next` or
    /// `warning`.
    pub aspect: &'static str,
    /// The time that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The line.
    pub text: String,
    /// The result of a step: `PASSED`, `DECIDED`, `NOT_REACHED` or `UNKNOWN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The name of a step, the code of a cause, an outcome or an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The execution that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
}

impl From<Line> for ExplanationLine {
    fn from(line: Line) -> Self {
        ExplanationLine {
            aspect: line.aspect.name(),
            at: line.at,
            text: line.text,
            status: line.status.map(|status| status.name()),
            code: line.code,
            execution_id: line.run.map(|run| run.0),
        }
    }
}

impl Explanation {
    fn new(explained: Explained, now: Timestamp) -> Self {
        let Explained { job, report } = explained;
        let skipped = report.skipped.iter().map(|range| match range.count {
            1 => range.first.to_string(),
            n => format!("{n} times from {} to {}", range.first, range.last),
        });
        Explanation {
            job_id: job.id.0,
            job_name: job.name,
            at: report.at.unwrap_or(now),
            verdict: report.verdict,
            message: report.message,
            cause: report.cause,
            execution_id: report.run.map(|run| run.0),
            skipped: skipped.collect(),
            lines: report.lines.into_iter().map(ExplanationLine::from).collect(),
            obstacles: report.obstacles,
            parts: report.parts,
            previous_time: report.previous,
            next_time: report.next,
        }
    }
}

/// Says how a job is doing, or why it did or did not run at a time. A deleted job is explained by
/// its history, and a renamed one is found by its former name.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/explain", operation_id = "explain_job", tag = "jobs",
    params(("job_id" = String, Path, description = "The job's id or name, present or former."), ExplainParams),
    responses((status = 200, body = Explanation), (status = 422, body = ErrorBody))
)]
pub(crate) async fn explain(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    Params(params): Params<ExplainParams>,
) -> Result<Json<Explanation>> {
    let explained = app.engine.by(&actor).explain(&job, params.at.as_deref(), None).await;
    let explained = match explained {
        Err(EngineError::NotFound(_)) => return Err(find::no_job(&app, &actor, &job).await?),
        explained => explained?,
    };
    let explained = explained.map_err(|error| Problem::invalid("at", error.to_string()))?;
    Ok(Json(Explanation::new(explained, app.now())))
}

/// Says why an execution is in its state: what it waits for, what its attempts came to, and which
/// step decided about it.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/explain", operation_id = "explain_execution", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = Explanation))
)]
pub(crate) async fn explain_run(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Json<Explanation>> {
    let id = run.parse().map_err(|_| Problem::no_execution(format_args!("{run:?}")))?;
    let explained = app.engine.by(&actor).explain_run(id).await?;
    Ok(Json(Explanation::new(explained, app.now())))
}

/// Where a message stands.
#[derive(Serialize, ToSchema)]
pub struct MessageExplanation {
    /// The name of its queue.
    pub queue: String,
    /// The message.
    pub id: Uuid,
    /// `READY`, `PAUSED` (ready, and its queue is paused), `DELAYED`, `LEASED`, `BLOCKED`, or how it ended.
    pub verdict: &'static str,
    /// The verdict and its cause, a sentence.
    pub message: String,
    /// The place in line of a ready message, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// The workspaces that are served before its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspaces_before: Option<Vec<String>>,
    /// How long it probably waits, at the pace of the last messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_seconds: Option<f64>,
    /// The reason that no worker gets it.
    pub obstacles: Vec<String>,
    /// The whole explanation, line by line, as SQL and the command line show it.
    pub lines: Vec<ExplanationLine>,
}

/// Says where a message stands: its place in line, the workspaces before it, and an estimate.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/messages/{message}/explain", operation_id = "explain_message", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue's name or id."),
        ("message" = Uuid, Path, description = "The message's id."),
    ),
    responses((status = 200, body = MessageExplanation))
)]
pub(crate) async fn explain_message(
    State(app): State<App>,
    actor: Actor,
    Path((queue, message)): Path<(String, String)>,
) -> Result<Json<MessageExplanation>> {
    let engine = app.engine.by(&actor);
    let job = engine.queue(&queue).await?;
    let id: RunId =
        message.parse().map_err(|_| Problem::no_execution(format_args!("{message:?}")))?;
    let (line, explained) = engine.explain_message(id).await?;
    if explained.job.id != job.id {
        return Err(Problem::no_execution(id));
    }
    let report = explained.report;
    let (place, workspaces_before, estimate) = match line {
        Some(line) => (Some(line.place), Some(line.workspaces_before), line.estimate),
        None => (None, None, None),
    };
    Ok(Json(MessageExplanation {
        queue: explained.job.name,
        id: id.0,
        verdict: report.verdict,
        message: report.message,
        place,
        workspaces_before,
        estimate_seconds: estimate.map(|time| time.as_secs_f64()),
        obstacles: report.obstacles,
        lines: report.lines.into_iter().map(ExplanationLine::from).collect(),
    }))
}
