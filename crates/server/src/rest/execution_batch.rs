//! One action on many executions: chosen by id or by a filter, counted before anything is done.

use axum::Json;
use axum::extract::State;
use domain::id::RunId;
use domain::run::{Origin, Outcome, RunState};
use engine::{RunFilter, RunView, RunsOf};
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::executions::{ORIGINS, STATUSES};
use super::find;
use super::job_batch::check_count;
use super::run_choice::RunChoice;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::page::{self, LIMIT_MAX};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The most executions of one request.
const RUNS_MAX: usize = 10_000;

/// How many of them are cancelled or started at the same time.
const AT_ONCE: usize = 16;

/// How long executions are looked for.
const SEARCH_TIME: SignedDuration = SignedDuration::from_secs(10);

/// Action on each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionBatchAction {
    /// Asks for its end.
    Cancel,
    /// Starts it once more, as a new execution with the same parameters.
    Retry,
}

/// Filter of executions: the parameters of `list_executions`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionBatchFilter {
    /// Statuses with commas between them. When absent, those that have not ended are cancelled, and
    /// those that failed or timed out are retried.
    #[schema(example = "FAILED,TIMEOUT")]
    status: Option<String>,
    /// Of this job, by id or name.
    job: Option<String>,
    /// Only what this asked for.
    origin: Option<String>,
    /// For this time and later.
    since: Option<Timestamp>,
    /// For earlier times than this.
    until: Option<Timestamp>,
    /// Whose last attempt this node made, by its name or id.
    node: Option<String>,
    /// Whose error or reason contains this text.
    error: Option<String>,
}

/// One action on many executions. Either `execution_ids` or `filter` chooses them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionBatchBody {
    /// The action.
    action: ExecutionBatchAction,
    /// Executions, at most 10,000.
    #[serde(default)]
    execution_ids: Option<Vec<Uuid>>,
    /// Executions by what they are like. A filter without a field is refused.
    #[serde(default)]
    filter: Option<ExecutionBatchFilter>,
    /// Why they are cancelled.
    #[serde(default)]
    reason: Option<String>,
    /// Only says what would be done.
    #[serde(default)]
    dry_run: bool,
    /// How many executions the caller expects. If there are more or fewer, nothing is done. Needed
    /// with a filter, unless it is a dry run.
    #[serde(default)]
    expected_count: Option<usize>,
}

