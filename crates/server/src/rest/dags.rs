//! DAGs: made, listed, shown, changed, removed, triggered.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::dag::{Graph, STEP_TIMEOUT, check, path};
use domain::id::JobId;
use domain::job::{Job, JobState};
use domain::job_defaults::JobDefaults;
use domain::raw_json::RawJson;
use engine::{Deletion, JobFilter, LastRun, NewJob, RunFilter, Trigger};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::backfill::{BackfillBody, Backfilled, backfilled};
use super::find;
use super::job_patch::{forget_replaced, merge};
use super::jobs::may;
use super::shape::dag::{DagCreated, DagRecord, DagSpec, DagView, READ_ONLY, invalid, levels};
use super::verbs::parameters_text;
use super::warnings::{JobWarnings, warnings};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, OptionalBody, PATCH_KINDS, Params, parse, read, require_json};
use crate::condition::{Condition, etag, is_known, not_modified};
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Makes a DAG.
#[utoipa::path(
    post, path = "/v1/dags", operation_id = "create_dag", tag = "dags", request_body = DagSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = DagCreated))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<Value>,
) -> Result<Response> {
    let defaults = app.engine.by(&actor).job_defaults().await?;
    let new = new_dag(&app, &actor, &DagSpec::read(body)?, &defaults).await?.0;
    let missing = || Problem::new(Code::Internal, "the DAG was not made");
    let job = app.engine.by(&actor).create_jobs(vec![new]).await?.pop().ok_or_else(missing)??;
    let warnings = warnings(&app, &job).await;
    let body = DagCreated::of(&job, &app, warnings);
    let location = HeaderValue::from_str(&format!("/v1/dags/{}", job.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1/dags"));
    let headers = [etag(job.version), (header::LOCATION, location)];
    Ok((StatusCode::CREATED, headers, Json(body)).into_response())
}

/// The DAG of a request, and its graph.
async fn new_dag(
    app: &App,
    actor: &Actor,
    spec: &DagSpec,
    defaults: &JobDefaults,
) -> Result<(NewJob, Graph)> {
    let upstream = find::upstream(app, actor, &spec.job).await?;
    let mut definition = spec.definition(upstream, app.now(), &app.zones)?;
    // The timeout of a DAG run is not that of an attempt.
    defaults.fill(&mut definition, true);
    let dag = definition.dag.as_deref().cloned().unwrap_or_default();
    let graph = check(&dag).map_err(|error| invalid(&dag, &error))?;
    let new = NewJob {
        tenant: actor.tenant,
        owner: actor.user,
        name: spec.job.parts.name.clone(),
        definition,
        state: spec.job.parts.state()?.unwrap_or(JobState::Enabled),
    };
    Ok((new, graph))
}

/// A preview of a DAG.
#[derive(Serialize, ToSchema)]
pub struct DagOutlook {
    /// The number of its tasks.
    pub task_count: usize,
    /// The number of its dependencies.
    pub dependency_count: usize,
    /// The names of its tasks, level by level: those of a level depend on none of each other.
    pub levels: Vec<Vec<String>>,
    /// The tasks of the longest way through it.
    pub critical_path: Vec<String>,
    /// How long that way takes by the durations of the last run that completed; absent if no DAG of
    /// this name has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_seconds: Option<f64>,
    /// How long the longest way takes at most without retries, by the timeouts of its tasks.
    pub longest_seconds: f64,
    /// The times to come.
    pub next_runs: Vec<Timestamp>,
    /// Warnings about the definition.
    pub warnings: Vec<String>,
}

/// The number of next times that a validation shows.
const NEXT_RUNS: usize = 5;

/// Checks a DAG without making it: levels, critical path, next times.
#[utoipa::path(
    post, path = "/v1/dags/validate", operation_id = "validate_dag", tag = "dags", request_body = DagSpec,
    responses((status = 200, body = DagOutlook), (status = 409, body = ErrorBody))
)]
pub(crate) async fn validate(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<Value>,
) -> Result<Json<DagOutlook>> {
    let defaults = app.engine.by(&actor).job_defaults().await?;
    let (new, graph) = new_dag(&app, &actor, &DagSpec::read(body)?, &defaults).await?;
    let known = app.engine.by(&actor).dag(&new.name).await.ok();
    if known.is_none() {
        app.engine.by(&actor).check_job(new.clone()).await?;
    }
    let warnings = JobWarnings::new(&app).of_new(&new).await;
    let measured = match &known {
        Some(dag) => durations(&app, &actor, dag.id).await?,
        None => HashMap::new(),
    };
    let longest = |step: u32| graph.step(step).step.timeout.unwrap_or(STEP_TIMEOUT);
    let (longest_path, longest_time) = path::estimate(&graph, longest);
    let taken = |step: u32| measured.get(graph.name(step)).copied().unwrap_or_default();
    let (estimated_path, estimated) = path::estimate(&graph, taken);
    let path = if measured.is_empty() { longest_path } else { estimated_path };
    let schedule = new.definition.when.compile(&app.zones).ok().flatten();
    let next = |after: &Timestamp| schedule.as_ref().and_then(|schedule| schedule.next(*after));
    let next_runs = std::iter::successors(next(&app.now()), next).take(NEXT_RUNS).collect();
    Ok(Json(DagOutlook {
        task_count: new.definition.dag.as_ref().map_or(0, |dag| dag.steps.len()),
        dependency_count: graph.steps().iter().map(|step| step.parents.len()).sum(),
        levels: levels(&graph),
        critical_path: path.iter().map(|step| graph.name(*step).to_owned()).collect(),
        estimated_seconds: (!measured.is_empty()).then(|| estimated.as_secs_f64()),
        longest_seconds: longest_time.as_secs_f64(),
        next_runs,
        warnings,
    }))
}

