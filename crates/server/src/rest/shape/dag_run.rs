//! DAG runs and their tasks as REST shows them.

use domain::dag::state::{StepCounts, StepKey, StepState};
use engine::{CompiledDag, DagRunView, StepView};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::execution::{Attempt, Execution, raw};
use super::mirror::Origin;

/// A run of a DAG.
#[derive(Debug, Serialize, ToSchema)]
pub struct DagRun {
    /// Its identity.
    pub dag_run_id: Uuid,
    /// The DAG.
    pub dag_id: Uuid,
    /// The name that the DAG had when the run was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag_name: Option<String>,
    /// The version of the DAG that it follows.
    pub dag_version: u32,
    /// `PENDING`, `QUEUED`, `RUNNING`, `COMPLETED`, `FAILED`, `CANCELLED`, `TIMEOUT`, `SKIPPED` or
    /// `MISSED`.
    #[schema(
        pattern = "^(PENDING|QUEUED|RUNNING|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED)$"
    )]
    pub status: String,
    /// Why it ended so, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it ended so, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_message: Option<String>,
    /// The origin.
    pub origin: Origin,
    /// The id of the user who asked for it; absent for what the schedule asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by_id: Option<Uuid>,
    /// The time that it stands for.
    pub scheduled_time: Timestamp,
    /// When it was recorded.
    pub queued_at: Timestamp,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The values that were given with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Box<RawValue>>,
}

/// A run of a DAG with its tasks.
#[derive(Debug, Serialize, ToSchema)]
pub struct DagRunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: DagRun,
    /// `RUNNING`, `HELD` (no further task starts until a user resumes the run), `STOPPING` or
    /// `CANCELLING`.
    #[schema(value_type = String)]
    pub control: &'static str,
    /// The run that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<Uuid>,
    /// Its tasks by their states; a task with items counts as one.
    pub counts: TaskCounts,
    /// The tasks that it could not have ended without, in the order of time.
    pub critical_path: Vec<PathTask>,
    /// When it is expected to end, by the durations of earlier runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Timestamp>,
    /// A page of its tasks, in the order of the definition, `PENDING` ones too.
    pub tasks: Vec<TaskInstance>,
    /// Send it as `cursor` for the next page of tasks; null on the last one.
    pub next_cursor: Option<String>,
    /// Permitted operations of the caller: `CANCEL`, `RESUME` or `RERUN`.
    #[schema(value_type = Vec<String>)]
    pub may: Vec<&'static str>,
}

/// The tasks of a DAG run by their states.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct TaskCounts {
    /// All tasks.
    pub tasks: u32,
    /// Tasks that wait for those before them.
    pub pending: u32,
    /// Tasks that execute or can start.
    pub open: u32,
    /// Completed tasks.
    pub completed: u32,
    /// Failed, timed out and cancelled tasks.
    pub failed: u32,
    /// Skipped tasks.
    pub skipped: u32,
}

impl From<StepCounts> for TaskCounts {
    fn from(counts: StepCounts) -> Self {
        let StepCounts { steps: tasks, pending, open, completed, failed, skipped } = counts;
        TaskCounts { tasks, pending, open, completed, failed, skipped }
    }
}

/// A task of a critical path.
#[derive(Debug, Serialize, ToSchema)]
pub struct PathTask {
    /// The name of the task.
    pub task: String,
    /// The position of the item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// When it was released.
    pub from: Timestamp,
    /// When it ended; absent if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A task of a DAG run, or one item of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskInstance {
    /// The name of the task.
    pub task: String,
    /// The position of the item, from 0; absent for the task as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Its kind: the kind of its payload.
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// `PENDING`, `READY`, `RUNNING`, or the outcome.
    #[schema(
        value_type = String,
        pattern = "^(PENDING|READY|QUEUED|RUNNING|COMPLETED|FAILED|CANCELLED|TIMEOUT|SKIPPED|MISSED)$"
    )]
    pub status: String,
    /// The tasks before it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub dependencies: Vec<String>,
    /// Why it was skipped, failed without an execution, or was marked, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_message: Option<String>,
    /// The number of its items, if it was expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// Its execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<Uuid>,
    /// 0 while no attempt has begun.
    pub attempt_number: u32,
    /// The task whose end decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// When its last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How long its last attempt took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The error, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Whether it was adopted from the run that this one repeats.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub is_adopted: bool,
}

/// A task of a DAG run with its execution.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskDetail {
    /// The task.
    #[serde(flatten)]
    pub task: TaskInstance,
    /// Its definition, in the version that the run follows.
    #[schema(value_type = Object)]
    pub definition: Map<String, Value>,
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Its inputs: the resolved templates, and their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Box<RawValue>>,
    /// Its attempts that have ended, oldest first.
    pub attempts: Vec<Attempt>,
    /// Where its output is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs_url: Option<String>,
    /// Permitted operations of the caller: `MARK`, and `DECIDE` if it waits for an approval.
    #[schema(value_type = Vec<String>)]
    pub may: Vec<&'static str>,
}

