//! Claimed runs that have not begun: prepared until they are due, waiting for a slot, released.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use domain::id::NodeId;
use domain::run::{ClaimedRun, Grant};
use domain::slot::SlotKind;
use jiff::Timestamp;
use store::{Finish, Verdict};

use super::{Held, Node, Running, State};

impl Node {
    /// Releases a run, so that other nodes can claim it.
    pub(super) fn release(&self, node: NodeId, run: &ClaimedRun) {
        let mut state = self.state();
        if state.frees_slot(node, run) {
            state.held.remove(&run.grant.run);
            let (grant, verdict) = (run.grant, Verdict::Release);
            state.done.push(Finish::untried(grant, verdict));
        }
    }

    /// A run that could not be decided about is as due as before.
    pub(super) fn requeue(&self, node: NodeId, run: &ClaimedRun) {
        self.put_back_in(&mut self.state(), node, run);
    }

    pub(super) fn put_back_in(&self, state: &mut State, node: NodeId, run: &ClaimedRun) {
        if state.frees_slot(node, run) {
            state.slot_waiters[run.run.slot]
                .insert(run.run.tenant, (run.run.due_at, run.grant.run));
        }
    }

    /// The action of the job was changed since the run was claimed: it gets in line for a slot of
    /// the other kind.
    pub(super) fn change_slot(&self, node: NodeId, run: &ClaimedRun, slot: SlotKind) {
        let mut state = self.state();
        if !state.frees_slot(node, run) {
            return;
        }
        if let Some(held) = state.held.get_mut(&run.grant.run) {
            let mut moved = run.clone();
            moved.run.slot = slot;
            held.run = Arc::new(moved);
        }
        state.slot_waiters[slot].insert(run.run.tenant, (run.run.due_at, run.grant.run));
    }

    /// A run that is early by the store's clock, or that later runs are decided before, is prepared
    /// until then.
    pub(super) fn defer(&self, node: NodeId, run: &ClaimedRun, until: Timestamp) {
        let mut state = self.state();
        if state.frees_slot(node, run) {
            state.prepared.insert((until, run.grant.run));
        }
    }

    /// A run that was about to begin is not this node's any more.
    pub(super) fn drop_stale(&self, node: NodeId, run: &ClaimedRun) {
        let mut state = self.state();
        if state.id == node && state.held(run.grant).is_some() {
            state.held.remove(&run.grant.run);
            state.free[run.run.slot] += 1;
        }
    }

    /// A run that was about to begin is as due as before.
    pub(super) fn unmark_running(&self, node: NodeId, run: &ClaimedRun) {
        let mut state = self.state();
        if state.id != node {
            return;
        }
        if let Some(held) =
            state.held.get_mut(&run.grant.run).filter(|it| it.run.grant == run.grant)
        {
            held.running = None;
            self.put_back_in(&mut state, node, run);
        }
    }

    /// A run whose parts could not be recorded or read is as due as before.
    pub(super) fn requeue_if_failed(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        done: store::Result<()>,
    ) {
        if let Err(error) = done {
            tracing::warn!(run = %run.grant.run, %error, "a run is not split yet");
            self.requeue(node, run);
        }
    }

    /// New claims, requested at this time: due runs get in line, the others are prepared.
    pub(super) fn accept_claims(&self, claimed: Vec<ClaimedRun>, claimed_at: Timestamp) {
        let now = self.now();
        let mut state = self.state();
        for run in claimed {
            let (tenant, slot) = (run.run.tenant, run.run.slot);
            let place = (run.run.due_at, run.grant.run);
            match state.held.entry(run.grant.run) {
                Entry::Occupied(held) if held.get().run.grant == run.grant => continue,
                entry => {
                    let run = Arc::new(run);
                    entry.insert_entry(Held { run, claimed_at, running: None, late_starts: 0 });
                }
            }
            if place.0 <= now {
                state.slot_waiters[slot].insert(tenant, place);
            } else {
                state.prepared.insert(place);
            }
        }
    }
}

impl State {
    /// Returns false when the run was released or lost while it was looked at.
    pub(super) fn mark_running(
        &mut self,
        node: NodeId,
        run: &ClaimedRun,
        running: Running,
    ) -> bool {
        let started_at = running.started_at;
        let held = self.held.get_mut(&run.grant.run).filter(|held| held.run.grant == run.grant);
        let Some(held) = held.filter(|held| held.running.is_none()) else {
            self.frees_slot(node, run);
            return false;
        };
        held.running = Some(running);
        let late = self.late_start(run, started_at);
        self.pending_alerts.extend(late);
        true
    }

    /// Whether a claim is held and its run has neither started nor been rejected.
    pub(super) fn is_waiting(&self, grant: Grant) -> bool {
        self.held(grant).is_some_and(|held| held.running.is_none())
    }

    /// Takes a slot for the run whose turn it is; none when there is no slot of the kind, or no run
    /// that waits for one.
    pub(super) fn take_slot(&mut self, slot: SlotKind) -> Option<Arc<ClaimedRun>> {
        while self.free[slot] > 0 {
            let run = self.slot_waiters[slot].pop(&self.weights)?;
            if let Some(held) = self.held.get(&run).filter(|held| held.running.is_none()) {
                self.free[slot] -= 1;
                return Some(Arc::clone(&held.run));
            }
        }
        None
    }

    /// The slot that was taken for a run is free again, unless the node is another one by now.
    /// Returns whether the run still waits for it.
    pub(super) fn frees_slot(&mut self, node: NodeId, run: &ClaimedRun) -> bool {
        let same = self.id == node;
        self.free[run.run.slot] += u32::from(same);
        same && self.is_waiting(run.grant)
    }
}