/// How long the tasks of the last run that completed took, by name.
async fn durations(
    app: &App,
    actor: &Actor,
    dag: JobId,
) -> Result<HashMap<String, SignedDuration>> {
    let completed = domain::run::RunState::Ended(domain::run::Outcome::Completed);
    let filter =
        RunFilter { states: vec![completed], without_steps: true, ..RunFilter::of_job(dag) };
    let engine = app.engine.by(actor);
    let mut found = HashMap::new();
    let Some(run) = engine.list_runs(&filter, None, 1).await?.items.pop() else {
        return Ok(found);
    };
    let mut after = None;
    loop {
        let page = engine.dag_steps(run.id, None, after, page::LIMIT_MAX).await?;
        for step in page.items {
            if let (Some(from), Some(until)) = (step.decided_at, step.ended_at) {
                found.insert(step.name, until.duration_since(from));
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Which DAGs a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DagParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Only DAGs with this tag.
    tag: Option<String>,
    /// Only DAGs whose names begin like this.
    name_prefix: Option<String>,
}

/// Lists DAGs by name, without their tasks.
#[utoipa::path(
    get, path = "/v1/dags", operation_id = "list_dags", tag = "dags", params(DagParams),
    responses((status = 200, body = List<DagView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<DagParams>,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = page::cursor(params.cursor.as_deref())?;
    let filter = JobFilter {
        tag: params.tag,
        prefix: params.name_prefix,
        ..JobFilter::of_tenant(actor.tenant)
    };
    let engine = app.engine.by(&actor);
    let dags = engine.list_dags(&filter, after.as_deref(), limit).await?;
    let ids: Vec<JobId> = dags.items.iter().map(|dag| dag.id).collect();
    let last = engine.last_runs(&ids).await?;
    let last: HashMap<JobId, LastRun> = last.into_iter().map(|last| (last.job, last)).collect();
    let view = |dag: &Job| {
        let record = DagRecord::of(dag, last.get(&dag.id), &app);
        DagView::new(dag, &DagRecord { may: may(&actor, dag), ..record }, false)
    };
    Ok(List::new(dags.items.iter().map(view).collect(), dags.next).answer(&uri))
}

/// Shows a DAG with its tasks.
#[utoipa::path(
    get, path = "/v1/dags/{dag_id}", operation_id = "get_dag", tag = "dags",
    params(("dag_id" = String, Path, description = "The DAG's id or name.")),
    responses((status = 200, body = DagView), (status = 304))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    if is_known(&headers, dag.version) {
        return Ok(not_modified(dag.version));
    }
    shown(&app, &actor, &dag).await
}

/// A DAG as an answer.
async fn shown(app: &App, actor: &Actor, job: &Job) -> Result<Response> {
    let last = app.engine.by(actor).last_runs(&[job.id]).await?;
    let graph = job.definition.dag.as_deref().and_then(|dag| check(dag).ok());
    let record = DagRecord {
        levels: graph.as_ref().map(levels),
        may: may(actor, job),
        warnings: warnings(app, job).await,
        ..DagRecord::of(job, last.first(), app)
    };
    Ok(([etag(job.version)], Json(DagView::new(job, &record, true))).into_response())
}

/// Replaces a DAG. Its runs go on with the version that they began with.
#[utoipa::path(
    put, path = "/v1/dags/{dag_id}", operation_id = "replace_dag", tag = "dags", request_body = DagSpec,
    params(
        ("dag_id" = String, Path, description = "The DAG's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the DAG that the change is based on."),
    ),
    responses((status = 200, body = DagView))
)]
pub(crate) async fn replace(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    request: Request,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    require_json(&request, &["application/json"])?;
    let headers = request.headers().clone();
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let defaults = app.engine.by(&actor).job_defaults().await?.for_replaced(&dag.definition);
    change(&app, &actor, dag, DagSpec::read(parse(&bytes)?)?, &defaults, &headers).await
}

/// Changes some fields of a DAG (RFC 7396). `tasks` is replaced as a whole.
#[utoipa::path(
    patch, path = "/v1/dags/{dag_id}", operation_id = "patch_dag", tag = "dags",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(
        ("dag_id" = String, Path, description = "The DAG's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the DAG that the change is based on."),
    ),
    responses((status = 200, body = DagView))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    request: Request,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    require_json(&request, &PATCH_KINDS)?;
    let headers = request.headers().clone();
    let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
    let mut changes: Value = parse(&bytes)?;
    let Some(fields) = changes.as_object_mut() else {
        let text = "a merge patch is a JSON object with the fields to change";
        return Err(Problem::new(Code::ValidationFailed, text));
    };
    fields.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    let has_version = fields.contains_key("version");
    let mut merged = Value::Object(DagSpec::of(&dag).fields());
    forget_replaced(&mut merged, &changes, false);
    merge(&mut merged, changes);
    // The merge is based on this version, whether the request names it or not.
    if !has_version {
        merged["version"] = Value::from(dag.version);
    }
    let defaults = JobDefaults::default();
    change(&app, &actor, dag, DagSpec::read(merged)?, &defaults, &headers).await
}

