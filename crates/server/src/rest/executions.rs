//! Executions: listed, shown, cancelled, tried again.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::access::Deed;
use domain::id::{JobId, RunId, UserId};
use domain::job::Job;
use domain::run::{Origin, Outcome, RunState};
use engine::{Page, RunFilter, RunView, RunsOf};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use super::run_choice::RunChoice;
use super::shape::execution::{Attempt, Execution};
use super::shape::mirror::LostAnswer;
use super::verbs::{Accepted, accepted};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, OptionalBody, Params};
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Which executions a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExecutionParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Only executions with one of these statuses, with commas between them.
    #[param(
        example = "FAILED,TIMEOUT",
        pattern = "^(PENDING|QUEUED|RUNNING|HELD|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED)( *, *(PENDING|QUEUED|RUNNING|HELD|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED))*$"
    )]
    status: Option<String>,
    /// Only executions that this asked for: `SCHEDULE`, `CATCH_UP`, `MANUAL`, `BACKFILL`,
    /// `DEPENDENCY` or `PART`.
    #[param(pattern = "^(SCHEDULE|CATCH_UP|MANUAL|BACKFILL|DEPENDENCY|PART)$")]
    origin: Option<String>,
    /// Only executions of this job, by its id or name.
    job: Option<String>,
    /// Only executions for this time and later, in milliseconds.
    since: Option<Timestamp>,
    /// Only executions for earlier times than this, in milliseconds.
    until: Option<Timestamp>,
    /// Only executions whose last attempt this node made, by its name or id.
    node: Option<String>,
    /// Only executions whose error or reason contains this text, in upper or lower case.
    error: Option<String>,
}

/// How long rare runs are looked for with one request.
const SEARCH_TIME: SignedDuration = SignedDuration::from_millis(150);

pub(super) const STATUSES: [(&str, RunState); 10] = [
    ("PENDING", RunState::Pending),
    ("QUEUED", RunState::Queued),
    ("RUNNING", RunState::Running),
    ("HELD", RunState::Held),
    ("COMPLETED", RunState::Ended(Outcome::Completed)),
    ("FAILED", RunState::Ended(Outcome::Failed)),
    ("CANCELLED", RunState::Ended(Outcome::Cancelled)),
    ("TIMEOUT", RunState::Ended(Outcome::Timeout)),
    ("SKIPPED", RunState::Ended(Outcome::Skipped)),
    ("MISSED", RunState::Ended(Outcome::Missed)),
];

pub(super) const ORIGINS: [(&str, Origin); 8] = [
    ("SCHEDULE", Origin::Schedule),
    ("CATCH_UP", Origin::CatchUp),
    ("MANUAL", Origin::Manual),
    ("BACKFILL", Origin::Backfill),
    ("DEPENDENCY", Origin::Dependency),
    ("PART", Origin::Part),
    ("MESSAGE", Origin::Message),
    ("STEP", Origin::Step),
];

/// A page of runs.
async fn page_of(
    app: &App,
    actor: &Actor,
    of: RunsOf,
    params: &ExecutionParams,
) -> Result<Page<RunView, RunId>> {
    let limit = page::limit(params.limit)?;
    let before = match page::cursor(params.cursor.as_deref())? {
        Some(text) => Some(text.parse().map_err(|_| page::bad_cursor())?),
        None => None,
    };
    let filter = RunFilter {
        states: page::words("status", &params.status, &STATUSES)?,
        until: params.until,
        origin: page::word("origin", &params.origin, &ORIGINS)?,
        since: params.since,
        ..RunFilter::new(of)
    };
    let choice = RunChoice::read(actor, "", params.node.as_deref(), params.error.as_deref())?;
    let read = |wanted: u32| if choice.is_plain() { wanted } else { page::LIMIT_MAX };
    let mut runs = app.engine.by(actor).list_runs(&filter, before, read(limit)).await?;
    choice.narrow(app, &mut runs.items).await?;
    // The search for rare matches continues over more pages, up to a time limit.
    let enough = app.now().saturating_add(SEARCH_TIME).unwrap_or(Timestamp::MAX);
    while let Some(next) = runs.next {
        let wanted = limit.saturating_sub(runs.items.len() as u32);
        if wanted == 0 || app.now() >= enough {
            break;
        }
        let mut more = app.engine.by(actor).list_runs(&filter, Some(next), read(wanted)).await?;
        choice.narrow(app, &mut more.items).await?;
        runs.items.extend(more.items);
        runs.next = more.next;
    }
    // More was read than a page has: the next one begins after its last row.
    if runs.items.len() > limit as usize {
        runs.items.truncate(limit as usize);
        runs.next = runs.items.last().map(|run| run.id);
    }
    Ok(runs)
}

