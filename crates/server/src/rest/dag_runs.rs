//! DAG runs: listed and shown with their tasks.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::Uri;
use axum::response::Response;
use domain::access::Deed;
use domain::dag::state::{Control, StepKey, StepState};
use domain::id::RunId;
use domain::job::JobKind;
use domain::run::RunState;
use engine::{RunFilter, RunView, RunsOf};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::executions::STATUSES;
use super::find;
use super::shape::dag_run::{DagRun, DagRunDetail, TaskDetail};
use super::shape::execution::Attempt;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::page::{self, List};
use crate::problem::Result;

/// Which DAG runs a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DagRunParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Only runs with one of these statuses, with commas between them.
    #[param(
        example = "FAILED,TIMEOUT",
        pattern = "^(PENDING|QUEUED|RUNNING|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED)( *, *(PENDING|QUEUED|RUNNING|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED))*$"
    )]
    status: Option<String>,
    /// Only runs for this time and later.
    since: Option<Timestamp>,
    /// Only runs for earlier times than this.
    until: Option<Timestamp>,
}

/// Lists the runs of a DAG, newest first.
#[utoipa::path(
    get, path = "/v1/dags/{dag_id}/runs", operation_id = "list_runs_of_dag", tag = "dag runs",
    params(("dag_id" = String, Path, description = "The DAG's id or name."), DagRunParams),
    responses((status = 200, body = List<DagRun>))
)]
pub(crate) async fn list_of_dag(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<DagRunParams>,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    page_of(&app, &actor, RunsOf::Job(dag.id), &params, &uri).await
}

/// Lists the runs of all DAGs, newest first. A page may be short and have a next one.
#[utoipa::path(
    get, path = "/v1/dag-runs", operation_id = "list_dag_runs", tag = "dag runs", params(DagRunParams),
    responses((status = 200, body = List<DagRun>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<DagRunParams>,
) -> Result<Response> {
    page_of(&app, &actor, RunsOf::Tenant(actor.tenant), &params, &uri).await
}

async fn page_of(
    app: &App,
    actor: &Actor,
    of: RunsOf,
    params: &DagRunParams,
    uri: &Uri,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let before = match page::cursor(params.cursor.as_deref())? {
        Some(text) => Some(text.parse().map_err(|_| page::bad_cursor())?),
        None => None,
    };
    let filter = RunFilter {
        states: page::words("status", &params.status, &STATUSES)?,
        without_steps: true,
        since: params.since,
        until: params.until,
        ..RunFilter::new(of)
    };
    let engine = app.engine.by(actor);
    let runs = engine.list_runs(&filter, before, limit).await?;
    let jobs = engine.jobs_of(&runs.items).await?;
    let name_of = |run: &RunView| {
        let job = jobs.iter().find(|job| job.id == run.job);
        job.filter(|job| job.definition.kind() == JobKind::Dag).map(|job| job.name.clone())
    };
    let shown = runs.items.into_iter().filter_map(|run| {
        let name = name_of(&run)?;
        Some(DagRun::of(run, Some(name)))
    });
    Ok(List::new(shown.collect(), runs.next).answer(uri))
}

/// Which tasks of a DAG run are shown.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TaskParams {
    /// How many tasks; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Show the items of this task instead of the tasks.
    items_of: Option<String>,
}

/// The key of a task as a cursor: `12` or `12.3`.
fn key(text: &str) -> Option<StepKey> {
    let (step, item) = match text.split_once('.') {
        Some((step, item)) => (step, Some(item.parse().ok()?)),
        None => (text, None),
    };
    Some(StepKey { step: step.parse().ok()?, item })
}

/// Shows a DAG run with a page of its tasks.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}", operation_id = "get_dag_run", tag = "dag runs",
    params(("dag_run_id" = String, Path, description = "The run's id."), TaskParams),
    responses((status = 200, body = DagRunDetail))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<TaskParams>,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = match page::cursor(params.cursor.as_deref())? {
        Some(text) => Some(key(&text).ok_or_else(page::bad_cursor)?),
        None => None,
    };
    let run = find::dag_run(&app, &actor, &run).await?;
    let detail = detail(&app, &actor, run, params.items_of.as_deref(), after, limit).await?;
    let link = page::link(&uri, detail.next_cursor.as_deref());
    Ok(page::linked(axum::response::IntoResponse::into_response(Json(detail)), link))
}

/// A DAG run as it is shown.
pub(super) async fn detail(
    app: &App,
    actor: &Actor,
    run: RunId,
    items_of: Option<&str>,
    after: Option<StepKey>,
    limit: u32,
) -> Result<DagRunDetail> {
    let engine = app.engine.by(actor);
    let view = engine.dag_run(run).await?;
    let tasks = engine.dag_steps(run, items_of, after, limit).await?;
    let may_execute = actor.may(Deed::ExecuteJob(view.dag.job.owner)).is_ok();
    let mut may = Vec::new();
    if may_execute {
        match (view.run.state, view.control) {
            (RunState::Ended(_), _) => may.push("RERUN"),
            (_, Control::Held) => may.extend(["CANCEL", "RESUME"]),
            (_, Control::Cancelling) => {}
            _ => may.push("CANCEL"),
        }
    }
    let next = tasks.next.map(|key| match key.item {
        Some(item) => format!("{}.{item}", key.step),
        None => key.step.to_string(),
    });
    let next = List::<()>::new(Vec::new(), next).next_cursor;
    Ok(DagRunDetail { may, ..DagRunDetail::new(view, tasks.items, next) })
}

/// Which item of a task.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemParams {
    /// The position of the item, from 0; the task as a whole when absent.
    pub(super) item: Option<u32>,
}

/// Shows a task of a DAG run with its inputs, its result and its attempts.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}/tasks/{task}", operation_id = "get_task", tag = "dag runs",
    params(
        ("dag_run_id" = String, Path, description = "The run's id."),
        ("task" = String, Path, description = "The name of the task."),
        ItemParams,
    ),
    responses((status = 200, body = TaskDetail))
)]
pub(crate) async fn task(
    State(app): State<App>,
    actor: Actor,
    Path((run, task)): Path<(String, String)>,
    Params(params): Params<ItemParams>,
) -> Result<Json<TaskDetail>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    Ok(Json(task_detail(&app, &actor, run, &task, params.item).await?))
}

/// A task as it is shown.
pub(super) async fn task_detail(
    app: &App,
    actor: &Actor,
    run: RunId,
    task: &str,
    item: Option<u32>,
) -> Result<TaskDetail> {
    let engine = app.engine.by(actor);
    let view = engine.dag_run(run).await?;
    let step = engine.dag_step(run, task, item).await?;
    let attempts = match &step.run {
        Some(run) => engine.attempts(run.id).await?.into_iter().map(Attempt::of).collect(),
        None => Vec::new(),
    };
    let mut may = Vec::new();
    if !matches!(view.run.state, RunState::Ended(_)) {
        let is_over = matches!(step.state, StepState::Ended(_));
        if !is_over && actor.may(Deed::ExecuteJob(view.dag.job.owner)).is_ok() {
            may.push("MARK");
        }
        if step.state == StepState::Open && engine.may_answer(run, &view.dag, step.key.step).await?
        {
            may.push("DECIDE");
        }
    }
    Ok(TaskDetail { may, ..TaskDetail::new(step, attempts, &view.dag) })
}
