//! Shards, their owners, and runs that are split into child runs.
//!
//! # Ownership
//!
//! The leader assigns the owner of a shard. Each move is a write that names the leader's epoch,
//! which is checked in its transaction, and the fence that the leader saw; the fence grows with it.
//! A claim reads the ownership in its own transaction and excludes moves meanwhile, so a node that
//! does not own a shard any more gets nothing of it, whatever it believes.
//!
//! # Parts
//!
//! ```text
//!   run ──claim──▶ held ──split──▶ held, with parts ──finish: waits for them──▶ waiting
//!                                                                                  │
//!                                          every part has ended: wake_split ◀────┘
//!                                                                                  │
//!                                                        claim ──▶ held ──finish──▶ ended
//! ```
//!
//! A run is split once: all parts are recorded in one transaction, which finds none before it. So a
//! node that holds the run after a crash finds the parts that there are, and makes no others. A
//! part is a run like any other; that it is a part is written beside it.

use std::future::Future;

use domain::id::{NodeId, ObjectId, RunId, TenantId};
use domain::object::Object;
use domain::partition::Part;
use domain::run::{Grant, NewRun};
use domain::shard::Ownership;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::named_resources::object;
use crate::records::{Records, Row, Statement, params};
use crate::{Cluster, NamedResources, Result};

/// A store that knows shards and parts of runs.
pub trait Shards: Cluster + NamedResources {
    /// The shards of a tenant, or of all tenants, by name, with their owners.
    fn shards(
        &self,
        tenant: Option<TenantId>,
    ) -> impl Future<Output = Result<Vec<OwnedShard>>> + Send;

    /// Moves shards to other owners in the leader's name. Returns how many moved: others have been
    /// moved by another leader, or are gone; none when the node does not lead in this epoch, and
    /// nothing is written then.
    fn assign(
        &self,
        node: NodeId,
        epoch: i64,
        moves: &[Move],
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Splits a run: records its child runs, at least one and all of the run's job. Returns false,
    /// and writes nothing, when it has child runs already, when its cancellation was requested, or
    /// when it is not the holder's any more.
    fn split_run(
        &self,
        run: ParentRun<'_>,
        parts: &[NewRun],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The parts of runs, in their order.
    fn parts(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<Part>>> + Send;

    /// The parent run of each of these runs; runs without one are left out.
    fn parents(&self, parts: &[RunId]) -> impl Future<Output = Result<Vec<(RunId, RunId)>>> + Send;

    /// Makes those runs claimable that wait for parts which have all ended: those given, and those
    /// that a given one is a part of. Returns how many these are.
    fn wake_split(&self, runs: &[RunId]) -> impl Future<Output = Result<u64>> + Send;

    /// Deletes rows of child runs whose parent is gone, reading at most `limit` of them; returns
    /// how many.
    fn prune_parts(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// A stored shard and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedShard {
    /// The shard.
    pub object: Object,
    /// Its owner.
    pub owner: Ownership,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A shard that shall have another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The shard.
    pub shard: ObjectId,
    /// The fence under which it is owned at present.
    pub fence: i64,
    /// The new owner; none when no node may own it.
    pub to: Option<NodeId>,
}

/// A run that is split.
#[derive(Clone, Copy, Debug)]
pub enum ParentRun<'a> {
    /// A run that a node holds.
    Held(NodeId, Grant),
    /// A new one, which waits for its parts from the beginning.
    New(&'a NewRun),
}

impl ParentRun<'_> {
    /// Its id.
    pub fn id(&self) -> RunId {
        match self {
            ParentRun::Held(_, grant) => grant.run,
            ParentRun::New(run) => run.id,
        }
    }
}

/// The shards of a tenant, or of all.
pub(crate) async fn list(
    store: &impl Records,
    tenant: Option<TenantId>,
) -> Result<Vec<OwnedShard>> {
    let sql = "SELECT o.id, o.tenant_id, o.kind, o.name, o.body, o.version, o.created_at,
                   o.changed_at, s.node_id, coalesce(s.fence, 0), s.since
               FROM objects AS o LEFT JOIN shard_owners AS s ON s.shard_id = o.id
               WHERE o.kind = 'SHARD' AND ($1 IS NULL OR o.tenant_id = $1)
               ORDER BY o.tenant_id, o.name";
    let rows = store.query(Statement::new(sql, params![tenant.map(|tenant| tenant.0)])).await?;
    let shard = |row: &Row| {
        let node = row.get::<Option<_>>(8)?.map(NodeId);
        let owner = Ownership { node, fence: row.get(9)? };
        Ok(OwnedShard { object: object(row)?, owner, since: row.get(10)? })
    };
    rows.iter().map(shard).collect()
}