/// Result for one execution.
#[derive(Serialize, ToSchema)]
pub struct ExecutionBatchItem {
    /// The execution.
    pub execution_id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// Its status before.
    pub status: &'static str,
    /// Whether it was done, or would be.
    pub ok: bool,
    /// The execution that was started in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_execution_id: Option<Uuid>,
    /// The word for programs, if it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Results of a batch of executions.
#[derive(Serialize, ToSchema)]
pub struct ExecutionBatch {
    /// How many executions were chosen.
    pub matched: usize,
    /// For how many of them it was done, or would be.
    pub done: usize,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Each of them, newest first.
    pub items: Vec<ExecutionBatchItem>,
}

/// Cancels or retries many executions, each on its own.
#[utoipa::path(
    post, path = "/v1/executions:batch", operation_id = "batch_executions", tag = "executions",
    request_body = ExecutionBatchBody,
    responses((status = 200, body = ExecutionBatch), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn batch(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<ExecutionBatchBody>,
) -> Result<Json<ExecutionBatch>> {
    body.check()?;
    let runs = choose(&app, &actor, &body).await?;
    check_count(runs.len(), body.expected_count, "executions")?;
    let (app, actor, body) = (&app, &actor, &body);
    let items: Vec<ExecutionBatchItem> = stream::iter(runs)
        .map(|run| async move {
            let done = match check(app, actor, &run, body.action).await {
                Ok(()) if body.dry_run => Ok(None),
                Ok(()) => act(app, actor, run.id, body).await,
                Err(problem) => Err(problem),
            };
            item(&run, done)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let done = items.iter().filter(|item| item.ok).count();
    Ok(Json(ExecutionBatch { matched: items.len(), done, dry_run: body.dry_run, items }))
}

impl ExecutionBatchBody {
    fn check(&self) -> Result<()> {
        if self.execution_ids.is_some() == self.filter.is_some() {
            return Err(Problem::invalid("filter", "give either execution_ids or filter"));
        }
        let count = self.execution_ids.as_ref().map(Vec::len);
        if let Some(count) = count.filter(|count| !(1..=RUNS_MAX).contains(count)) {
            let text = format!("must be 1 to {RUNS_MAX}, not {count}");
            return Err(Problem::invalid("execution_ids", text));
        }
        let Some(filter) = &self.filter else { return Ok(()) };
        let texts = [&filter.status, &filter.job, &filter.origin, &filter.node, &filter.error];
        let is_empty = texts.iter().all(|text| text.as_deref().is_none_or(str::is_empty))
            && filter.since.is_none()
            && filter.until.is_none();
        if is_empty {
            let text = "must have a field: a batch never means all executions by accident";
            return Err(Problem::invalid("filter", text));
        }
        if !self.dry_run && self.expected_count.is_none() {
            let text = "is needed with a filter: the number that a dry run has found";
            return Err(Problem::invalid("expected_count", text));
        }
        Ok(())
    }
}

async fn choose(app: &App, actor: &Actor, body: &ExecutionBatchBody) -> Result<Vec<RunView>> {
    if let Some(filter) = &body.filter {
        return matching(app, actor, filter, body.action).await;
    }
    let mut runs: Vec<RunView> = Vec::new();
    for (i, id) in body.execution_ids.iter().flatten().enumerate() {
        let run = find::run(app, actor, &id.to_string()).await;
        let run = run.map_err(|problem| problem.inside(&format!("execution_ids[{i}]")))?;
        if runs.iter().all(|known| known.id != run.id) {
            runs.push(run);
        }
    }
    Ok(runs)
}

async fn matching(
    app: &App,
    actor: &Actor,
    asked: &ExecutionBatchFilter,
    action: ExecutionBatchAction,
) -> Result<Vec<RunView>> {
    let of = match &asked.job {
        Some(job) => RunsOf::Job(find::job_ever(app, actor, job).await?.id),
        None => RunsOf::Tenant(actor.tenant),
    };
    let origin: Option<Origin> = page::word("filter.origin", &asked.origin, &ORIGINS)?;
    let mut states = page::words("filter.status", &asked.status, &STATUSES)?;
    if states.is_empty() {
        states = match action {
            ExecutionBatchAction::Cancel => {
                vec![RunState::Pending, RunState::Queued, RunState::Running, RunState::Held]
            }
            ExecutionBatchAction::Retry => {
                vec![RunState::Ended(Outcome::Failed), RunState::Ended(Outcome::Timeout)]
            }
        };
    }
    let choice = RunChoice::read(actor, "filter.", asked.node.as_deref(), asked.error.as_deref())?;
    let (since, until) = (asked.since, asked.until);
    let filter = RunFilter { states, origin, since, until, ..RunFilter::new(of) };
    let enough = app.now().saturating_add(SEARCH_TIME).unwrap_or(Timestamp::MAX);
    let (mut runs, mut before) = (Vec::new(), None);
    loop {
        let mut page = app.engine.by(actor).list_runs(&filter, before, LIMIT_MAX).await?;
        choice.narrow(app, &mut page.items).await?;
        runs.extend(page.items);
        if runs.len() > RUNS_MAX {
            let text = format!("more than {RUNS_MAX} executions match; narrow it");
            return Err(Problem::invalid("filter", text));
        }
        before = page.next;
        if before.is_none() {
            return Ok(runs);
        }
        if app.now() > enough {
            let text = "takes too long to look through; name a job or a shorter time";
            return Err(Problem::invalid("filter", text));
        }
    }
}

/// Refuses what the actor may not do, and what the execution is not in the state for.
async fn check(
    app: &App,
    actor: &Actor,
    run: &RunView,
    action: ExecutionBatchAction,
) -> Result<()> {
    let has_ended = matches!(run.state, RunState::Ended(_));
    match (action, has_ended) {
        (ExecutionBatchAction::Cancel, true) => {
            Err(Problem::new(Code::WrongState, "it has ended already"))
        }
        (ExecutionBatchAction::Retry, false) => {
            Err(Problem::new(Code::WrongState, "it has not ended"))
        }
        _ => Ok(app.engine.by(actor).may_execute_run(run).await?),
    }
}

async fn act(
    app: &App,
    actor: &Actor,
    run: RunId,
    body: &ExecutionBatchBody,
) -> Result<Option<RunId>> {
    match body.action {
        ExecutionBatchAction::Cancel => {
            let by = format!("{} asked for it", actor.name);
            let text = body.reason.clone().filter(|text| !text.is_empty()).unwrap_or(by);
            app.engine.by(actor).cancel(run, &text).await?;
            Ok(None)
        }
        ExecutionBatchAction::Retry => Ok(Some(app.engine.by(actor).redrive(run).await?.id)),
    }
}

fn item(run: &RunView, done: Result<Option<RunId>>) -> ExecutionBatchItem {
    let (new, problem) = match done {
        Ok(new) => (new, None),
        Err(problem) => (None, Some(problem)),
    };
    let status = STATUSES.iter().find(|(_, state)| *state == run.state);
    ExecutionBatchItem {
        execution_id: run.id.0,
        job_id: run.job.0,
        status: status.map_or("UNKNOWN", |(name, _)| *name),
        ok: problem.is_none(),
        new_execution_id: new.map(|run| run.0),
        code: problem.as_ref().map(|problem| problem.code.name()),
        message: problem.map(|problem| problem.message),
    }
}
