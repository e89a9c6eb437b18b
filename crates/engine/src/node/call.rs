//! Calls that end claims or make new ones, and the recovery of one whose reply was lost.
//!
//! ```text
//!   leave ──▶ committed ──▶ reply             nothing to do
//!   leave ──▶ committed ──▶ ✗ (or never sent) unknown: end the same claims again, and read from
//!                                             the store what this node holds before claiming
//! ```
//!
//! Ending a claim twice is harmless. A claim whose reply was lost is not: the node would renew
//! the lease of runs that it does not know, and no node would ever start them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use domain::id::NodeId;
use domain::run::{ClaimedRun, Grant};
use domain::slot::{PerSlot, SlotKind};
use store::Finish;

use super::{Node, State};
use crate::start_log::BegunRun;

/// A call under way. If it is dropped without an answer, it is unknown whether it took effect.
pub(super) struct Call<'a> {
    state: &'a Mutex<State>,
    /// The calling node.
    pub node: NodeId,
    /// Claims that it ends.
    pub done: Vec<Finish>,
    /// Slots that it asks to fill now.
    pub due: PerSlot<u32>,
    /// Runs that it claims ahead of their time.
    pub soon: u32,
    /// Whether it reports ends, and whether it is made to claim runs.
    tells: bool,
    asks: bool,
    answered: bool,
}

impl<'a> Call<'a> {
    /// Begins a call; the slots are taken until it is over.
    pub fn begin(
        of: &'a Mutex<State>,
        state: &mut State,
        done: Vec<Finish>,
        due: PerSlot<u32>,
        soon: u32,
    ) -> Self {
        let tells = !done.is_empty();
        state.calls_in_flight += 1;
        state.reports_in_flight += u32::from(tells);
        SlotKind::ALL.iter().for_each(|slot| state.free[*slot] -= due[*slot]);
        state.asked_soon += soon;
        state.telling.extend(done.iter().filter_map(begun));
        Call { state: of, node: state.id, done, due, soon, tells, asks: false, answered: false }
    }

    /// The same call, counted as a claim. A call that records runs and gets some does not count.
    pub fn asking(mut self, state: &mut State) -> Self {
        self.asks = self.due.total() + self.soon > 0;
        state.claims_in_flight += u32::from(self.asks);
        self
    }

    /// The reply came, and its claims were accepted.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.id != self.node {
            return;
        }
        state.calls_in_flight -= 1;
        state.reports_in_flight -= u32::from(self.tells);
        state.claims_in_flight -= u32::from(self.asks);
        SlotKind::ALL.iter().for_each(|slot| state.free[*slot] += self.due[*slot]);
        state.asked_soon -= self.soon;
        self.done.iter().for_each(|finish| {
            state.telling.remove(&finish.grant);
        });
        if self.due.total() > 0 {
            // Another step may have looked for work while these slots were part of a claim.
            state.look_for_place();
        }
        if !self.answered {
            state.done.splice(0..0, std::mem::take(&mut self.done));
            state.claim_reply_lost |= self.due.total() + self.soon > 0;
            state.want_claim();
        }
    }
}

/// The start of the attempt that a result is of, if there was one.
pub(super) fn begun(finish: &Finish) -> Option<(Grant, BegunRun)> {
    let attempt = finish.attempt.as_ref()?;
    let (started_at, token) = (attempt.started_at, attempt.fence.unwrap_or(0));
    Some((finish.grant, BegunRun { started_at, token }))
}

/// A read of the claims of a node, until it is answered or given up. Only one is made at a time: a
/// reply that comes after the next call lists claims that this call has ended.
struct Asking<'a> {
    state: &'a Mutex<State>,
    node: NodeId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asking == Some(self.node) {
            state.asking = None;
        }
    }
}

impl State {
    /// Whether the claims of this node are being read.
    pub(super) fn is_asking(&self) -> bool {
        self.asking == Some(self.id)
    }
}

impl Node {
    /// Reads the claims of this node, if the reply to a claim may have been lost. Returns false
    /// while that is not known: other calls are still under way.
    pub(super) async fn recollect(&self) -> store::Result<bool> {
        let (node, _asking) = {
            let mut state = self.state();
            if !state.claim_reply_lost || state.is_asking() || state.calls_in_flight > 0 {
                return Ok(!state.claim_reply_lost);
            }
            state.asking = Some(state.id);
            (state.id, Asking { state: &self.state, node: state.id })
        };
        let held = self.store.held(node).await?;
        let unheard: Vec<ClaimedRun> = {
            let mut state = self.state();
            if state.id != node {
                return Ok(false);
            }
            state.claim_reply_lost = false;
            let ending: HashSet<i64> = state.done.iter().map(|finish| finish.grant.fence).collect();
            let known = |run: &ClaimedRun| {
                state.held(run.grant).is_some()
                    || ending.contains(&run.grant.fence)
                    || state.recently_released.contains(&run.grant.fence)
            };
            held.into_iter().filter(|run| !known(run)).collect()
        };
        if !unheard.is_empty() {
            tracing::warn!(runs = unheard.len(), "found runs whose claim went unheard");
        }
        self.accept_claims(unheard, self.now());
        Ok(true)
    }
}
