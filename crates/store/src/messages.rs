//! Messages: runs that workers pull, for the stores that keep them.
//!
//! A message is a live run whose job is its queue. A row of its own has the columns of messages:
//!
//! ```text
//!   send ──▶ ready ──lease──▶ leased ──settle──▶ ended, or delayed ──▶ ready
//!     │        ▲                 │
//!     ├─▶ delayed, until its time└──(the lease ends)──▶ settled by a scheduler
//!     └─▶ behind an earlier message with its ordering key
//! ```
//!
//! A lease is a deadline and a fencing token in the message itself: no node holds it. A write under
//! an old token finds nothing.

use std::future::Future;

use domain::id::{JobId, NodeId, RunId};
use domain::run::{AttemptResult, NewRun, Reason};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Applied, Cancelled, Result, Store, Verdict};

/// A store that keeps messages.
pub trait Messages: Store {
    /// Records messages of one queue, all of them or none.
    fn send_messages(
        &self,
        queue: JobId,
        max_depth: Option<u64>,
        messages: &[NewMessage],
    ) -> impl Future<Output = Result<Sent>> + Send;

    /// Leases ready messages of one queue, fair between workspaces: from the one after the
    /// workspace that was served last, round by round.
    fn lease_messages(&self, request: &LeaseRequest)
    -> impl Future<Output = Result<Leased>> + Send;

    /// Moves the ends of leases of any queues. Returns the results in order; none for one that has
    /// another token by now, or has ended.
    fn extend_leases(
        &self,
        leases: &[LeaseExtension],
    ) -> impl Future<Output = Result<Vec<Option<Extended>>>> + Send;

    /// The queues of these that have a message that can be leased, in no particular order.
    fn ready_queues(&self, queues: &[JobId]) -> impl Future<Output = Result<Vec<JobId>>> + Send;

    /// The leases of a queue's messages that have this token and have not ended, in no particular
    /// order.
    fn held_leases(
        &self,
        queue: JobId,
        leases: &[(RunId, i64)],
    ) -> impl Future<Output = Result<Vec<HeldLease>>> + Send;

    /// Applies reports, and decisions about messages that no worker has leased, in one commit. The
    /// node is the one that reports.
    fn settle_messages(
        &self,
        node: NodeId,
        settled: &[SettledMessage],
    ) -> impl Future<Output = Result<Vec<Applied>>> + Send;

    /// Messages about which something has to be decided, at most `limit` of each kind.
    fn lapsed_messages(&self, limit: u32) -> impl Future<Output = Result<Vec<Lapsed>>> + Send;

    /// Ends a message that no worker has, or asks its worker to stop: it hears of that when it
    /// extends the lease.
    fn cancel_message(
        &self,
        queue: JobId,
        message: RunId,
        reason: &Reason,
        by: &str,
    ) -> impl Future<Output = Result<Cancelled>> + Send;

    /// How many messages of queues are in which state, in the order of the queues.
    fn queue_depths(
        &self,
        queues: &[JobId],
    ) -> impl Future<Output = Result<Vec<QueueDepth>>> + Send;

    /// Deletes deduplication keys whose time is over and whose messages have ended; answers how
    /// many.
    fn forget_message_keys(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// A message to be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewMessage {
    /// The run. Its job is the queue; it is ready if its time has come.
    pub run: NewRun,
    /// The workspace.
    pub workspace: String,
    /// It ends as MISSED if no worker has leased it by then.
    pub expires_at: Option<Timestamp>,
    /// One message of a key is leased at a time.
    pub ordering_key: Option<String>,
    /// A second message with this key is not recorded.
    pub deduplication: Option<Deduplication>,
}

/// A deduplication key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deduplication {
    /// The key.
    pub key: String,
    /// How long it is kept at least, from now on.
    pub window: SignedDuration,
}

/// Result of sending messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// They are recorded. The id of each, and whether it is new: a message with a known
    /// deduplication key has the id of the first one.
    Done(Vec<(RunId, bool)>),
    /// The queue would have more messages than it may have. None was recorded.
    Full,
    /// There is no such queue.
    NoQueue,
}

/// Which messages are leased, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The queue.
    pub queue: JobId,
    /// The node that leases them for a worker.
    pub node: NodeId,
    /// How many at most.
    pub max: u32,
    /// How long.
    pub lease: SignedDuration,
    /// The most leased messages of the queue.
    pub concurrency: Option<u32>,
    /// The most leased messages of a workspace.
    pub workspace_concurrency: Option<u32>,
    /// The most leases per second.
    #[serde(with = "exact")]
    pub rate_per_second: Option<f64>,
    /// How many messages a workspace gets in one round; one if it is not listed.
    pub weights: Vec<(String, u32)>,
    /// The time limit of each message, if it begins with the lease. Otherwise it begins when the
    /// worker reports that it has begun.
    pub time_limit: Option<SignedDuration>,
}

impl LeaseRequest {
    /// A request without limits.
    pub fn new(queue: JobId, node: NodeId, max: u32, lease: SignedDuration) -> Self {
        LeaseRequest {
            queue,
            node,
            max,
            lease,
            concurrency: None,
            workspace_concurrency: None,
            rate_per_second: None,
            weights: Vec::new(),
            time_limit: None,
        }
    }
}

/// Result of a lease request.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    /// The messages, in the order in which workspaces are served.
    pub messages: Vec<LeasedMessage>,
    /// When the next delayed message becomes ready, or the rate allows another one.
    pub next_at: Option<Timestamp>,
}

