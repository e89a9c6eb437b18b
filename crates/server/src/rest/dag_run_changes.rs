//! Changes of DAG runs: cancel, resume, run again, mark a task, answer an approval.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::dag::rerun::{Rerun, RerunFrom};
use domain::id::RunId;
use engine::{RerunReport, StepMark};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::dag_runs::{detail, task_detail};
use super::find;
use super::shape::dag_run::{DagRunDetail, TaskDetail};
use super::shape::mirror::{ApprovalAnswer, RerunVersion};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, OptionalBody};
use crate::page;
use crate::problem::{ErrorBody, Problem, Result};

/// Why a DAG run is cancelled.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CancelDagRunBody {
    /// For people.
    reason: Option<String>,
}

/// A DAG run with the first tasks.
async fn first_page(app: &App, actor: &Actor, run: RunId) -> Result<DagRunDetail> {
    detail(app, actor, run, None, None, page::limit(None)?).await
}

/// Cancels a DAG run: no task starts after the answer, and those that execute are cancelled.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/cancel", operation_id = "cancel_dag_run", tag = "dag runs",
    request_body(content = Option<CancelDagRunBody>),
    params(("dag_run_id" = String, Path, description = "The run's id.")),
    responses((status = 202, body = DagRunDetail), (status = 409, body = ErrorBody))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<CancelDagRunBody>,
) -> Result<(StatusCode, Json<DagRunDetail>)> {
    let run = find::dag_run(&app, &actor, &run).await?;
    // The run of a job has its own address.
    app.engine.by(&actor).dag_run(run).await?;
    let by = format!("{} asked for it", actor.name);
    let text = body.reason.filter(|text| !text.is_empty()).unwrap_or(by);
    app.engine.by(&actor).cancel(run, &text).await?;
    Ok((StatusCode::ACCEPTED, Json(first_page(&app, &actor, run).await?)))
}

/// Lets a DAG run go on that holds after a failure.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/resume", operation_id = "resume_dag_run", tag = "dag runs",
    params(("dag_run_id" = String, Path, description = "The run's id.")),
    responses((status = 202, body = DagRunDetail), (status = 409, body = ErrorBody))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<(StatusCode, Json<DagRunDetail>)> {
    let run = find::dag_run(&app, &actor, &run).await?;
    app.engine.by(&actor).resume_dag_run(run).await?;
    Ok((StatusCode::ACCEPTED, Json(first_page(&app, &actor, run).await?)))
}

/// How a DAG run is run again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerunBody {
    /// Where it begins: `FAILED` (the default: tasks that did not complete, and all behind them) or
    /// `ALL`. Absent if `from_task` is given.
    #[schema(value_type = Option<String>, pattern = "^(FAILED|ALL)$")]
    from: Option<RerunStart>,
    /// Begins at this task, and all behind it.
    from_task: Option<String>,
    /// The version of the DAG that it follows; `SAME` when absent.
    version: Option<RerunVersion>,
    /// Tasks that run although their rule would skip them.
    force: Vec<String>,
    /// Only say what would run.
    dry_run: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum RerunStart {
    Failed,
    All,
}

/// A re-run, or what it would do.
#[derive(Serialize, ToSchema)]
pub struct RerunAnswer {
    /// The new run; absent if this was a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag_run_id: Option<Uuid>,
    /// The run that it repeats.
    pub rerun_of: Uuid,
    /// Tasks that run again.
    pub again: Vec<String>,
    /// Tasks whose outcomes are adopted.
    pub adopted: Vec<AdoptedTask>,
    /// Tasks that the version does not have any more.
    pub removed: Vec<String>,
}

/// A task whose outcome a re-run adopts.
#[derive(Serialize, ToSchema)]
pub struct AdoptedTask {
    /// The name of the task.
    pub task: String,
    /// Its outcome.
    #[schema(value_type = String)]
    pub status: &'static str,
}

