//! A run: one occurrence of a job, from its planning to its one outcome.
//!
//! While it can still change, a run is a *live* row of the store; its end moves it to the history.
//! The state of a live run is derived from three facts and never written: whether its time has
//! come, whether a node has claimed it, and whether it waits for something else.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cluster::Placement;
use crate::id::{JobId, NodeId, RunId, TenantId, UserId};
use crate::slot::SlotKind;

mod error_number;
mod state;
pub mod with_output;

pub use error_number::error_number;
pub use state::{Event, Outcome, RunState, TRANSITIONS};

/// The origin of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Origin {
    /// The schedule, on time.
    Schedule = 1,
    /// The schedule, after an outage.
    CatchUp = 2,
    /// A request of a user.
    Manual = 3,
    /// A backfill of a past time.
    Backfill = 4,
    /// The end of another job.
    Dependency = 5,
    /// The parent run, which was split.
    Part = 6,
    /// A message that was sent to a queue: workers pull it.
    Message = 7,
    /// A DAG run, for one of its steps.
    Step = 8,
}

impl Origin {
    /// Every origin.
    pub const ALL: [Origin; 8] = [
        Origin::Schedule,
        Origin::CatchUp,
        Origin::Manual,
        Origin::Backfill,
        Origin::Dependency,
        Origin::Part,
        Origin::Message,
        Origin::Step,
    ];

    /// The origin with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| *origin as i64 == number)
    }

    /// Whether the run belongs to a scheduled time.
    pub fn is_tick(self) -> bool {
        matches!(self, Origin::Schedule | Origin::CatchUp)
    }

    /// Meaning of the stored number of a run of this origin: how many missed occurrences it stands
    /// for, and of a backfilled run how many runs of its job may execute at the same time.
    pub fn split_coalesced(self, stored: u32) -> (u32, Option<u32>) {
        match self {
            Origin::Backfill => (0, (stored > 0).then_some(stored)),
            _ => (stored, None),
        }
    }

    /// Whether the run is a child of another run, which answers for it.
    pub fn is_child(self) -> bool {
        matches!(self, Origin::Part | Origin::Step)
    }
}

/// Wait of a run, in addition to its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Wait {
    /// Earlier runs of the same job.
    Overlap = 1,
    /// Runs of other jobs.
    Upstream = 2,
    /// Acknowledgements of a majority of the schedulers.
    Quorum = 3,
    /// Its child runs. It has started.
    Parts = 4,
    /// A place in the pool of its job. The number 5 belongs to messages, which workers pull.
    Pool = 6,
    /// A decision of a user: its node was lost, and it may have done its work.
    Decision = 7,
    /// Earlier backfilled runs of the same job: its backfill limits how many are at work at a time.
    Backfill = 8,
    /// The end of a pause of its job: its time had come before.
    Pause = 9,
}

impl Wait {
    /// Every wait.
    pub const ALL: [Wait; 8] = [
        Wait::Overlap,
        Wait::Upstream,
        Wait::Quorum,
        Wait::Parts,
        Wait::Pool,
        Wait::Decision,
        Wait::Backfill,
        Wait::Pause,
    ];

    /// The wait with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|wait| *wait as i64 == number)
    }

    /// Whether a change of the job ends the wait: the run looks again by the new definition. Of
    /// those in line, as many look as the job lets run.
    pub fn ends_with_change(self) -> bool {
        !matches!(self, Wait::Parts | Wait::Decision)
    }

    /// Whether the wait ends when its time is over. After the time for a decision, the rule of the
    /// job decides.
    pub fn ends_with_time(self) -> bool {
        self != Wait::Decision
    }

    /// Whether a run with this wait takes a place among the runs of its job that are at work.
    pub fn takes_place(self) -> bool {
        matches!(self, Wait::Parts | Wait::Pool | Wait::Decision)
    }

    /// Whether a run with this wait lets others of its job pass, and gets in line anew.
    pub fn stands_aside(self) -> bool {
        self == Wait::Upstream
    }
}

/// The reason of an outcome: a code for programs and a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The reason code.
    pub code: ReasonCode,
    /// The text of the reason.
    pub text: String,
}

