//! The exchange: reports results to the store and claims runs, in one call.

use domain::run::{ClaimedRun, Grant, NewRun};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, ClaimFor, ClaimRequest, Finish, Submitted, Verdict};

use super::call::Call;
use super::{Node, State};

/// How long a run is in line here while every slot is taken.
const IN_LINE_MAX: SignedDuration = SignedDuration::from_secs(1);

/// Under load, a call is for more than one batch: stepping over runs that are held already costs
/// the same for few and for many.
const BATCHES_AT_ONCE: u32 = 2;

/// Maximum number of results in a call that claims: runs should not wait for many results.
const TOLD_BESIDE_MAX: usize = 100;

/// While one call is under way, another one of its kind is worth it for so many runs: each costs
/// the store a commit, and all nodes wait for each other's claims.
const TOGETHER_MIN: u32 = 500;

/// While so many are about to start, the store is left to them.
const MANY_STARTS: usize = 100;

impl State {
    /// Whether a call should report results. Due runs come before results, and a node that leaves
    /// does not wait.
    pub(super) fn has_much_to_tell(&self) -> bool {
        let enough = if self.draining {
            1
        } else if self.starts_in_flight >= MANY_STARTS {
            2 * TOGETHER_MIN
        } else if self.reports_in_flight > 0 {
            TOGETHER_MIN
        } else {
            1
        };
        self.done.len() >= enough as usize
    }

    /// Whether a call should claim runs. Beside another claim, only for process slots: one call is
    /// enough for calls of endpoints, which are begun faster than they end.
    pub(super) fn has_much_to_fill(&self) -> bool {
        let fills = |slot: SlotKind, enough: u32| {
            self.claim_wanted[slot] && self.free_for_all(slot) >= enough
        };
        if self.claims_in_flight > 0 {
            return fills(SlotKind::Process, TOGETHER_MIN);
        }
        SlotKind::ALL.iter().any(|slot| fills(*slot, 1))
    }
}

impl Node {
    /// One call to the store. Returns whether another one would have something to do.
    pub async fn exchange(&self) -> store::Result<bool> {
        if !self.recollect().await? {
            return Ok(false);
        }
        let Some((call, want)) = self.take_news() else { return Ok(false) };
        let (asked, asked_at) = (self.ask(), self.now());
        let exchanged = self.store.complete_and_claim(call.node, &call.done, want).await?;
        self.observe_store_clock(asked, exchanged.now);
        if let Some(log) = &self.parts.start_log {
            let made = call.done.iter().filter(|finish| finish.attempt.is_some());
            made.for_each(|finish| log.end(finish.grant));
        }
        for (finish, applied) in call.done.iter().zip(&exchanged.applied) {
            self.ends.applied(finish, *applied);
            self.note_parts(finish, *applied);
            self.traces.settled(finish, *applied, exchanged.now);
            if *applied == Applied::Stale {
                let attempt = finish.attempt.as_ref().map(|attempt| attempt.number);
                tracing::warn!(
                    run = %finish.grant.run,
                    attempt,
                    "the store refused the result of a run that is no longer this node's"
                );
            }
        }
        self.definitions.forget_older(&exchanged.changed_jobs);
        self.wake_pools(&call.done).await;
        let now = self.now();
        let due = self.count_due(&exchanged.claimed);
        let soon = exchanged.claimed.len() as u32 - due.total();
        let is_full = PerSlot::from_fn(|slot| due[slot] >= want.due[slot] && want.due[slot] > 0);
        let has_more_soon = soon >= want.soon && soon > 0;
        let full = is_full.process || is_full.http || has_more_soon || exchanged.left_work;
        {
            let mut state = self.state();
            if state.id != call.node {
                // The lease was lost meanwhile, and the claims with it.
                return Ok(false);
            }
            for slot in SlotKind::ALL {
                state.claim_wanted[slot] |= is_full[slot] || has_more_soon || exchanged.left_work;
            }
        }
        let ahead: Vec<_> = exchanged.claimed.iter().filter(|run| run.run.due_at > now).collect();
        let ahead: Vec<_> = ahead.iter().map(|run| (run.run.job, run.run.job_version)).collect();
        self.accept_claims(exchanged.claimed, asked_at);
        call.answered();
        if !ahead.is_empty() {
            // Read before their time comes. If that fails now, the start will report it.
            let jobs = self.definitions.read(&self.store, &ahead, now).await;
            self.pass_on_ahead(&jobs.unwrap_or_default()).await?;
        }
        Ok(full || self.state().has_much_to_tell())
    }

