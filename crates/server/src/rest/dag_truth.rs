//! Why a DAG run and its tasks are in their state: explained, replayed, verified, compared.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use domain::dag::state::StepState;
use domain::raw_json::RawJson;
use domain::run::Outcome;
use engine::{StepDiff, StepExplanation};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::find;
use super::shape::dag_run::TaskInstance;
use super::shape::mirror::{TaskOutcome, TriggerRule};
use crate::actor::Actor;
use crate::app::App;
use crate::body::{OptionalBody, Params};
use crate::page;
use crate::problem::{ErrorBody, Problem, Result};

/// Which time a DAG run is explained for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AtParams {
    /// The time in question; the present when absent.
    at: Option<Timestamp>,
    /// The position of the item, from 0; the task as a whole when absent.
    item: Option<u32>,
}

/// Why a DAG run is where it is.
#[derive(Serialize, ToSchema)]
pub struct DagRunExplanation {
    /// The run.
    pub dag_run_id: Uuid,
    /// One sentence for each fact, most important first.
    pub lines: Vec<String>,
}

/// Says why a DAG run is where it is, now or at a time in the past.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}/explain", operation_id = "explain_dag_run", tag = "dag runs",
    params(("dag_run_id" = String, Path, description = "The run's id."), AtParams),
    responses((status = 200, body = DagRunExplanation), (status = 422, body = ErrorBody))
)]
pub(crate) async fn explain(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<AtParams>,
) -> Result<Json<DagRunExplanation>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    let lines = app.engine.by(&actor).explain_dag_run(run, params.at).await?;
    Ok(Json(DagRunExplanation { dag_run_id: run.0, lines }))
}

/// Why a task ran, waits or did not run.
#[derive(Serialize, ToSchema)]
pub struct TaskExplanation {
    /// The task at the time in question.
    pub task: TaskInstance,
    /// Its trigger rule.
    pub trigger_rule: TriggerRule,
    /// The tasks before it, with their states.
    pub parents: Vec<ParentState>,
    /// Its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The hash of its inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// Its resolved templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<RawJson>,
    /// One sentence for each fact, most important first.
    pub lines: Vec<String>,
}

/// A task before another one.
#[derive(Serialize, ToSchema)]
pub struct ParentState {
    /// The name of the task.
    pub task: String,
    /// Its state.
    #[schema(value_type = String)]
    pub status: &'static str,
}

/// The name of a state.
pub(crate) fn state_name(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "PENDING",
        StepState::Ready => "READY",
        StepState::Open => "RUNNING",
        StepState::Ended(outcome) => outcome.name(),
    }
}

/// Says why a task ran, waits or did not run, now or at a time in the past.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}/tasks/{task}/explain", operation_id = "explain_task", tag = "dag runs",
    params(
        ("dag_run_id" = String, Path, description = "The run's id."),
        ("task" = String, Path, description = "The name of the task."),
        AtParams,
    ),
    responses((status = 200, body = TaskExplanation), (status = 422, body = ErrorBody))
)]
pub(crate) async fn explain_task(
    State(app): State<App>,
    actor: Actor,
    Path((run, task)): Path<(String, String)>,
    Params(params): Params<AtParams>,
) -> Result<Json<TaskExplanation>> {
    let run = find::dag_run(&app, &actor, &run).await?;
    let engine = app.engine.by(&actor);
    let view = engine.dag_run(run).await?;
    let explained = engine.explain_step(run, &task, params.item, params.at).await?;
    let StepExplanation { step, rule, parents, when, inputs, lines, .. } = explained;
    let (input_hash, inputs) = inputs.unzip();
    let parent = |(task, state)| ParentState { task, status: state_name(state) };
    Ok(Json(TaskExplanation {
        task: TaskInstance::of(step, &view.dag),
        trigger_rule: rule.into(),
        parents: parents.into_iter().map(parent).collect(),
        when,
        input_hash,
        inputs: inputs.map(|inputs| RawJson::from(Value::Object(inputs))),
        lines,
    }))
}

/// The assumptions of a replay.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayBody {
    /// Outcomes that tasks are assumed to have had, by name.
    #[schema(example = json!({"transform": "FAILED"}))]
    assume: BTreeMap<String, TaskOutcome>,
    /// How many tasks can execute at the same time; no limit when absent.
    #[schema(minimum = 1)]
    slots: Option<u32>,
}

/// The decisions that follow from the recorded ends of a DAG run.
#[derive(Serialize, ToSchema)]
pub struct ReplayAnswer {
    /// Decisions that were made again and are the same.
    pub reproduced: usize,
    /// Decisions that differ.
    pub differences: Vec<ReplayDifference>,
    /// The projected outcome of each task, with the assumed outcomes.
    pub predicted: Vec<PredictedTask>,
    /// How long the run takes by the durations of its tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
}

/// A decision that differs from the recorded one.
#[derive(Serialize, ToSchema)]
pub struct ReplayDifference {
    /// The task.
    pub task: String,
    /// The record.
    pub recorded: String,
    /// The decision.
    pub decided: String,
}

/// The projected outcome of a task.
#[derive(Serialize, ToSchema)]
pub struct PredictedTask {
    /// The task.
    pub task: String,
    /// Its outcome.
    #[schema(value_type = String)]
    pub status: &'static str,
}