async fn change(
    app: &App,
    actor: &Actor,
    dag: Job,
    spec: DagSpec,
    defaults: &JobDefaults,
    headers: &HeaderMap,
) -> Result<Response> {
    let condition = Condition::of(headers, spec.job.parts.version, app)?;
    let new = new_dag(app, actor, &spec, defaults).await?.0;
    let state = spec.job.parts.state()?;
    let edit = move |job: &mut Job| {
        condition.check_of("DAG", job.version)?;
        let is_rescheduled = job.definition.when != new.definition.when;
        job.name = new.name;
        job.definition = new.definition;
        job.state = match (state, job.state) {
            (Some(state), _) => state,
            (None, JobState::Completed) if is_rescheduled => JobState::Enabled,
            (None, state) => state,
        };
        Ok::<(), Problem>(())
    };
    let job = app.engine.by(actor).alter_job(dag.id, edit).await?;
    shown(app, actor, &job).await
}

/// Treatment of the history of a deleted DAG, and of jobs that depend on it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteDagParams {
    /// Removes the DAG even if others depend on it; they depend on it no more.
    #[serde(default)]
    cascade: bool,
    /// Deletes its history soon, instead of when its time is over.
    #[serde(default)]
    purge_history: bool,
    /// Cancels its runs that have not ended, instead of letting them end.
    #[serde(default)]
    cancel_running: bool,
}