    /// Records requested runs; those that are due start here if there is a free slot.
    pub async fn submit(&self, runs: &[NewRun]) -> store::Result<Submitted> {
        let call = {
            let near = self.near(runs);
            let mut state = self.state();
            // Runs of a tenant with a limit come from the queue, where they are counted.
            let is_counted = self.settings.tenant_max_concurrent.is_some();
            let open = self.takes(&state) && !state.claim_reply_lost && !is_counted;
            let room = |slot| if open { state.spare(slot).min(near[slot]) } else { 0 };
            let room = PerSlot::from_fn(room);
            Call::begin(&self.state, &mut state, Vec::new(), room, 0)
        };
        let asked_at = self.now();
        let began_at = self.traces.is_on().then_some(asked_at);
        let claim = Some(ClaimFor { node: call.node, max: call.due });
        let mut submitted =
            self.store.submit(runs, claim.filter(|claim| claim.max.total() > 0)).await?;
        self.definitions.forget_older(&submitted.changed_jobs);
        let left = {
            let near = self.near(runs);
            let mut state = self.state();
            if state.id != call.node {
                return Ok(submitted);
            }
            for slot in SlotKind::ALL {
                state.pressure[slot].was_rejected |=
                    near[slot] > call.due[slot] && state.free[slot] == 0;
            }
            let left = submitted.claimed.len() < near.total() as usize;
            if left {
                state.want_claim();
            }
            state.has_placement_request |= runs.iter().any(|run| !run.place.is_anywhere());
            left
        };
        if left {
            self.store.hint();
        }
        self.accept_claims(std::mem::take(&mut submitted.claimed), asked_at);
        let node = call.node;
        call.answered();
        if let Some(began_at) = began_at {
            let new = runs.iter().zip(&submitted.accepted).filter(|(_, new)| **new);
            let new: Vec<&NewRun> = new.map(|(run, _)| run).collect();
            let wanted: Vec<_> = new.iter().map(|run| (run.job, run.job_version)).collect();
            let now = self.now();
            // A name is good to have, and nothing to fail for.
            let jobs = self.definitions.read(&self.store, &wanted, now).await;
            let jobs = jobs.unwrap_or_default();
            let names = jobs.values().map(|job| (job.id, job.name.as_str())).collect();
            self.traces.planned(new.into_iter(), &names, node, began_at, now);
        }
        Ok(submitted)
    }

    /// How many of these runs a node would like to hold by now. The others are too far away to
    /// claim.
    fn near(&self, runs: &[NewRun]) -> PerSlot<u32> {
        let near = self.now().saturating_add(self.settings.prepare_ahead);
        let near = near.unwrap_or(Timestamp::MAX);
        let mut counts = PerSlot::default();
        for run in runs.iter().filter(|run| run.due_at <= near) {
            counts[run.slot] += 1;
        }
        counts
    }

    /// How many runs are due, by their kind of slot.
    pub(super) fn count_due(&self, claimed: &[ClaimedRun]) -> PerSlot<u32> {
        let now = self.now();
        let mut counts = PerSlot::default();
        for run in claimed.iter().filter(|run| run.run.due_at <= now) {
            counts[run.run.slot] += 1;
        }
        counts
    }