/// Decides a DAG run again by its recorded ends, and predicts it with assumed outcomes. Nothing is
/// changed.
#[utoipa::path(
    post, path = "/v1/dag-runs/{dag_run_id}/replay", operation_id = "replay_dag_run", tag = "dag runs",
    request_body(content = Option<ReplayBody>),
    params(("dag_run_id" = String, Path, description = "The run's id.")),
    responses((status = 200, body = ReplayAnswer), (status = 409, body = ErrorBody))
)]
pub(crate) async fn replay(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    OptionalBody(body): OptionalBody<ReplayBody>,
) -> Result<Json<ReplayAnswer>> {
    if body.slots == Some(0) {
        return Err(Problem::invalid("slots", "must be at least 1"));
    }
    let run = find::dag_run(&app, &actor, &run).await?;
    let assumed = body.assume.into_iter().map(|(task, outcome)| (task, outcome.into())).collect();
    let report = app.engine.by(&actor).replay_dag_run(run, &assumed, body.slots).await?;
    let difference = |(task, recorded, decided)| ReplayDifference { task, recorded, decided };
    let predicted =
        |(task, outcome): (String, Outcome)| PredictedTask { task, status: outcome.name() };
    Ok(Json(ReplayAnswer {
        reproduced: report.reproduced,
        differences: report.differences.into_iter().map(difference).collect(),
        predicted: report.predicted.into_iter().map(predicted).collect(),
        duration_seconds: report.duration.map(|duration| duration.as_secs_f64()),
    }))
}

/// Which DAG runs are verified.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VerifyParams {
    /// Only runs of this DAG, by its id or name.
    dag: Option<String>,
    /// Only runs for this time and later.
    since: Option<Timestamp>,
    /// How many runs at most; 500 when absent.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Whether recorded DAG runs are sound.
#[derive(Serialize, ToSchema)]
pub struct DagRunsVerified {
    /// Runs that were looked at.
    pub runs: usize,
    /// Their tasks.
    pub tasks: usize,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

/// Verifies that every task of recorded DAG runs has exactly one outcome, and that each decision
/// follows from the recorded ends.
#[utoipa::path(
    get, path = "/v1/dag-runs/verify", operation_id = "verify_dag_runs", tag = "dag runs", params(VerifyParams),
    responses((status = 200, body = DagRunsVerified), (status = 404, body = ErrorBody))
)]
pub(crate) async fn verify(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<VerifyParams>,
) -> Result<Json<DagRunsVerified>> {
    let limit = page::limit(params.limit.or(Some(page::LIMIT_MAX)))?;
    let dag = match &params.dag {
        Some(dag) => Some(find::dag(&app, &actor, dag).await?.id),
        None => None,
    };
    let found = app.engine.by(&actor).verify_dag_runs(dag, params.since, limit).await?;
    Ok(Json(DagRunsVerified { runs: found.runs, tasks: found.steps, problems: found.problems }))
}

/// The other run.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The id of the other run of the same DAG.
    with: String,
}

/// How two runs of a DAG differ.
#[derive(Serialize, ToSchema)]
pub struct DagRunDifferences {
    /// The first task whose definition or inputs differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// Tasks whose definitions, inputs or outcomes differ, in the order of the graph.
    pub tasks: Vec<TaskDifference>,
}

/// A task that differs between two runs; the other run comes second.
#[derive(Serialize, ToSchema)]
pub struct TaskDifference {
    /// The name of the task.
    pub task: String,
    /// The states; `ABSENT` if the DAG of a run does not have the task.
    #[schema(value_type = Vec<String>)]
    pub status: [&'static str; 2],
    /// The hashes of its definition.
    #[schema(value_type = Vec<Option<String>>)]
    pub definition_hash: [Option<String>; 2],
    /// The hashes of the inputs.
    #[schema(value_type = Vec<Option<String>>)]
    pub input_hash: [Option<String>; 2],
    /// How long they took.
    #[schema(value_type = Vec<Option<i64>>)]
    pub duration_ms: [Option<i64>; 2],
}

/// Compares two runs of a DAG.
#[utoipa::path(
    get, path = "/v1/dag-runs/{dag_run_id}/diff", operation_id = "diff_dag_runs", tag = "dag runs",
    params(("dag_run_id" = String, Path, description = "The run's id."), DiffParams),
    responses((status = 200, body = DagRunDifferences), (status = 409, body = ErrorBody))
)]
pub(crate) async fn diff(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<DiffParams>,
) -> Result<Json<DagRunDifferences>> {
    let one = find::dag_run(&app, &actor, &run).await?;
    let other = find::dag_run(&app, &actor, &params.with).await?;
    let found = app.engine.by(&actor).diff_dag_runs(one, other).await?;
    let differs =
        |it: &&StepDiff| it.definitions.0 != it.definitions.1 || it.inputs.0 != it.inputs.1;
    let first = found.steps.iter().find(differs);
    let status = |state: Option<StepState>| state.map_or("ABSENT", state_name);
    let ms = |duration: Option<SignedDuration>| duration.map(|it| it.as_millis() as i64);
    Ok(Json(DagRunDifferences {
        first_difference: first.map(|step| step.name.clone()),
        tasks: found
            .steps
            .into_iter()
            .map(|step| TaskDifference {
                task: step.name,
                status: [status(step.states.0), status(step.states.1)],
                definition_hash: [step.definitions.0, step.definitions.1],
                input_hash: [step.inputs.0, step.inputs.1],
                duration_ms: [ms(step.durations.0), ms(step.durations.1)],
            })
            .collect(),
    }))
}