/// Lists executions of all jobs, newest first.
#[utoipa::path(
    get, path = "/v1/executions", operation_id = "list_executions", tag = "executions", params(ExecutionParams),
    responses((status = 200, body = List<Execution>), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<ExecutionParams>,
) -> Result<Response> {
    let of = match &params.job {
        Some(job) => RunsOf::Job(find::job_ever(&app, &actor, job).await?.id),
        None => RunsOf::Tenant(actor.tenant),
    };
    let runs = page_of(&app, &actor, of, &params).await?;
    Ok(List::new(named(&app, &actor, runs.items).await?, runs.next).answer(&uri))
}

/// Lists dead letters: executions that failed for the last time and are not acknowledged, newest first.
#[utoipa::path(
    get, path = "/v1/dead-letters", operation_id = "list_dead_letters", tag = "executions", params(ExecutionParams),
    responses((status = 200, body = List<Execution>), (status = 404, body = ErrorBody))
)]
pub(crate) async fn dead_letters(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<ExecutionParams>,
) -> Result<Response> {
    let job = match &params.job {
        Some(job) => Some(find::job_ever(&app, &actor, job).await?.id),
        None => None,
    };
    let of = RunsOf::DeadLetters { tenant: actor.tenant, job };
    let runs = page_of(&app, &actor, of, &params).await?;
    Ok(List::new(named(&app, &actor, runs.items).await?, runs.next).answer(&uri))
}

/// Lists the executions of a job, newest first.
#[utoipa::path(
    get, path = "/v1/jobs/{job_id}/executions", operation_id = "list_job_executions", tag = "executions",
    params(("job_id" = String, Path, description = "The job's id or name."), ExecutionParams),
    responses((status = 200, body = List<Execution>))
)]
pub(crate) async fn list_of_job(
    State(app): State<App>,
    actor: Actor,
    Path(job): Path<String>,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<ExecutionParams>,
) -> Result<Response> {
    let job = find::job_ever(&app, &actor, &job).await?;
    if params.job.is_some() {
        let text = "the address names the job already";
        return Err(Problem::field(Code::InvalidRequest, "job", text));
    }
    let runs = page_of(&app, &actor, RunsOf::Job(job.id), &params).await?;
    let executions = of_jobs(&app, &actor, runs.items, &[&job]).await?;
    Ok(List::new(executions, runs.next).answer(&uri))
}

/// Executions with the names of their jobs.
pub(super) async fn named(app: &App, actor: &Actor, runs: Vec<RunView>) -> Result<Vec<Execution>> {
    let jobs = app.engine.by(actor).jobs_of(&runs).await?;
    let jobs: Vec<&Job> = jobs.iter().map(AsRef::as_ref).collect();
    of_jobs(app, actor, runs, &jobs).await
}