/// A leased message.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedMessage {
    /// Its identity.
    pub id: RunId,
    /// The fencing token, larger than that of every lease before.
    pub fence: i64,
    /// The workspace.
    pub workspace: String,
    /// Payload and headers, see `domain::queue::MessageBody`.
    pub parameters: Option<String>,
    /// 0 to 9.
    pub priority: u8,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When it was sent, or when it was to be processed.
    pub scheduled_for: Timestamp,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When the lease ends.
    pub lease_until: Timestamp,
}

/// A lease that is to end later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseExtension {
    /// The queue. A message of another queue is not found.
    pub queue: JobId,
    /// The message.
    pub message: RunId,
    /// The token of its lease.
    pub fence: i64,
    /// How long the lease lasts from now on. It ends with the time limit, if that is earlier.
    pub lease: SignedDuration,
    /// The time limit.
    pub time_limit: TimeLimit,
    /// Progress report of the worker, as JSON; none if there is nothing new.
    pub progress: Option<String>,
}

/// Change of the time limit of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeLimit {
    /// It stays as it is.
    #[default]
    Keep,
    /// It begins now, unless it has begun.
    Begin(SignedDuration),
    /// It is so long from now on.
    Replace(SignedDuration),
}

impl TimeLimit {
    /// The time from now on, and whether it replaces one that has begun.
    pub(crate) fn parts(self) -> (Option<SignedDuration>, bool) {
        match self {
            TimeLimit::Keep => (None, false),
            TimeLimit::Begin(time) => (Some(time), false),
            TimeLimit::Replace(time) => (Some(time), true),
        }
    }
}

/// A renewed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// When it ends.
    pub until: Timestamp,
    /// Whether the cancellation of the message was requested.
    pub is_cancelled: bool,
}

/// Current state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// The message.
    pub message: RunId,
    /// The ended attempts before this one, including lost ones.
    pub attempts: u32,
}

/// Settlement of a message, to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettledMessage {
    /// The queue.
    pub queue: JobId,
    /// The message. One of another queue is not found.
    pub message: RunId,
    /// The token of the lease under which this was decided; none for a message that is not leased.
    pub fence: Option<i64>,
    /// It ends, is delivered again, or is released unchanged.
    pub verdict: Verdict,
    /// How the attempt ended, if one was made.
    #[serde(with = "domain::run::with_output::optional")]
    pub result: Option<AttemptResult>,
    /// Whether it leaves no trace in the history if it completes.
    pub is_forgotten: bool,
}

/// Why something has to be decided about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LapseKind {
    /// Its lease ended.
    Lease,
    /// Its time limit ended.
    TimeLimit,
    /// No worker has leased it in time.
    TimeToLive,
    /// Its queue was deleted.
    QueueDeleted,
}

/// A message about which something has to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// Cause of the lapse.
    pub kind: LapseKind,
    /// The message.
    pub message: RunId,
    /// Its queue.
    pub queue: JobId,
    /// The token of its lease, if it has one.
    pub fence: Option<i64>,
    /// The ended attempts, including lost ones.
    pub attempts: u32,
}

/// How many messages of a queue are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Those that can be leased.
    pub ready: u64,
    /// Those whose time has not come.
    pub delayed: u64,
    /// Those that workers have.
    pub leased: u64,
    /// Those behind an earlier message with their ordering key.
    pub blocked: u64,
    /// Since when the oldest ready one is due.
    pub oldest_ready: Option<Timestamp>,
}

/// A number with a fraction by its bits: its decimal form would not be read back exactly.
mod exact {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(f64::to_bits).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(f64::from_bits))
    }
}

/// The states of the column `messages.state`.
pub(crate) mod state {
    pub const READY: i16 = 0;
    pub const DELAYED: i16 = 1;
    pub const LEASED: i16 = 2;
    pub const BLOCKED: i16 = 3;
}

/// How many delayed messages one lease makes ready at most.
pub(crate) const PROMOTE_MAX: i64 = 1_000;

/// The most messages of one workspace that a lease looks at in each round: twice its even share, so
/// that a lease is filled although some workspaces have little.
pub(crate) fn share(max: u32, workspaces: usize) -> u32 {
    let workspaces = u32::try_from(workspaces.max(1)).unwrap_or(u32::MAX);
    max.div_ceil(workspaces).saturating_mul(2).clamp(1, max.max(1))
}

/// The tokens of a rate limit: the rest of `tokens` after `elapsed_us` more, at most those of one
/// second and at least one.
pub(crate) fn refilled(tokens: f64, elapsed_us: i64, rate: f64) -> f64 {
    let earned = elapsed_us.max(0) as f64 / 1e6 * rate;
    (tokens + earned).min(rate.max(1.0))
}

/// When the rate allows another lease, from now on.
pub(crate) fn until_token(tokens: f64, rate: f64) -> SignedDuration {
    let missing = (1.0 - tokens).max(0.0) / rate;
    SignedDuration::from_micros((missing * 1e6).ceil().min(1e15) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_twice_the_even_one() {
        for (max, workspaces, expected) in
            [(100, 1, 100), (100, 2, 100), (100, 4, 50), (100, 100, 2), (1, 1, 1), (1, 5, 1)]
        {
            assert_eq!(share(max, workspaces), expected, "{max} of {workspaces}");
        }
    }

    #[test]
    fn a_rate_fills_up_to_one_second() {
        for (tokens, elapsed, rate, expected) in [
            (0.0, 500_000, 10.0, 5.0),
            (8.0, 1_000_000, 10.0, 10.0),
            (0.0, 60_000_000, 0.5, 1.0),
            (3.0, -5, 10.0, 3.0),
        ] {
            assert_eq!(refilled(tokens, elapsed, rate), expected, "{tokens} {elapsed} {rate}");
        }
        assert_eq!(until_token(0.5, 2.0), SignedDuration::from_millis(250));
        assert_eq!(until_token(1.5, 2.0), SignedDuration::ZERO);
    }
}
