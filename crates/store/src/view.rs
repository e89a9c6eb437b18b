//! Views of runs and attempts for clients.

use domain::cluster::NodeState;
use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::run::{Origin, RunState, Wait};
use jiff::{SignedDuration, Timestamp};

use crate::NodeInfo;

/// A page of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// Key of the next page; none when this was the last one.
    pub next: Option<C>,
}

/// A run, live or ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// Its identity.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// Tenant of the job.
    pub tenant: TenantId,
    /// The version of the job that made it.
    pub job_version: u32,
    /// Current state, or outcome.
    pub state: RunState,
    /// Its wait besides its time and a node, if it has not ended.
    pub wait: Option<Wait>,
    /// Code of the reason.
    pub reason: Option<String>,
    /// The sentence of the reason.
    pub reason_text: Option<String>,
    /// The time that it stands for.
    pub scheduled_for: Timestamp,
    /// The last time that a range row stands for.
    pub scheduled_last: Timestamp,
    /// How many times a range row stands for; 1 for a run.
    pub count: u64,
    /// Trigger of the run.
    pub origin: Origin,
    /// How many missed occurrences it stands for besides its own.
    pub coalesced: u32,
    /// How many backfilled runs of its job may be at work at a time, if its backfill limits it.
    pub backfill_concurrency: Option<u32>,
    /// The id of the shard that it works on; empty when it works on none.
    pub shard: String,
    /// When it may start, or might have.
    pub due_at: Timestamp,
    /// How many attempts have ended, lost ones not counted.
    pub attempts: u32,
    /// How many attempts were lost.
    pub lost: u32,
    /// The node that holds it, or that made its last attempt.
    pub node: Option<NodeId>,
    /// The fence of its last ended attempt.
    pub fence: Option<i64>,
    /// Start of its last attempt; while one is under way, the start of that one, as far as its node
    /// has reported it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Message of its last attempt.
    pub message: Option<String>,
    /// The error of its last attempt.
    pub error: Option<String>,
    /// Result, as JSON.
    pub result: Option<String>,
    /// Rows that a statement changed.
    pub rows_affected: Option<u64>,
    /// Whether it is a dead letter that no operator has acknowledged.
    pub dead_letter: bool,
    /// Values for the action, as a JSON object.
    pub parameters: Option<String>,
    /// User that requested it; none for a run of a schedule or of another run.
    pub requested_by: Option<UserId>,
    /// When it was recorded, and with that queued.
    pub created_at: Timestamp,
    /// Whether its statements were committed together with the record that they were.
    pub exactly_once: bool,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptView {
    /// 1 for the first, lost ones counted.
    pub number: u32,
    /// Fencing token of the attempt; none when its node was lost before it reported.
    pub fence: Option<i64>,
    /// Where it ran.
    pub node: NodeId,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended, by name.
    pub end: String,
    /// Message of the executor.
    pub message: Option<String>,
    /// Its error.
    pub error: Option<String>,
    /// Limits in force and resources used, as JSON.
    pub details: Option<String>,
}

/// How long a node that is gone is listed.
pub(crate) const GONE_KEPT_US: i64 = 24 * 3_600 * 1_000_000;

/// How a node stands to the cluster.
pub(crate) fn node_state(dead: bool, draining: bool, gone: bool) -> NodeState {
    match (gone, dead, draining) {
        (true, ..) => NodeState::Gone,
        (false, true, _) => NodeState::Down,
        (false, false, true) => NodeState::Draining,
        (false, false, false) => NodeState::Active,
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its identity.
    pub id: NodeId,
    /// Properties as the node reported them.
    pub info: NodeInfo,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it last renewed its lease.
    pub renewed_at: Timestamp,
    /// When its lease ends.
    pub lease_until: Timestamp,
    /// How it stands to the cluster.
    pub state: NodeState,
    /// The epoch that it leads in, if it leads.
    pub leads: Option<i64>,
    /// How far the clock of the store is ahead of its own, as it last said.
    pub clock_offset: SignedDuration,
    /// How many runs it holds.
    pub held: u64,
}