async fn of_jobs(
    app: &App,
    actor: &Actor,
    runs: Vec<RunView>,
    jobs: &[&Job],
) -> Result<Vec<Execution>> {
    // A part stays one when its job is not split any more.
    let is_split =
        jobs.iter().any(|job| job.definition.is_split()) || runs.iter().any(|run| run.id.is_part());
    let (progress, parents) = match is_split {
        true => (
            app.engine.by(actor).progress(&runs).await?,
            app.engine.by(actor).parents(&runs).await?,
        ),
        false => Default::default(),
    };
    let users: Vec<UserId> = runs.iter().filter_map(|run| run.requested_by).collect();
    let users = app.engine.by(actor).user_names(&users).await?;
    let names = app.engine.by(actor).names_of(&runs, jobs.iter().copied()).await?;
    let nodes = match actor.may(Deed::SeeNodes) {
        Ok(()) => {
            let nodes = runs.iter().filter_map(|run| run.node);
            app.node_names.find(&app.engine, nodes).await?
        }
        Err(_) => HashMap::new(),
    };
    let dags = jobs.iter().filter(|job| job.definition.is_dag());
    let dags: HashSet<JobId> = dags.map(|job| job.id).collect();
    let mut waiting = app.engine.by(actor).waiting_reasons(&runs).await?;
    let mut execution = |run: RunView| {
        let (id, name) = (run.id, names.get(&(run.job, run.job_version)).cloned());
        let user = run.requested_by.and_then(|user| users.get(&user).cloned());
        let node = run.node.and_then(|node| nodes.get(&node).cloned());
        let is_dag = dags.contains(&run.job);
        let shown = Execution::of(run, name);
        Execution {
            dag_run_id: shown.dag_run_id.or_else(|| is_dag.then_some(id.0)),
            parts: progress.get(&id).map(|progress| (*progress).into()),
            parent_id: parents.get(&id).map(|parent| parent.0),
            waiting_reason: waiting.remove(&id),
            node,
            requested_by: user.or_else(|| shown.requested_by.clone()),
            ..shown
        }
    };
    Ok(runs.into_iter().map(&mut execution).collect())
}

/// Fills in the names of shards, as far as the actor sees shards.
async fn with_shards(app: &App, actor: &Actor, executions: &mut [Execution]) -> Result<()> {
    if actor.may(Deed::SeeNodes).is_err() || executions.iter().all(|it| it.shard_id.is_none()) {
        return Ok(());
    }
    let shards = app.engine.by(actor).shards().await?;
    for execution in executions {
        let shard = shards.iter().find(|it| Some(it.object.id.0) == execution.shard_id);
        execution.shard = shard.map(|shard| shard.object.name.clone());
    }
    Ok(())
}

/// Lists the parts of an execution that was split, in their order.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/parts", operation_id = "list_parts", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = List<Execution>))
)]
pub(crate) async fn parts(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Json<List<Execution>>> {
    let run = find::run(&app, &actor, &run).await?;
    let mut runs = Vec::new();
    for part in app.engine.by(&actor).parts(run.id).await? {
        // One that is gone has been pruned.
        runs.extend(app.engine.by(&actor).run(part.run).await?);
    }
    let mut data = named(&app, &actor, runs).await?;
    data.iter_mut().for_each(|part| part.parent_id = Some(run.id.0));
    with_shards(&app, &actor, &mut data).await?;
    Ok(Json(List { data, next_cursor: None }))
}

/// Shows an execution with its attempts.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}", operation_id = "get_execution", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = Execution))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Json<Execution>> {
    let run = find::run(&app, &actor, &run).await?;
    let attempts = app.engine.by(&actor).attempts(run.id).await?;
    let jobs = app.engine.by(&actor).jobs_of(std::slice::from_ref(&run)).await?;
    let may_execute =
        jobs.first().is_some_and(|job| actor.may(Deed::ExecuteJob(job.owner)).is_ok());
    let word = if matches!(run.state, RunState::Ended(_)) { "RETRY" } else { "CANCEL" };
    let mut executions = named(&app, &actor, vec![run]).await?;
    with_shards(&app, &actor, &mut executions).await?;
    let execution = executions.remove(0);
    let attempts = Some(attempts.into_iter().map(Attempt::of).collect());
    let may = if may_execute { vec![word] } else { Vec::new() };
    Ok(Json(Execution { attempts, may, ..execution }))
}

