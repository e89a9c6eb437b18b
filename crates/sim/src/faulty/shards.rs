//! Shards and queries about runs: passed through like everything else.

use domain::dag::state::StepRecord;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::partition::Part;
use domain::run::{Grant, NewRun, Reason};
use store::{
    Advance, Advanced, Applied, Cancelled, ClaimFor, DagRun, Dags, Extended, HeldLease, Lapsed,
    LastRun, LeaseExtension, LeaseRequest, Leased, LiveCounts, LiveRun, Messages, Move, NewMessage,
    OwnedShard, Page, ParentRun, QueueDepth, RecentEnd, Records, Result, RunQueries, RunView, Sent,
    SettledMessage, Shards, StartFilter, StartKey,
};

use super::FaultyStore;
use crate::event::SimEvent;

impl<S: RunQueries> RunQueries for FaultyStore<S> {
    through! {
        attempt_output(run: RunId, number: u32) -> Option<Vec<u8>>;
        live(tenant: TenantId) -> LiveCounts;
        live_run(run: RunId) -> Option<LiveRun>;
        last_runs(jobs: &[JobId]) -> Vec<LastRun>;
        recent_ends(jobs: &[JobId], limit: u32) -> Vec<RecentEnd>;
        latest_starts(filter: &StartFilter, after: Option<StartKey>, limit: u32)
            -> Page<RunView, StartKey>;
        retried(before: Option<RunId>, limit: u32) -> Page<RunView, RunId>;
    }
}

impl<S: Dags> Dags for FaultyStore<S> {
    through! {
        begin_dags(node: NodeId, runs: &[(Grant, DagRun)]) -> Vec<bool>;
        repeat_dag(new: &NewRun, run: &DagRun, adopted: &[StepRecord]) -> bool;
    }

    async fn advance(&self, batch: &[Advance], claim: Option<ClaimFor>) -> Result<Advanced> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let advanced = self.inner.advance(batch, claim).await;
        if let Ok(advanced) = &advanced {
            let written = batch.iter().zip(&advanced.written).filter(|(_, written)| **written);
            for run in written.flat_map(|(step, _)| &step.runs) {
                self.link.saw(SimEvent::Submitted { at, run: run.clone() });
            }
            if let Some(claim) = claim {
                self.saw_claims(at, claim.node, &advanced.claimed).await?;
            }
        }
        self.link.back(advanced).await
    }
}

impl<S: Messages> Messages for FaultyStore<S> {
    through! {
        send_messages(queue: JobId, max_depth: Option<u64>, messages: &[NewMessage]) -> Sent;
        lease_messages(request: &LeaseRequest) -> Leased;
        extend_leases(leases: &[LeaseExtension]) -> Vec<Option<Extended>>;
        ready_queues(queues: &[JobId]) -> Vec<JobId>;
        held_leases(queue: JobId, leases: &[(RunId, i64)]) -> Vec<HeldLease>;
        settle_messages(node: NodeId, settled: &[SettledMessage]) -> Vec<Applied>;
        lapsed_messages(limit: u32) -> Vec<Lapsed>;
        cancel_message(queue: JobId, message: RunId, reason: &Reason, by: &str) -> Cancelled;
        queue_depths(queues: &[JobId]) -> Vec<QueueDepth>;
        forget_message_keys(limit: u32) -> u64;
    }
}

impl<S: Shards + Records> Shards for FaultyStore<S> {
    through! {
        shards(tenant: Option<TenantId>) -> Vec<OwnedShard>;
        parts(runs: &[RunId]) -> Vec<Part>;
        parents(parts: &[RunId]) -> Vec<(RunId, RunId)>;
        wake_split(runs: &[RunId]) -> u64;
        prune_parts(limit: u32) -> u64;
    }

    async fn assign(&self, node: NodeId, epoch: i64, moves: &[Move]) -> Result<Option<u64>> {
        self.link.there().await?;
        let moved = self.inner.assign(node, epoch, moves).await;
        if let Ok(Some(_)) = &moved {
            for shard in self.inner.shards(None).await? {
                self.link.saw(SimEvent::Owned { shard: shard.object.id, owner: shard.owner });
            }
        }
        self.link.back(moved).await
    }

    async fn split_run(&self, run: ParentRun<'_>, parts: &[NewRun]) -> Result<bool> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let split = self.inner.split_run(run, parts).await;
        if let Ok(true) = &split {
            for part in parts {
                self.link.saw(SimEvent::Submitted { at, run: part.clone() });
            }
        }
        self.link.back(split).await
    }
}
