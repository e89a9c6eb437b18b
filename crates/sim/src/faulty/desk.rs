//! What the doors ask for, and shards: handed through like everything else.

use domain::id::{JobId, NodeId, ObjectId, RunId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::partition::Part;
use domain::run::{NewRun, Reason};
use jiff::SignedDuration;
use store::{
    Answer, Applied, Begun, Cancelled, Desk, Extended, HeldLease, Lapsed, LastRun, LeaseRequest,
    Leased, LiveCounts, Messages, Move, NamedResources, NewMessage, NodeView, OwnedShard, Page,
    Put, QueueDepth, RecentEnd, Result, RunView, Sent, Set, Setting, SettledMessage, Shards,
    StartFilter, StartKey, Whole,
};

use super::FaultyStore;
use crate::event::Event;

impl<S: Desk> Desk for FaultyStore<S> {
    through! {
        acknowledge(runs: &[RunId]) -> Vec<bool>;
        count_dead_letters(tenant: TenantId, most: u32) -> u32;
        attempt_output(run: RunId, number: u32) -> Option<Vec<u8>>;
        nodes() -> Vec<NodeView>;
        live(tenant: TenantId) -> LiveCounts;
        last_runs(jobs: &[JobId]) -> Vec<LastRun>;
        recent_ends(jobs: &[JobId], limit: u32) -> Vec<RecentEnd>;
        latest_starts(filter: &StartFilter, after: Option<StartKey>, limit: u32)
            -> Page<RunView, StartKey>;
        retried(before: Option<RunId>, limit: u32) -> Page<RunView, RunId>;
        settings() -> Vec<Setting>;
        set(name: &str, value: Option<&str>, expected: u32) -> Set;
        begin_request(tenant: TenantId, key: &str, fingerprint: &[u8]) -> Begun;
        finish_request(tenant: TenantId, key: &str, answer: Option<&Answer>) -> ();
        forget_requests(limit: u32) -> u64;
    }
}

impl<S: Messages> Messages for FaultyStore<S> {
    through! {
        send_messages(queue: JobId, max_depth: Option<u64>, messages: &[NewMessage]) -> Sent;
        lease_messages(request: &LeaseRequest) -> Leased;
        extend_leases(queue: JobId, leases: &[(RunId, i64)], lease: SignedDuration)
            -> Vec<Option<Extended>>;
        held_leases(queue: JobId, leases: &[(RunId, i64)]) -> Vec<HeldLease>;
        settle_messages(node: NodeId, settled: &[SettledMessage]) -> Vec<Applied>;
        lapsed_messages(limit: u32) -> Vec<Lapsed>;
        cancel_message(queue: JobId, message: RunId, reason: &Reason) -> Cancelled;
        queue_depths(queues: &[JobId]) -> Vec<QueueDepth>;
        forget_message_keys(limit: u32) -> u64;
    }
}

impl<S: NamedResources> NamedResources for FaultyStore<S> {
    through! {
        put_object(object: &Object, expected: u32) -> Put;
        remove_object(tenant: TenantId, id: ObjectId, expected: u32) -> Set;
        object(id: ObjectId) -> Option<Object>;
        object_by_name(tenant: TenantId, kind: ObjectKind, name: &str) -> Option<Object>;
        list_objects(tenant: TenantId, kind: ObjectKind, after: Option<&str>, limit: u32)
            -> Page<Object, String>;
        objects_of_kind(kind: ObjectKind, after: Option<ObjectId>, limit: u32) -> Vec<Object>;
    }
}

impl<S: Shards> Shards for FaultyStore<S> {
    through! {
        shards(tenant: Option<TenantId>) -> Vec<OwnedShard>;
        parts(runs: &[RunId]) -> Vec<Part>;
        parents(parts: &[RunId]) -> Vec<(RunId, RunId)>;
        wake_divided(runs: &[RunId]) -> u64;
        prune_parts(limit: u32) -> u64;
    }

    async fn assign(&self, node: NodeId, epoch: i64, moves: &[Move]) -> Result<Option<u64>> {
        self.link.there().await?;
        let moved = self.inner.assign(node, epoch, moves).await;
        if let Ok(Some(_)) = &moved {
            for shard in self.inner.shards(None).await? {
                self.link.saw(Event::Owned { shard: shard.object.id, owner: shard.owner });
            }
        }
        self.link.back(moved).await
    }

    async fn divide(&self, run: Whole<'_>, parts: &[NewRun]) -> Result<bool> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let divided = self.inner.divide(run, parts).await;
        if let Ok(true) = &divided {
            for part in parts {
                self.link.saw(Event::Submitted { at, run: part.clone() });
            }
        }
        self.link.back(divided).await
    }
}
