//! Cluster state beyond leases: leadership, runs that not every node may execute, and
//! acknowledgements.
//!
//! # Leadership
//!
//! ```text
//!   no leader ──take_leadership──▶ epoch n, node A ──(A is declared dead, leaves, resigns)──▶ no leader
//!                                                                │
//!                                          take_leadership ──▶ epoch n + 1, node B
//! ```
//!
//! Leadership has no lease of its own: it is valid as long as the lease of the node that has it. A
//! leader that missed heartbeats is declared dead first, which refuses all its writes, and only
//! then can another node take the leadership. An epoch belongs to one node for ever. Writes that
//! only the leader may make check in their own transaction that the node still leads in the epoch
//! it believes in.
//!
//! A leader cannot resign while it holds runs that only the leader may execute. So a node that
//! holds such a run leads, or is declared dead.
//!
//! # Placement
//!
//! A run with a placement request ([`domain::cluster::Placement`]) lies in a queue of its own,
//! which the claims of plain runs never read; [`Cluster::claim_placed`] does.

use std::future::Future;

use domain::cluster::{Leadership, Quorum};
use domain::id::{NodeId, RunId};
use domain::run::{ClaimedRun, Grant};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::records::{Records, Row, Statement, params};
use crate::{ClaimRequest, NodeView, Result, Store};

/// The setting in which the leader publishes the settings that every node should have.
pub const POLICY: &str = "cluster.policy";

/// A store that several nodes share.
pub trait Cluster: Store {
    /// Makes a node the leader if no living node is, and if it may be: it has the scheduler role,
    /// and is neither declared dead nor draining. Returns the current leader.
    fn take_leadership(&self, node: NodeId) -> impl Future<Output = Result<Leadership>> + Send;

    /// The nodes of the cluster, by when they joined.
    fn nodes(&self) -> impl Future<Output = Result<Vec<NodeView>>> + Send;

    /// The current leader.
    fn leadership(&self) -> impl Future<Output = Result<Leadership>> + Send;

    /// Gives up leadership of an epoch. Returns false, and changes nothing, when it is not the
    /// node's any more, or when the node holds runs that only the leader may execute.
    fn resign(&self, node: NodeId, epoch: i64) -> impl Future<Output = Result<bool>> + Send;

    /// Claims runs with a placement request for a node that satisfies it: with its labels, and as
    /// the leader if it leads in this epoch. A node that is declared dead or drained gets nothing.
    fn claim_placed(
        &self,
        node: NodeId,
        epoch: Option<i64>,
        want: ClaimRequest,
    ) -> impl Future<Output = Result<Vec<ClaimedRun>>> + Send;

    /// Acknowledges in a scheduler's name, in the present epoch, every run that waits for a
    /// quorum, and makes those claimable that have one. Returns how many these are.
    fn acknowledge_runs(&self, node: NodeId) -> impl Future<Output = Result<u64>> + Send;

    /// Lets attempts that are about to begin record their effects in the store's own database, each
    /// with its secret. Returns for each whether it may: false where the claim has ended, or where
    /// the store has no database of its own for jobs.
    fn allow_effects(
        &self,
        attempts: &[(Grant, String)],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Whether jobs can work in the store's own database, and record their effects there.
    fn has_effects(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Calls the first runs in line of pools that have places for them, and makes those claimable
    /// that wait. Returns how many these are. [`Store::reap`] does the same.
    fn wake_pools(&self) -> impl Future<Output = Result<u64>> + Send;

    /// How far a run is acknowledged.
    fn quorum(&self, run: RunId) -> impl Future<Output = Result<Quorum>> + Send;

    /// The nodes that have acknowledged a run, and when.
    fn acknowledgements(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<Acknowledgement>>> + Send;

    /// Publishes, as the leader, the settings that every node should have: the setting
    /// [`POLICY`](crate::POLICY), whose version is the epoch of the configuration. Returns that
    /// version; none, and nothing is written, when the node does not lead in this epoch.
    fn publish_policy(
        &self,
        node: NodeId,
        epoch: i64,
        policy: &str,
    ) -> impl Future<Output = Result<Option<u32>>> + Send;

    /// The schedulers that take part in the work: alive and not draining.
    fn schedulers(&self) -> impl Future<Output = Result<Vec<NodeId>>> + Send;

    /// Whether more enabled jobs than so many have a next time. It costs as much as counting that
    /// far.
    fn has_more_jobs_than(&self, count: u32) -> impl Future<Output = Result<bool>> + Send;

    /// Drains, resumes or removes a node.
    fn steer(
        &self,
        node: NodeId,
        steer: NodeControl,
        by: &str,
    ) -> impl Future<Output = Result<NodeControlOutcome>> + Send;
}

/// A scheduler's word that it has seen a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The leader.
    pub node: NodeId,
    /// Its epoch, which grows with every change of leadership.
    pub epoch: i64,
    /// Time of the acknowledgement.
    pub at: Timestamp,
}

/// A change of a node that an administrator requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeControl {
    /// It finishes its runs and takes no new ones.
    Drain,
    /// It shall do its part again.
    Resume,
    /// It missed heartbeats and will not come back: it does not count any more.
    Remove,
}

impl NodeControl {
    /// Name of the action in the audit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeControl::Drain => "DRAINED",
            NodeControl::Resume => "RESUMED",
            NodeControl::Remove => "REMOVED",
        }
    }
}

/// Result of a [`NodeControl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeControlOutcome {
    /// It is so now, or was so before.
    Done,
    /// There is no such node, or it is gone.
    NotFound,
    /// The node is alive: only one that missed heartbeats can be removed.
    Alive,
    /// The node missed its heartbeats: there is no process to drain or resume.
    Down,
}

/// The nodes that have acknowledged a run, and when.
pub(crate) async fn acknowledgements(
    store: &impl Records,
    run: RunId,
) -> Result<Vec<Acknowledgement>> {
    let sql = "SELECT node_id, epoch, at FROM acknowledgements WHERE run_id = $1
               ORDER BY epoch, at, node_id";
    let acknowledgement = |row: &Row| {
        Ok(Acknowledgement { node: NodeId(row.get(0)?), epoch: row.get(1)?, at: row.get(2)? })
    };
    let rows = store.query(Statement::new(sql, params![run.0])).await?;
    rows.iter().map(acknowledgement).collect()
}
