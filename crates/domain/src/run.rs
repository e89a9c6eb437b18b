//! A run: one occurrence of a job, from the moment it is planned to its one outcome.
//!
//! While it can still change, a run is a *live* row of the store; its outcome moves it to the
//! history, which only grows. What a live run is doing is derived from three facts and never
//! written on its own: whether its time has come, whether somebody holds it, and whether it waits
//! for something else.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cluster::Place;
use crate::id::{JobId, NodeId, RunId, TenantId, UserId};
use crate::slot::SlotKind;

mod state;

pub use state::{Event, Outcome, RunState, TRANSITIONS};

/// Who asked for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Origin {
    /// The schedule, in time.
    Schedule = 1,
    /// The schedule, after an outage.
    CatchUp = 2,
    /// A person or a program.
    Manual = 3,
    /// A person, for times of the past.
    Backfill = 4,
    /// The end of another job.
    Dependency = 5,
    /// Another run of the job, which was divided.
    Part = 6,
}

impl Origin {
    /// The origin of a number that a store kept.
    pub fn from_number(number: i64) -> Option<Self> {
        [
            Origin::Schedule,
            Origin::CatchUp,
            Origin::Manual,
            Origin::Backfill,
            Origin::Dependency,
            Origin::Part,
        ]
        .into_iter()
        .find(|origin| *origin as i64 == number)
    }

    /// Whether the run stands for a nominal time of the schedule.
    pub fn is_tick(self) -> bool {
        matches!(self, Origin::Schedule | Origin::CatchUp)
    }
}

/// What a run waits for, other than its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Wait {
    /// Earlier runs of the same job.
    Overlap = 1,
    /// Runs of other jobs.
    Upstream = 2,
    /// Acknowledgements of a majority of the schedulers.
    Quorum = 3,
    /// Its own parts. It has begun: what it waits for is its work.
    Parts = 4,
}

impl Wait {
    /// What a number that a store kept waits for.
    pub fn from_number(number: i64) -> Option<Self> {
        [Wait::Overlap, Wait::Upstream, Wait::Quorum, Wait::Parts]
            .into_iter()
            .find(|wait| *wait as i64 == number)
    }
}

/// Why a run ended as it did, as a word for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The word.
    pub code: ReasonCode,
    /// The sentence.
    pub text: String,
}

/// The words of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReasonCode {
    /// Earlier runs of the job had not ended.
    Overlap,
    /// A job that it depends on failed.
    UpstreamFailed,
    /// A job that it depends on did not end in time.
    UpstreamNotReady,
    /// Another run stands for it, or the policy lets missed times go.
    CatchUp,
    /// Clocks jumped over its local time.
    DstGap,
    /// It could not start before its deadline.
    StartDeadline,
    /// A person or a program stopped it.
    CancelRequested,
    /// Every attempt failed.
    RetriesExhausted,
    /// The error is one that is not retried: Punctual's policy refused the attempt, or the job's
    /// own rules exclude the error.
    NotRetryable,
    /// Its agents were lost too often.
    Lost,
    /// The job was deleted or changed before it started.
    JobChanged,
    /// Some of its parts did not complete.
    PartsFailed,
}

impl ReasonCode {
    /// The word at every door.
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
        }
    }
}

/// A run to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its identity; a second run with the same one is refused.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// Whose job it is.
    pub tenant: TenantId,
    /// The version of the job that asked for it.
    pub job_version: u32,
    /// The time that it stands for.
    pub scheduled_for: Timestamp,
    /// The slice of the user's data that it works on; empty when there is one only.
    pub shard: String,
    /// When it may start: the nominal time and the jitter.
    pub due_at: Timestamp,
    /// 0 to 9, higher is more urgent.
    pub priority: u8,
    /// Who asked for it.
    pub origin: Origin,
    /// How many missed occurrences it stands for besides its own.
    pub coalesced: u32,
    /// Whether it starts without regard to the jobs that its job depends on.
    pub ignore_dependencies: bool,
    /// Values for the action, as a JSON object.
    pub parameters: Option<String>,
    /// What a node must offer to be handed it.
    pub place: Place,
    /// The kind of slot that it takes.
    pub slot: SlotKind,
    /// The user who asked for it; none for what the schedule, a dependency or an upstream run asked
    /// for. The store keeps it with the run. A claim does not bring it back: no step of a node
    /// depends on it.
    pub requested_by: Option<UserId>,
}