    /// Results to report and runs to claim; none when there is neither.
    fn take_news(&self) -> Option<(Call<'_>, ClaimRequest)> {
        let most = self.settings.batch_max.saturating_mul(BATCHES_AT_ONCE);
        let mut state = self.state();
        let mut want = ClaimRequest {
            tenant_max: self.settings.tenant_max_concurrent,
            ..ClaimRequest::default()
        };
        if self.seeks(&state) && (state.claims_in_flight == 0 || state.has_much_to_fill()) {
            let is_beside = state.claims_in_flight > 0;
            want.due = PerSlot::from_fn(|slot| match slot {
                SlotKind::Http if is_beside => 0,
                // A slot is worth a claim even if waiting runs of this node could fill it: a run of
                // another tenant may have waited longer in the queue.
                slot => state.spare(slot).max(state.free_for_all(slot).min(1)).min(most),
            });
            want.soon = self.settings.prepare_max.saturating_sub(state.ahead()).min(most);
            want.ahead = self.settings.prepare_ahead;
            // Where there is no slot to fill, the claim is still wanted when one is free.
            for slot in SlotKind::ALL {
                state.claim_wanted[slot] &= want.due[slot] == 0;
            }
        }
        let asks = want.due.total() > 0 || want.soon > 0;
        let batch = if asks { TOLD_BESIDE_MAX } else { most as usize };
        let done = match state.done.len() {
            _ if !asks && !state.has_much_to_tell() => Vec::new(),
            // Where there are many results, another call reports them while this one claims.
            len if asks && len > batch => Vec::new(),
            // As many are to come.
            len if len <= batch => std::mem::replace(&mut state.done, Vec::with_capacity(len)),
            _ => {
                let rest = state.done.split_off(batch);
                std::mem::replace(&mut state.done, rest)
            }
        };
        if done.is_empty() && !asks {
            return None;
        }
        let call = Call::begin(&self.state, &mut state, done, want.due, want.soon);
        Some((call.asking(&mut state), want))
    }

    /// Runs that have waited here for a while, with every slot of their kind taken, are released
    /// with the next exchange: another node may have free slots.
    pub fn release_slot_waiters(&self) {
        let longest = self.now().saturating_sub(IN_LINE_MAX).unwrap_or(Timestamp::MIN);
        let mut state = self.state();
        for slot in SlotKind::ALL {
            if state.free[slot] == 0 {
                state.release_late(slot, longest);
            }
        }
    }

    /// Releases prepared runs that have not started, with the next exchange.
    pub fn release_prepared(&self) {
        let mut state = self.state();
        state.prepared.clear();
        SlotKind::ALL.iter().for_each(|slot| state.slot_waiters[*slot].clear());
        state.lines.clear();
        let unstarted = state.held.values().filter(|held| held.running.is_none());
        let mut grants: Vec<Grant> = unstarted.map(|held| held.run.grant).collect();
        grants.sort_unstable_by_key(|grant| grant.fence);
        for grant in grants {
            state.held.remove(&grant.run);
            state.done.push(Finish::untried(grant, Verdict::Release));
        }
    }
}

impl State {
    /// Releases runs that wait for a slot of a kind, were due before a time and have been here
    /// since before then.
    fn release_late(&mut self, slot: SlotKind, longest: Timestamp) {
        for run in self.slot_waiters[slot].take_before(longest) {
            let Some(held) = self.held.get(&run).filter(|held| held.running.is_none()) else {
                continue;
            };
            let (tenant, due_at, grant) =
                (held.run.run.tenant, held.run.run.due_at, held.run.grant);
            if held.claimed_at > longest {
                // Late as it is, it has come only now.
                self.slot_waiters[slot].insert(tenant, (due_at, run));
                continue;
            }
            self.held.remove(&run);
            self.pressure[slot].was_rejected = true;
            self.done.push(Finish::untried(grant, Verdict::Release));
        }
    }
}
