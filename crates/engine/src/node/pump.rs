//! The pump: tells the store what ended and asks it for more, in one call.

use domain::run::{Grant, NewRun};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, ClaimFor, Finish, Store, Submitted, Verdict, Want};

use super::call::Call;
use super::{Held, Node};

/// How long after its time a run that was prepared is in line here while every slot is taken.
const IN_LINE_MAX: SignedDuration = SignedDuration::from_secs(1);

impl<S: Store> Node<S> {
    /// One call to the store. Answers whether another one would have something to say.
    pub async fn pump(&self) -> store::Result<bool> {
        if !self.recollect().await? {
            return Ok(false);
        }
        let Some((call, want)) = self.take_news() else { return Ok(false) };
        let asked = self.ask();
        let pumped = self.store.pump(call.node, &call.done, want).await?;
        self.heard(asked, pumped.now);
        for (finish, applied) in call.done.iter().zip(&pumped.applied) {
            self.ends.applied(finish, *applied);
            self.note_parts(finish, *applied);
            self.traces.settled(finish, *applied, pumped.now);
            if *applied == Applied::Stale {
                let attempt = finish.attempt.as_ref().map(|attempt| attempt.number);
                tracing::warn!(
                    run = %finish.grant.run,
                    attempt,
                    "the store refused the result of a run that is no longer this node's"
                );
            }
        }
        let now = self.now();
        let soon = pumped.claimed.iter().filter(|run| run.run.due_at > now).count() as u32;
        let full = pumped.claimed.len() as u32 - soon >= want.due && want.due > 0
            || soon >= want.soon && soon > 0;
        {
            let mut state = self.state();
            if state.id != call.node {
                // The lease was lost meanwhile, and with it what was claimed.
                return Ok(false);
            }
            state.hungry |= full;
        }
        let ahead: Vec<_> = pumped.claimed.iter().filter(|run| run.run.due_at > now).collect();
        let ahead: Vec<_> = ahead.iter().map(|run| (run.run.job, run.run.job_version)).collect();
        self.take_in(pumped.claimed);
        call.answered();
        if !ahead.is_empty() {
            // Read before their time comes. If that fails now, the start will say so.
            let jobs = self.definitions.read(self.store.as_ref(), &ahead, now).await;
            self.pass_on_ahead(&jobs.unwrap_or_default()).await?;
        }
        Ok(full || !self.state().done.is_empty())
    }

    /// Records runs that somebody asked for; those that are due start here if there is room.
    pub async fn submit(&self, runs: &[NewRun]) -> store::Result<Submitted> {
        let call = {
            let mut state = self.state();
            let room = state.free.saturating_sub(state.crowded.len()).min(runs.len() as u32);
            let open = self.takes(&state) && !state.unsure;
            let room = if open { room } else { 0 };
            Call::begin(&self.state, &mut state, Vec::new(), room, 0)
        };
        let began_at = self.traces.is_on().then(|| self.now());
        let claim = Some(ClaimFor { node: call.node, max: call.due });
        let mut submitted = self.store.submit(runs, claim.filter(|claim| claim.max > 0)).await?;
        let now = self.now();
        let near = now.saturating_add(self.settings.prepare_ahead).unwrap_or(Timestamp::MAX);
        let near = runs.iter().filter(|run| run.due_at <= near).count();
        {
            let mut state = self.state();
            if state.id != call.node {
                return Ok(submitted);
            }
            // What this node holds already, or what is far away, is nothing to ask for.
            state.hungry |= submitted.claimed.len() < near;
            state.seeks_place |= runs.iter().any(|run| !run.place.is_anywhere());
        }
        self.take_in(std::mem::take(&mut submitted.claimed));
        let node = call.node;
        call.answered();
        if let Some(began_at) = began_at {
            let new = runs.iter().zip(&submitted.accepted).filter(|(_, new)| **new);
            let new: Vec<&NewRun> = new.map(|(run, _)| run).collect();
            let wanted: Vec<_> = new.iter().map(|run| (run.job, run.job_version)).collect();
            // A name is good to have, and nothing to fail for.
            let jobs = self.definitions.read(self.store.as_ref(), &wanted, now).await;
            let jobs = jobs.unwrap_or_default();
            let names = jobs.values().map(|job| (job.id, job.name.as_str())).collect();
            self.traces.planned(new.into_iter(), &names, node, began_at, now);
        }
        Ok(submitted)
    }

    /// What to tell and what to ask; none when there is neither.
    fn take_news(&self) -> Option<(Call<'_>, Want)> {
        let mut state = self.state();
        let batch = self.settings.batch_max as usize;
        let done = if state.done.len() <= batch {
            std::mem::take(&mut state.done)
        } else {
            let rest = state.done.split_off(batch);
            std::mem::replace(&mut state.done, rest)
        };
        let mut want = Want { tenant_max: self.settings.tenant_max_concurrent, ..Want::default() };
        if self.seeks(&state) {
            let held = state.prepared.len() as u32 + state.crowded.len() + state.asked_soon;
            // A slot is worth a look at the store even if those in line here could fill it: a
            // tenant who is not among them may have waited longer for a turn.
            let spare = state.free.saturating_sub(state.crowded.len());
            want.due = spare.max(state.free.min(1)).min(self.settings.batch_max);
            want.soon = self.settings.prepare_max.saturating_sub(held).min(self.settings.batch_max);
            want.ahead = self.settings.prepare_ahead;
            // With no slot to fill, the hunger stays for when one is free.
            state.hungry = want.due == 0;
        }
        if done.is_empty() && want.due == 0 && want.soon == 0 {
            return None;
        }
        Some((Call::begin(&self.state, &mut state, done, want.due, want.soon), want))
    }

    /// What has been in line here for a while, with every slot taken, goes back to the store with
    /// the next pump: another node may have room.
    pub fn hand_back_crowd(&self) {
        let longest = self.now().saturating_sub(IN_LINE_MAX).unwrap_or(Timestamp::MIN);
        let mut state = self.state();
        if state.free > 0 {
            return;
        }
        for run in state.crowded.take_before(longest) {
            let waits = |held: &Held| held.running.is_none();
            if state.held.get(&run).is_some_and(waits)
                && let Some(held) = state.held.remove(&run)
            {
                let (grant, verdict) = (held.run.grant, Verdict::Release);
                state.done.push(Finish { grant, verdict, attempt: None, job_state: None });
            }
        }
    }

    /// What this node holds and has not started goes back to the store with the next pump.
    pub fn hand_back(&self) {
        let mut state = self.state();
        state.prepared.clear();
        state.crowded.clear();
        let unstarted = state.held.values().filter(|held| held.running.is_none());
        let mut grants: Vec<Grant> = unstarted.map(|held| held.run.grant).collect();
        grants.sort_unstable_by_key(|grant| grant.fence);
        for grant in grants {
            state.held.remove(&grant.run);
            let verdict = Verdict::Release;
            state.done.push(Finish { grant, verdict, attempt: None, job_state: None });
        }
    }
}