/// Lists the attempts of an execution that have ended, oldest first.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/attempts", operation_id = "list_attempts", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = List<Attempt>))
)]
pub(crate) async fn attempts(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Json<List<Attempt>>> {
    let run = find::run(&app, &actor, &run).await?;
    let attempts = app.engine.by(&actor).attempts(run.id).await?;
    let data = attempts.into_iter().map(Attempt::of).collect();
    Ok(Json(List { data, next_cursor: None }))
}

/// A scheduler's word that it has seen an execution.
#[derive(Serialize, ToSchema)]
pub struct AcknowledgementView {
    /// The node.
    pub worker_id: Uuid,
    /// The epoch of the leader at that time: only those of the present one count.
    pub epoch: i64,
    /// When it was given.
    pub acknowledged_at: Timestamp,
}

/// Lists who has acknowledged an execution of a job that needs a quorum.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/acknowledgements", operation_id = "list_acknowledgements",
    tag = "executions", params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = List<AcknowledgementView>))
)]
pub(crate) async fn acknowledgements(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Json<List<AcknowledgementView>>> {
    let run = find::run(&app, &actor, &run).await?;
    let given = app.engine.by(&actor).acknowledgements(run.id).await?;
    let view = |it: engine::Acknowledgement| AcknowledgementView {
        worker_id: it.node.0,
        epoch: it.epoch,
        acknowledged_at: it.at,
    };
    Ok(Json(List { data: given.into_iter().map(view).collect(), next_cursor: None }))
}

/// Why an execution is cancelled.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CancelBody {
    /// The text for a person.
    reason: Option<String>,
}

/// Asks for the end of an execution: at once when it has not begun, by its node otherwise.
#[utoipa::path(
    post, path = "/v1/executions/{execution_id}/cancel", operation_id = "cancel_execution", tag = "executions",
    request_body(content = Option<CancelBody>),
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 202, body = Execution), (status = 409, body = ErrorBody))
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<CancelBody>,
) -> Result<(StatusCode, Json<Execution>)> {
    let run = find::run(&app, &actor, &run).await?;
    let by = format!("{} asked for it", actor.name);
    let text = body.reason.filter(|text| !text.is_empty()).unwrap_or(by);
    app.engine.by(&actor).cancel(run.id, &text).await?;
    let run = find::run(&app, &actor, &run.id.to_string()).await?;
    let execution = named(&app, &actor, vec![run]).await?.pop();
    let gone = || crate::problem::Problem::no_execution("any more");
    Ok((StatusCode::ACCEPTED, Json(execution.ok_or_else(gone)?)))
}

/// The decision about an execution that is HELD.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideBody {
    /// `RETRY`, `FAIL` or `COMPLETE`.
    answer: LostAnswer,
    /// The text for a person.
    #[serde(default)]
    reason: Option<String>,
}

/// Decides what becomes of an execution that is HELD because its node was lost: it is attempted again,
/// fails, or counts as completed.
#[utoipa::path(
    post, path = "/v1/executions/{execution_id}/decide", operation_id = "decide_execution", tag = "executions",
    request_body = DecideBody,
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 200, body = Execution), (status = 409, body = ErrorBody))
)]
pub(crate) async fn decide(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Body(body): Body<DecideBody>,
) -> Result<Json<Execution>> {
    let run = find::run(&app, &actor, &run).await?;
    let by = format!("{} decided it", actor.name);
    let text = body.reason.filter(|text| !text.is_empty()).unwrap_or(by);
    app.engine.by(&actor).decide_run(run.id, body.answer.into(), &text).await?;
    let run = find::run(&app, &actor, &run.id.to_string()).await?;
    let execution = named(&app, &actor, vec![run]).await?.pop();
    let gone = || crate::problem::Problem::no_execution("any more");
    Ok(Json(execution.ok_or_else(gone)?))
}

/// Starts an ended execution once more, as a new one with the same parameters.
#[utoipa::path(
    post, path = "/v1/executions/{execution_id}/retry", operation_id = "retry_execution", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id.")),
    responses((status = 202, body = Accepted), (status = 409, body = ErrorBody))
)]
pub(crate) async fn retry(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
) -> Result<Response> {
    let run = find::run(&app, &actor, &run).await?;
    let again = app.engine.by(&actor).redrive(run.id).await?;
    Ok(accepted(&again))
}