/// The reason codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReasonCode {
    /// Earlier runs of the job had not ended.
    Overlap,
    /// A job that it depends on failed.
    UpstreamFailed,
    /// A job that it depends on did not end in time.
    UpstreamNotReady,
    /// Another run stands for it, or the policy drops missed times.
    CatchUp,
    /// A clock change skipped its local time.
    DstGap,
    /// It could not start before its deadline.
    StartDeadline,
    /// A user cancelled it.
    CancelRequested,
    /// Every attempt failed.
    RetriesExhausted,
    /// The error is not retried: the policy of the server refused the attempt, or the rules of the
    /// job exclude the error.
    NotRetryable,
    /// Its node was lost too often.
    Lost,
    /// The job was deleted or changed before it started.
    JobChanged,
    /// Some of its child runs did not complete.
    PartsFailed,
    /// A calendar of the job excludes its day.
    Calendar,
    /// It lies in a blackout of the tenant or the cluster.
    Blackout,
    /// Its node was lost, and a user or the policy of its job decided about it.
    Decided,
    /// The trigger rule of the step, given the outcomes of its parents.
    TriggerRule,
    /// The condition of the step is not true.
    Condition,
    /// The inputs of the step cannot be resolved.
    Inputs,
    /// Another step failed, and the DAG stops on a failure.
    DagStopped,
    /// Some steps of the DAG run did not complete.
    StepsFailed,
    /// A user marked the step by hand.
    Marked,
    /// A user answered the approval, or its time was over.
    Approval,
    /// The result of the step is larger than allowed.
    ResultTooLarge,
    /// No message came for the step in time.
    NoMessage,
}

impl ReasonCode {
    /// The code with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        use serde::de::IntoDeserializer as _;
        let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
            name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            ReasonCode::Overlap => "OVERLAP",
            ReasonCode::UpstreamFailed => "UPSTREAM_FAILED",
            ReasonCode::UpstreamNotReady => "UPSTREAM_NOT_READY",
            ReasonCode::CatchUp => "CATCH_UP",
            ReasonCode::DstGap => "DST_GAP",
            ReasonCode::StartDeadline => "START_DEADLINE",
            ReasonCode::CancelRequested => "CANCEL_REQUESTED",
            ReasonCode::RetriesExhausted => "RETRIES_EXHAUSTED",
            ReasonCode::NotRetryable => "NOT_RETRYABLE",
            ReasonCode::Lost => "LOST",
            ReasonCode::JobChanged => "JOB_CHANGED",
            ReasonCode::PartsFailed => "PARTS_FAILED",
            ReasonCode::Calendar => "CALENDAR",
            ReasonCode::Blackout => "BLACKOUT",
            ReasonCode::Decided => "DECIDED",
            ReasonCode::TriggerRule => "TRIGGER_RULE",
            ReasonCode::Condition => "CONDITION",
            ReasonCode::Inputs => "INPUTS",
            ReasonCode::DagStopped => "DAG_STOPPED",
            ReasonCode::StepsFailed => "STEPS_FAILED",
            ReasonCode::Marked => "MARKED",
            ReasonCode::Approval => "APPROVAL",
            ReasonCode::ResultTooLarge => "RESULT_TOO_LARGE",
            ReasonCode::NoMessage => "NO_MESSAGE",
        }
    }
}

/// A run to be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// Its id; a second run with the same id is refused.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// The tenant of the job.
    pub tenant: TenantId,
    /// The version of the job that it was created from.
    pub job_version: u32,
    /// The scheduled time of the run.
    pub scheduled_for: Timestamp,
    /// The name of the shard; empty if there is none.
    pub shard: String,
    /// When it may start: the scheduled time and the jitter.
    pub due_at: Timestamp,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// Trigger of the run.
    pub origin: Origin,
    /// How many missed occurrences it stands for besides its own. Of a backfilled run: how many
    /// backfilled runs of its job may execute at the same time, 0 for as many as the job allows.
    pub coalesced: u32,
    /// Whether it starts without regard to the jobs that its job depends on.
    pub ignore_dependencies: bool,
    /// Values for the action, as a JSON object.
    pub parameters: Option<String>,
    /// Labels and roles that a node must have to claim it.
    pub place: Placement,
    /// The kind of slot that it takes.
    pub slot: SlotKind,
    /// The user that requested it; none for a run of a schedule, a dependency or an upstream run.
    /// The store keeps it with the run. A claim does not return it: no step of a node depends on
    /// it.
    pub requested_by: Option<UserId>,
}

impl NewRun {
    /// How many backfilled runs of its job may be at work at a time, if its backfill limits it.
    pub fn backfill_limit(&self) -> Option<u32> {
        self.origin.split_coalesced(self.coalesced).1
    }
}

/// Scheduled times that ended without a run: one row of the ledger for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The id of the row, computed from the first of the times.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// The tenant of the job.
    pub tenant: TenantId,
    /// The version of the job at that time.
    pub job_version: u32,
    /// The first scheduled time.
    pub first: Timestamp,
    /// The last scheduled time.
    pub last: Timestamp,
    /// The number of scheduled times.
    pub count: u64,
    /// Skipped or missed.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
}