/// Nominal times that ended without a run: one row of the ledger for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// The identity of the row, made from the first of the times.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// Whose job it is.
    pub tenant: TenantId,
    /// The version of the job that was due.
    pub job_version: u32,
    /// The first nominal time.
    pub first: Timestamp,
    /// The last nominal time.
    pub last: Timestamp,
    /// How many they are.
    pub count: u64,
    /// Skipped or missed.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
}

/// The right of a node to work on a run, until the run ends or the node's lease does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The run.
    pub run: RunId,
    /// The number that grows with every grant, of this run and of all others.
    pub fence: i64,
    /// Which grant of this run it is, from 0.
    pub turn: u32,
}

/// A live run in the hands of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedRun {
    /// The right to it.
    pub grant: Grant,
    /// What was asked for.
    pub run: NewRun,
    /// How many attempts have ended before this one, lost ones not counted.
    pub attempts: u32,
    /// How many attempts were lost before this one.
    pub lost: u32,
    /// The fencing token of a start that needs no look at the store: drawn with the claim. It is
    /// zero where the claim was read back.
    pub token: i64,
}

impl ClaimedRun {
    /// Which attempt comes next, from 1; lost ones count.
    pub fn number(&self) -> u32 {
        self.attempts + self.lost + 1
    }
}

/// How an attempt ended, as its executor tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The end.
    pub end: AttemptEnd,
    /// What a person should read.
    #[serde(default)]
    pub message: String,
    /// The error, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
    /// What it produced, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Rows that a statement changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
    /// What was in force and what was used, as JSON: limits, sandbox, times, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// What it has said, compressed by the agent, if that is little: kept with the record. What is
    /// longer is in files of the node that executed it. It never travels with the rest.
    #[serde(skip)]
    pub output: Option<Vec<u8>>,
    /// How long the target asked to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<SignedDuration>,
}

impl AttemptResult {
    /// The work is done.
    pub fn completed() -> Self {
        AttemptResult {
            end: AttemptEnd::Completed,
            message: String::new(),
            error: None,
            result: None,
            rows_affected: None,
            details: None,
            output: None,
            retry_after: None,
        }
    }

    /// The work failed.
    pub fn failed(error: ErrorCode, message: impl Into<String>) -> Self {
        AttemptResult {
            end: AttemptEnd::Failed,
            message: message.into(),
            error: Some(error),
            ..Self::completed()
        }
    }
}

/// The ways in which an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum AttemptEnd {
    /// The work is done.
    Completed = 1,
    /// The work failed.
    Failed = 2,
    /// It was stopped because somebody asked for it.
    Cancelled = 3,
    /// It was stopped because it took too long.
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

    /// The name at every door.
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

/// What went wrong, in the terms of the thing that failed.
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
    /// Punctual's own policy forbids it, by name: nothing was tried.
    Refused(String),
    /// Something else, by name.
    Other(String),
}

impl ErrorCode {
    /// Whether Punctual's own policy refused it. Such an error is final: another attempt meets the
    /// same policy. Every other error is retried as the job says, because what caused it (a missing
    /// table, a role, a command that is not installed) can be there at the next attempt.
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

/// An attempt that ended, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedAttempt {
    /// 1 for the first.
    pub number: u32,
    /// The fencing token that it was given; none when it was lost before it reported one.
    pub fence: Option<i64>,
    /// The version of the job that it followed, if that is not the one that planned the run.
    pub job_version: Option<u32>,
    /// Where it ran.
    pub node: NodeId,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended.
    pub result: AttemptResult,
}