/// Removes a DAG. Its history remains until its time is over, unless `purge_history` is set.
#[utoipa::path(
    delete, path = "/v1/dags/{dag_id}", operation_id = "delete_dag", tag = "dags",
    params(
        ("dag_id" = String, Path, description = "The DAG's id or name."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the DAG."),
        DeleteDagParams,
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    Params(params): Params<DeleteDagParams>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let dag = find::dag(&app, &actor, &dag).await?;
    let condition = Condition::of(&headers, None, &app)?;
    condition.check_of("DAG", dag.version)?;
    let deletion = Deletion {
        cascade: params.cascade,
        purge_history: params.purge_history,
        cancel_running: params.cancel_running,
        expected: condition.version(),
    };
    app.engine.by(&actor).delete_job(dag.id, deletion).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Holds a DAG: no run of it starts until it is resumed.
#[utoipa::path(
    post, path = "/v1/dags/{dag_id}/pause", operation_id = "pause_dag", tag = "dags",
    params(("dag_id" = String, Path, description = "The DAG's id or name.")),
    responses((status = 200, body = DagView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    let dag = app.engine.by(&actor).pause_job(dag.id).await?;
    shown(&app, &actor, &dag).await
}

/// Lets a paused DAG go on: the times of the pause follow its catch-up policy.
#[utoipa::path(
    post, path = "/v1/dags/{dag_id}/resume", operation_id = "resume_dag", tag = "dags",
    params(("dag_id" = String, Path, description = "The DAG's id or name.")),
    responses((status = 200, body = DagView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
) -> Result<Response> {
    let dag = find::dag(&app, &actor, &dag).await?;
    let dag = app.engine.by(&actor).resume_job(dag.id, None).await?;
    shown(&app, &actor, &dag).await
}

/// A run of a DAG that is asked for.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerDagBody {
    /// Values for this run, before those of the DAG.
    #[serde(alias = "parameters")]
    #[schema(value_type = Option<Object>)]
    config: Option<BTreeMap<String, RawJson>>,
    /// The time that the run stands for; the present when absent.
    scheduled_time: Option<Timestamp>,
    /// The id of the run, a version 7 UUID: the same id starts one run.
    dag_run_id: Option<Uuid>,
    /// Whether to wait for the jobs that the DAG depends on.
    with_dependencies: bool,
}

/// A DAG run that was accepted.
#[derive(Serialize, ToSchema)]
pub struct AcceptedDagRun {
    /// The run.
    pub dag_run_id: Uuid,
    /// Its DAG.
    pub dag_id: Uuid,
    /// The time that it stands for.
    pub scheduled_time: Timestamp,
}

/// Starts a run of a DAG, also of a paused one.
#[utoipa::path(
    post, path = "/v1/dags/{dag_id}/trigger", operation_id = "trigger_dag", tag = "dags",
    request_body(content = Option<TriggerDagBody>),
    params(
        ("dag_id" = String, Path, description = "The DAG's id or name."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day."),
    ),
    responses((status = 202, body = AcceptedDagRun))
)]
pub(crate) async fn trigger(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    OptionalBody(body): OptionalBody<TriggerDagBody>,
) -> Result<Response> {
    if body.dag_run_id.is_some_and(|id| id.get_version_num() != 7) {
        return Err(Problem::invalid("dag_run_id", "must be a version 7 UUID"));
    }
    let dag = find::dag(&app, &actor, &dag).await?;
    let trigger = Trigger {
        at: body.scheduled_time,
        parameters: parameters_text("config", body.config.as_ref())?,
        with_dependencies: body.with_dependencies,
        chosen: body.dag_run_id,
        requested_by: None,
    };
    let run = app.engine.by(&actor).trigger_named(&dag.id.to_string(), trigger).await?;
    Ok(accepted(&run, StatusCode::ACCEPTED))
}

/// The answer to a request that started a DAG run.
pub(super) fn accepted(run: &domain::run::NewRun, status: StatusCode) -> Response {
    let body = AcceptedDagRun {
        dag_run_id: run.id.0,
        dag_id: run.job.0,
        scheduled_time: run.scheduled_for,
    };
    let location = HeaderValue::from_str(&format!("/v1/dag-runs/{}", run.id));
    let location = location.unwrap_or(HeaderValue::from_static("/v1/dag-runs"));
    (status, [(header::LOCATION, location)], Json(body)).into_response()
}

/// Asks for runs of times that have passed.
#[utoipa::path(
    post, path = "/v1/dags/{dag_id}/backfill", operation_id = "backfill_dag", tag = "dags", request_body = BackfillBody,
    params(("dag_id" = String, Path, description = "The DAG's id or name.")),
    responses(
        (status = 200, body = Backfilled, description = "The runs that would start."), (status = 202, body = Backfilled),
        (status = 409, body = ErrorBody),
    )
)]
pub(crate) async fn backfill(
    State(app): State<App>,
    actor: Actor,
    Path(dag): Path<String>,
    Body(body): Body<BackfillBody>,
) -> Result<(StatusCode, Json<Backfilled>)> {
    let dag = find::dag(&app, &actor, &dag).await?;
    backfilled(&app, &actor, dag.id, body).await
}