/// The claim of a run: the right of a node to execute it, until the run ends or the lease of the
/// node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The run.
    pub run: RunId,
    /// The fencing token, which grows with every claim of any run.
    pub fence: i64,
    /// The generation: the number of the claim of this run, from 0.
    pub turn: u32,
}

/// A live run that a node has claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedRun {
    /// The claim.
    pub grant: Grant,
    /// The run.
    pub run: NewRun,
    /// The number of ended attempts, without lost ones.
    pub attempts: u32,
    /// The number of lost attempts.
    pub lost: u32,
    /// The fencing token of a start that needs no facts from the store: drawn with the claim. It is
    /// zero if the claim was read back.
    pub token: i64,
}

impl ClaimedRun {
    /// The number of the next attempt, from 1, including lost ones.
    pub fn number(&self) -> u32 {
        self.attempts + self.lost + 1
    }
}

/// The result of an attempt, from its executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// How the attempt ended.
    pub end: AttemptEnd,
    /// The message for people.
    #[serde(default)]
    pub message: String,
    /// The error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
    /// The result, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the action had a larger result than is kept: the result is a part of it, or absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_result_cut: bool,
    /// Rows that a statement changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
    /// Limits, sandbox measures and resource usage, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The output, compressed by the agent, if it is short: it is stored with the attempt. Longer
    /// output is in files of the node that executed it. It is never sent with the rest.
    #[serde(skip)]
    pub output: Option<Vec<u8>>,
    /// The delay that the target asked for (`Retry-After`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<SignedDuration>,
}

impl AttemptResult {
    /// A completed attempt.
    pub fn completed() -> Self {
        AttemptResult {
            end: AttemptEnd::Completed,
            message: String::new(),
            error: None,
            result: None,
            is_result_cut: false,
            rows_affected: None,
            details: None,
            output: None,
            retry_after: None,
        }
    }

    /// A failed attempt.
    pub fn failed(error: ErrorCode, message: impl Into<String>) -> Self {
        AttemptResult {
            end: AttemptEnd::Failed,
            message: message.into(),
            error: Some(error),
            ..Self::completed()
        }
    }
}

/// How an attempt can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum AttemptEnd {
    /// The action succeeded.
    Completed = 1,
    /// The action failed.
    Failed = 2,
    /// It was cancelled.
    Cancelled = 3,
    /// It was stopped by its timeout.
    Timeout = 4,
    /// Its node was lost.
    Lost = 5,
}

impl AttemptEnd {
    /// Every end, in the order of their numbers.
    pub const ALL: [AttemptEnd; 5] = [
        AttemptEnd::Completed,
        AttemptEnd::Failed,
        AttemptEnd::Cancelled,
        AttemptEnd::Timeout,
        AttemptEnd::Lost,
    ];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            AttemptEnd::Completed => "COMPLETED",
            AttemptEnd::Failed => "FAILED",
            AttemptEnd::Cancelled => "CANCELLED",
            AttemptEnd::Timeout => "TIMEOUT",
            AttemptEnd::Lost => "LOST",
        }
    }
}

/// The error of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A command ended with this code.
    Exit(i32),
    /// A command was ended by this signal.
    Signal(i32),
    /// An endpoint answered with this status.
    Http(u16),
    /// A database answered with this code.
    SqlState(String),
    /// The policy of the server refused it, by name: nothing was executed.
    Refused(String),
    /// Another error, by name.
    Other(String),
}

impl ErrorCode {
    /// Whether the policy of the server refused it. Such an error is final: another attempt meets
    /// the same policy. Every other error is retried by the policy of the job, because its cause (a
    /// missing table, a role, a command that is not installed) may be fixed before the next
    /// attempt.
    pub fn is_refusal(&self) -> bool {
        matches!(self, ErrorCode::Refused(_))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorCode::Exit(code) => write!(f, "EXIT_{code}"),
            ErrorCode::Signal(signal) => write!(f, "SIGNAL_{signal}"),
            ErrorCode::Http(status) => write!(f, "HTTP_{status}"),
            ErrorCode::SqlState(code) => write!(f, "SQLSTATE_{code}"),
            ErrorCode::Refused(name) | ErrorCode::Other(name) => f.write_str(name),
        }
    }
}

/// An ended attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedAttempt {
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The fencing token; none if the attempt was lost before it reported one.
    pub fence: Option<i64>,
    /// The version of the job that it used, if that differs from the version of the run.
    pub job_version: Option<u32>,
    /// The node that executed it.
    pub node: NodeId,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The result.
    #[serde(with = "with_output")]
    pub result: AttemptResult,
}
