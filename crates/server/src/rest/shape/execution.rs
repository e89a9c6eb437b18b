//! Executions: the runs of jobs, and the attempts that were made.

use agent::context::traceparent_in;
use domain::dag::call::StepCall;
use domain::partition::Progress;
use domain::run::{Origin as RunOrigin, RunState, error_number};
use engine::{AttemptView, RunView};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::mirror::Origin;

/// A run of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Execution {
    /// Its identity, the same for every attempt.
    pub execution_id: Uuid,
    /// The job.
    pub job_id: Uuid,
    /// The name that the job had when the execution was recorded; absent when nothing is left of the
    /// job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// The DAG run that it is, or whose task it executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag_run_id: Option<Uuid>,
    /// The task of the DAG run that it executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The version of the job that asked for it.
    pub job_version: u32,
    /// 1 for the first attempt; 0 when none has begun.
    pub attempt_number: u32,
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
    /// The reason of the wait, as a sentence, while it is `PENDING` or `QUEUED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_reason: Option<String>,
    /// The origin.
    pub origin: Origin,
    /// The name of the user who asked for it, or their id when they were removed; absent for what
    /// the schedule or another execution asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// The id of that user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by_id: Option<Uuid>,
    /// The time that it stands for.
    pub scheduled_time: Timestamp,
    /// The last time that it stands for, when it stands for several that did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_until: Option<Timestamp>,
    /// How many times it stands for, when they are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrences: Option<u64>,
    /// When it was recorded, and with that queued.
    pub queued_at: Timestamp,
    /// When it may start, or might have.
    pub due_at: Timestamp,
    /// When its last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How long its last attempt took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Rows that a statement changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
    /// The message of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The error, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The error, as a number: an exit code, an HTTP status, an SQLSTATE, or a number of the
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i32>,
    /// The error, as a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_name: Option<String>,
    /// Where it runs, or ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<Uuid>,
    /// The name of that node, for callers who may see nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The fence of its last ended attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// How many attempts were lost with their nodes.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub lost_attempts: u32,
    /// How many missed times it stands for besides its own.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub coalesced: u32,
    /// How many backfilled runs of its job may execute at a time, if its backfill limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill_concurrency: Option<u32>,
    /// Whether its statements were committed together with the record that they were.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub exactly_once: bool,
    /// Whether it is a dead letter that is not acknowledged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub dead_letter: bool,
    /// Values for the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub parameters: Option<Box<RawValue>>,
    /// The trace that it is a part of, if the client named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The shard that it works on, if it is a part of another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_id: Option<Uuid>,
    /// The name of that shard, where one execution or the parts of one are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The execution that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Uuid>,
    /// How far its parts have come, if it was split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<PartsDone>,
    /// Permitted operations of the caller: `CANCEL` or `RETRY`; where one execution is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<String>)]
    pub may: Vec<&'static str>,
    /// Where its output is.
    pub logs_url: String,
    /// The attempts that have ended, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
}

/// How far the parts of a run have come.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct PartsDone {
    /// How many there are.
    pub total: usize,
    /// Those that completed.
    pub completed: usize,
    /// Those that ended otherwise.
    pub failed: usize,
}

impl From<Progress> for PartsDone {
    fn from(progress: Progress) -> Self {
        let Progress { parts: total, completed, failed } = progress;
        PartsDone { total, completed, failed }
    }
}

/// One try at a run, ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt {
    /// 1 for the first, lost ones counted.
    pub attempt_number: u32,
    /// `COMPLETED`, `FAILED`, `CANCELLED`, `TIMEOUT` or `LOST`.
    pub status: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// How long it took.
    pub duration_ms: i64,
    /// Where it ran.
    pub worker_id: Uuid,
    /// The fencing token that it was given; absent when its node was lost before it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The error, as a number: an exit code, an HTTP status, an SQLSTATE, or a number of the
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i32>,
    /// The error, as a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_name: Option<String>,
    /// The effective and the used values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub details: Option<Box<RawValue>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(super) fn raw(text: Option<String>) -> Option<Box<RawValue>> {
    let text = text?;
    RawValue::from_string(text.clone())
        // A value that is not JSON is shown as text.
        .or_else(|_| serde_json::value::to_raw_value(&text))
        .ok()
}

fn ms_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_millis() as i64
}

impl Execution {
    /// The view of a run.
    pub fn of(run: RunView, job_name: Option<String>) -> Self {
        let failed = run.error.is_some();
        let ended = run.attempts + run.lost;
        let running = run.state == RunState::Running;
        let parameters = run.parameters.as_deref().filter(|_| run.origin == RunOrigin::Step);
        let call = parameters.and_then(StepCall::from_parameters);
        Execution {
            execution_id: run.id.0,
            job_id: run.job.0,
            job_name,
            dag_run_id: call.as_ref().map(|call| call.dag_run.0),
            task: call.map(|call| call.name),
            job_version: run.job_version,
            attempt_number: if running { ended + 1 } else { ended },
            status: run.state.to_string(),
            reason: run.reason,
            reason_message: run.reason_text.filter(|text| !text.is_empty()),
            waiting_reason: None,
            origin: run.origin.into(),
            requested_by: run.requested_by.map(|user| user.to_string()),
            requested_by_id: run.requested_by.map(|user| user.0),
            scheduled_time: run.scheduled_for,
            scheduled_until: (run.count > 1).then_some(run.scheduled_last),
            occurrences: (run.count > 1).then_some(run.count),
            queued_at: run.created_at,
            due_at: run.due_at,
            started_at: run.started_at,
            completed_at: run.finished_at,
            duration_ms: run.started_at.zip(run.finished_at).map(|(from, to)| ms_between(from, to)),
            result: raw(run.result),
            rows_affected: run.rows_affected,
            error_message: run.message.clone().filter(|text| failed && !text.is_empty()),
            message: run.message.filter(|text| !failed && !text.is_empty()),
            error_code: run.error.as_deref().map(error_number),
            error_name: run.error,
            worker_id: run.node.map(|node| node.0),
            node: None,
            fence: run.fence,
            lost_attempts: run.lost,
            coalesced: run.coalesced,
            backfill_concurrency: run.backfill_concurrency,
            exactly_once: run.exactly_once,
            dead_letter: run.dead_letter,
            traceparent: run.parameters.as_deref().and_then(traceparent_in),
            parameters: raw(run.parameters),
            shard_id: run.shard.parse().ok(),
            shard: None,
            parent_id: None,
            parts: None,
            may: Vec::new(),
            logs_url: format!("/v1/executions/{}/logs", run.id),
            attempts: None,
        }
    }
}

impl Attempt {
    /// The view of an attempt.
    pub fn of(attempt: AttemptView) -> Self {
        Attempt {
            attempt_number: attempt.number,
            status: attempt.end,
            started_at: attempt.started_at,
            completed_at: attempt.finished_at,
            duration_ms: ms_between(attempt.started_at, attempt.finished_at),
            worker_id: attempt.node.0,
            fence: attempt.fence,
            message: attempt.message.filter(|text| !text.is_empty()),
            error_code: attempt.error.as_deref().map(error_number),
            error_name: attempt.error,
            details: raw(attempt.details),
        }
    }
}