impl DagRun {
    /// A run of a DAG.
    pub fn of(run: engine::RunView, name: Option<String>) -> Self {
        let run = Execution::of(run, name);
        DagRun {
            dag_run_id: run.execution_id,
            dag_id: run.job_id,
            dag_name: run.job_name,
            dag_version: run.job_version,
            status: run.status,
            reason: run.reason,
            reason_message: run.reason_message.or(run.error_message),
            origin: run.origin,
            requested_by_id: run.requested_by_id,
            scheduled_time: run.scheduled_time,
            queued_at: run.queued_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
            duration_ms: run.duration_ms,
            config: run.parameters,
        }
    }
}

impl DagRunDetail {
    /// A run of a DAG with a page of its tasks.
    pub fn new(view: DagRunView, tasks: Vec<StepView>, next_cursor: Option<String>) -> Self {
        let dag = view.dag;
        let path = view.critical_path.iter().map(|step| PathTask {
            task: dag.graph.name(step.key.step).to_owned(),
            item: step.key.item,
            from: step.from,
            until: step.until,
        });
        DagRunDetail {
            control: view.control.name(),
            rerun_of: view.rerun_of.map(|run| run.0),
            counts: view.counts.into(),
            critical_path: path.collect(),
            expected_end: view.expected_end,
            tasks: tasks.into_iter().map(|step| TaskInstance::of(step, &dag)).collect(),
            next_cursor,
            may: Vec::new(),
            run: DagRun::of(view.run, Some(dag.job.name.clone())),
        }
    }
}

/// The state of a task in every interface.
pub fn status(step: &StepView) -> String {
    match (step.state, &step.run) {
        (StepState::Pending, _) => "PENDING".to_owned(),
        (StepState::Ready, _) => "READY".to_owned(),
        // The run of a step that waits for an answer or a time is due when the wait is over.
        (StepState::Open, Some(_)) if matches!(step.kind, "APPROVAL" | "SLEEP") => {
            "RUNNING".to_owned()
        }
        (StepState::Open, Some(run)) => run.state.to_string(),
        (StepState::Open, None) => "RUNNING".to_owned(),
        (StepState::Ended(outcome), _) => outcome.name().to_owned(),
    }
}

/// A task or an item of it, for people: `load`, `load[3]`.
pub fn label(dag: &CompiledDag, key: StepKey) -> String {
    let name = dag.graph.name(key.step);
    key.item.map_or_else(|| name.to_owned(), |item| format!("{name}[{item}]"))
}

impl TaskInstance {
    /// A step of a DAG run.
    pub fn of(step: StepView, dag: &CompiledDag) -> Self {
        let status = status(&step);
        let parents = dag.graph.get(step.key.step).map(|it| it.parents.as_slice());
        let parents = parents.unwrap_or_default().iter();
        let (code, text) = step.reason.map(|it| (it.code.name(), it.text)).unzip();
        let run = step.run.map(|run| Execution::of(run, None));
        let run = run.as_ref();
        let of_run = |text: &dyn Fn(&Execution) -> Option<String>| run.and_then(text);
        TaskInstance {
            task: step.name,
            item: step.key.item,
            kind: step.kind,
            status,
            dependencies: parents.map(|parent| dag.graph.name(*parent).to_owned()).collect(),
            reason: code.map(str::to_owned).or_else(|| of_run(&|run| run.reason.clone())),
            reason_message: text.or_else(|| of_run(&|run| run.reason_message.clone())),
            items: step.items,
            execution_id: run.map(|run| run.execution_id),
            attempt_number: run.map_or(0, |run| run.attempt_number),
            decided_by: step.decided_by.map(|by| label(dag, by)),
            decided_at: step.decided_at,
            started_at: run.and_then(|run| run.started_at),
            completed_at: step.ended_at,
            duration_ms: run.and_then(|run| run.duration_ms),
            error_message: of_run(&|run| run.error_message.clone()),
            is_adopted: step.is_adopted,
        }
    }
}

impl TaskDetail {
    /// A step of a DAG run with its attempts.
    pub fn new(step: StepView, attempts: Vec<Attempt>, dag: &CompiledDag) -> Self {
        let run = step.run.clone();
        let definition = dag.graph.get(step.key.step).map(|it| super::task::TaskSpec::of(&it.step));
        let definition = match serde_json::to_value(definition) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        TaskDetail {
            logs_url: run.as_ref().map(|run| format!("/v1/executions/{}/logs", run.id)),
            result: raw(run.as_ref().and_then(|run| run.result.clone())),
            inputs: raw(run.and_then(|run| run.parameters)),
            task: TaskInstance::of(step, dag),
            definition,
            attempts,
            may: Vec::new(),
        }
    }
}