/// Runs a DAG run again as a new one; what it does not repeat it adopts.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/rerun", operation_id = "rerun_dag_run", tag = "dag runs",
    request_body(content = Option<RerunBody>),
    params(("dag_run_id" = String, Path, description = "The run's id.")),
    responses(
        (status = 200, body = RerunAnswer, description = "The result of a dry run."),
        (status = 202, body = RerunAnswer), (status = 409, body = ErrorBody),
    )
)]
pub(crate) async fn rerun(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<RerunBody>,
) -> Result<Response> {
    let from = match (body.from, body.from_task) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("from_task", "is given besides from: leave one out"));
        }
        (_, Some(task)) => RerunFrom::Step(task),
        (Some(RerunStart::All), None) => RerunFrom::All,
        _ => RerunFrom::Failed,
    };
    let version = body.version.map(Into::into).unwrap_or_default();
    let rerun = Rerun { from, version, force: body.force };
    let run = find::dag_run(&app, &actor, &run).await?;
    let report = app.engine.by(&actor).rerun_dag(run, rerun, body.dry_run).await?;
    let RerunReport { run: new, again, adopted, removed, .. } = report;
    let task = |(task, outcome): (String, domain::run::Outcome)| AdoptedTask {
        task,
        status: outcome.name(),
    };
    let answer = RerunAnswer {
        dag_run_id: new.map(|new| new.id.0),
        rerun_of: run.0,
        again,
        adopted: adopted.into_iter().map(task).collect(),
        removed,
    };
    let status = if body.dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(answer)).into_response())
}

/// How a task is marked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkBody {
    /// The outcome that it counts as.
    status: MarkedStatus,
    /// The position of the item, from 0; the task as a whole when absent.
    item: Option<u32>,
    /// Why, for the audit.
    #[serde(default)]
    note: String,
}

/// The outcome that a marked task gets.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MarkedStatus {
    /// The task counts as completed.
    Completed,
    /// The task counts as skipped.
    Skipped,
}

/// Marks a task as completed or skipped. Its execution is cancelled if it has not ended.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/tasks/{task}/mark", operation_id = "mark_task", tag = "dag runs",
    request_body = MarkBody,
    params(
        ("dag_run_id" = String, Path, description = "The run's id."),
        ("task" = String, Path, description = "The name of the task."),
    ),
    responses((status = 200, body = TaskDetail), (status = 409, body = ErrorBody))
)]
pub(crate) async fn mark(
    State(app): State<App>,
    actor: Actor,
    Path((run, task)): Path<(String, String)>,
    Body(body): Body<MarkBody>,
) -> Result<Json<TaskDetail>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    let mark = match body.status {
        MarkedStatus::Completed => StepMark::Succeeded,
        MarkedStatus::Skipped => StepMark::Skipped,
    };
    app.engine.by(&actor).mark_step(run, &task, body.item, mark, &body.note).await?;
    Ok(Json(task_detail(&app, &actor, run, &task, body.item).await?))
}

/// The answer to an approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionBody {
    /// The answer.
    answer: ApprovalAnswer,
    /// Why, for the audit and the task's message.
    #[serde(default)]
    note: String,
}

/// Answers a task that waits for an approval.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/tasks/{task}/decide", operation_id = "decide_task", tag = "dag runs",
    request_body = DecisionBody,
    params(
        ("dag_run_id" = String, Path, description = "The run's id."),
        ("task" = String, Path, description = "The name of the task."),
    ),
    responses((status = 200, body = TaskDetail), (status = 409, body = ErrorBody))
)]
pub(crate) async fn decide(
    State(app): State<App>,
    actor: Actor,
    Path((run, task)): Path<(String, String)>,
    Body(body): Body<DecisionBody>,
) -> Result<Json<TaskDetail>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    app.engine.by(&actor).decide_approval(run, &task, body.answer.into(), &body.note).await?;
    Ok(Json(task_detail(&app, &actor, run, &task, None).await?))
}
