//! Runs with a placement request: for labels, or for the leader.

use domain::run::ClaimedRun;
use domain::slot::{PerSlot, SlotKind};
use store::ClaimRequest;

use super::Node;
use super::call::Call;

impl Node {
    /// Claims runs whose placement request this node satisfies. Returns their number.
    pub async fn claim_placed(&self) -> store::Result<usize> {
        let (call, want, epoch) = {
            let mut state = self.state();
            state.has_placement_request = false;
            state.place_first = PerSlot::default();
            if state.claim_reply_lost || !self.takes(&state) {
                return Ok(0);
            }
            let (held, most) = (state.ahead(), self.settings.batch_max);
            let want = ClaimRequest {
                due: PerSlot::from_fn(|slot| state.spare(slot).min(most)),
                soon: self.settings.prepare_max.saturating_sub(held).min(most),
                ahead: self.settings.prepare_ahead,
                tenant_max: self.settings.tenant_max_concurrent,
            };
            // The next slot is for them: with much other work, it would be gone before the next
            // look.
            state.place_first = PerSlot::from_fn(|slot| state.spare(slot) == 0);
            let epoch = state.leads;
            let call = Call::begin(&self.state, &mut state, Vec::new(), want.due, want.soon);
            (call, want, epoch)
        };
        let asked_at = self.now();
        let claimed = self.store.claim_placed(call.node, epoch, want).await?;
        if self.state().id != call.node {
            // The lease was lost meanwhile, and the claims with it.
            return Ok(0);
        }
        let count = claimed.len();
        let due = self.count_due(&claimed);
        self.prepare(&claimed).await;
        self.accept_claims(claimed, asked_at);
        call.answered();
        let is_full = |slot: &SlotKind| due[*slot] > 0 && due[*slot] >= want.due[*slot];
        self.state().place_waits |= SlotKind::ALL.iter().any(is_full);
        Ok(count)
    }

    /// Whether a run with a placement request was recorded here since the last claim, or a slot is
    /// kept for one.
    pub fn has_placement_request(&self) -> bool {
        let state = self.state();
        let is_kept = |slot: &SlotKind| {
            state.place_first[*slot] && state.free[*slot] > state.slot_waiters[*slot].len()
        };
        state.has_placement_request || SlotKind::ALL.iter().any(is_kept)
    }

    /// The definitions of runs are read before their time comes.
    async fn prepare(&self, claimed: &[ClaimedRun]) {
        let wanted: Vec<_> = claimed.iter().map(|run| (run.run.job, run.run.job_version)).collect();
        if !wanted.is_empty() {
            // If that fails now, the start will report it.
            let _ = self.definitions.read(&self.store, &wanted, self.now()).await;
        }
    }
}
