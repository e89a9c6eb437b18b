//! A store behind a faulty network, with calls that interleave.
//!
//! Each call can be parked before it reaches the store and after it was committed, can fail on its
//! way there, and can lose its reply on the way back. Whatever the caller gets, the true result is
//! recorded as [`SimEvent`]s.

use std::sync::{Arc, Mutex, PoisonError};

use domain::bucket::Buckets;
use domain::cluster::{Leadership, Quorum};
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Job, LostAnswer, Retention};
use domain::run::{self, ClaimedRun, Grant, NewRun, Outcome, Reason, RunState};
use jiff::{SignedDuration, Timestamp};
use store::{
    Acknowledgement, Applied, AttemptView, Cancelled, Change, Changed, ClaimFor, ClaimRequest,
    Cluster, Counts, Decided, DueJobs, Exchanged, FactsFor, Finish, JobFilter, Joined, NodeControl,
    NodeControlOutcome, NodeInfo, NodeView, Page, Reaped, RecordPlan, Renewed, Replaces, Result,
    RetentionCutoff, RunFilter, RunView, Store, Submitted, Verdict,
};

use crate::event::SimEvent;
use crate::link::StoreLink;
use crate::sabotage::Sabotage;

/// Operations that no invariant depends on.
macro_rules! through {
    ($($operation:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(
            async fn $operation(&self, $($arg: $kind),*) -> Result<$answer> {
                self.link.there().await?;
                let answer = self.inner.$operation($($arg),*).await;
                self.link.back(answer).await
            }
        )*
    };
}

mod records;
mod shards;

/// The store as one machine sees it.
pub struct FaultyStore<S> {
    inner: Arc<S>,
    link: Arc<StoreLink>,
    machine: usize,
    /// The last time that this machine led.
    led: Mutex<Option<Leadership>>,
}

impl<S: Store> FaultyStore<S> {
    /// The store, seen from a machine.
    pub fn new(inner: Arc<S>, link: Arc<StoreLink>, machine: usize) -> Self {
        FaultyStore { inner, link, machine, led: Mutex::new(None) }
    }

    fn led(&self) -> Option<Leadership> {
        *self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saw_defined<'a>(&self, at: Timestamp, changes: impl Iterator<Item = &'a Change>) {
        for change in changes {
            self.link.saw(SimEvent::Defined { at, job: Box::new(change.job.clone()) });
            if let Some(fire) = &change.plan {
                let looks = vec![change.job.updated_at];
                self.link.saw(SimEvent::Fired { looks, fire: fire.clone() });
            }
        }
    }

    fn saw_finishes<'a>(
        &self,
        finishes: impl Iterator<Item = (NodeId, &'a Finish)>,
        applied: &[Applied],
    ) {
        for ((node, finish), applied) in finishes.zip(applied) {
            self.link.saw(SimEvent::Finished { node, finish: finish.clone(), applied: *applied });
        }
    }

    pub(super) async fn saw_claims(
        &self,
        at: Timestamp,
        node: NodeId,
        claimed: &[ClaimedRun],
    ) -> Result<()> {
        for run in claimed {
            self.link.saw(SimEvent::Claimed { at, node, run: run.clone() });
            let from = unclaimed(run, at);
            self.moved(run.run.id, from, run::Event::Claim, None).await?;
        }
        Ok(())
    }

    /// The states of runs, as the store shows them now.
    async fn states(&self, runs: impl Iterator<Item = RunId>) -> Result<Vec<Option<RunState>>> {
        let mut states = Vec::new();
        for run in runs {
            states.push(self.inner.run(run).await?.map(|run| run.state));
        }
        Ok(states)
    }

    /// Records a transition; its end is read from the store, unless it is known.
    async fn moved(
        &self,
        run: RunId,
        from: RunState,
        event: run::Event,
        to: Option<RunState>,
    ) -> Result<()> {
        let to = match to {
            Some(to) => Some(to),
            None => self.inner.run(run).await?.map(|run| run.state),
        };
        if let Some(to) = to {
            self.link.saw(SimEvent::Moved { run, from, event, to });
        }
        Ok(())
    }

    /// Records the transitions that ends of claims made. A run that was claimed in the same call
    /// has left its state behind.
    async fn moved_by(
        &self,
        finishes: impl Iterator<Item = &Finish>,
        before: &[Option<RunState>],
        applied: &[Applied],
        claimed: &[ClaimedRun],
        at: Timestamp,
    ) -> Result<()> {
        for ((finish, before), applied) in finishes.zip(before).zip(applied) {
            let (Some(from), Some(event)) = (*before, event_of(finish, *applied)) else { continue };
            // An answer that is given again moves nothing.
            if matches!(from, RunState::Ended(_)) {
                continue;
            }
            // A node whose clock is ahead, or a store whose clock was set back, has judged a run
            // before it is due by the store's clock: the node began a part, skipped a run, or let
            // it wait.
            let is_judged = matches!(event, run::Event::Wait | run::Event::End(Outcome::Skipped));
            let has_begun = (finish.attempt.is_some() || is_judged) && from == RunState::Pending;
            let from = if has_begun { RunState::Running } else { from };
            let claim = claimed.iter().find(|run| run.run.id == finish.grant.run);
            let to = claim.map(|run| unclaimed(run, at));
            self.moved(finish.grant.run, from, event, to).await?;
        }
        Ok(())
    }
}

/// The state of a run just before it was claimed.
fn unclaimed(run: &ClaimedRun, at: Timestamp) -> RunState {
    RunState::of_live(run.run.due_at <= at, false, None)
}

/// The state-machine event of the end of a claim; none when nothing was written.
fn event_of(finish: &Finish, applied: Applied) -> Option<run::Event> {
    Some(match (applied, &finish.verdict) {
        (Applied::Stale, _) => return None,
        (Applied::Ended(outcome), _) => run::Event::End(outcome),
        (Applied::Again, Verdict::Retry { .. }) => run::Event::Retry,
        (Applied::Again, Verdict::Hold { .. }) => run::Event::Hold,
        (Applied::Again, Verdict::Wait(..) | Verdict::Line { .. }) => run::Event::Wait,
        (Applied::Again, Verdict::Release | Verdict::End { .. }) => run::Event::Release,
    })
}

impl<S: Store> Store for FaultyStore<S> {
    async fn now(&self) -> Result<Timestamp> {
        self.link.there().await?;
        let now = self.inner.now().await;
        if let Ok(now) = &now {
            self.link.looked(self.machine, *now);
        }
        self.link.back(now).await
    }

    async fn define(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let changed = self.inner.define(changes, by).await;
        if let Ok(changed) = &changed {
            let done = changes.iter().zip(changed).filter(|(_, it)| **it == Changed::Done);
            self.saw_defined(at, done.map(|(change, _)| change));
        }
        self.link.back(changed).await
    }

    async fn define_together(&self, changes: &[Change], by: &str) -> Result<Vec<Changed>> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let changed = self.inner.define_together(changes, by).await;
        if changed.as_ref().is_ok_and(|changed| changed.iter().all(|it| *it == Changed::Done)) {
            self.saw_defined(at, changes.iter());
        }
        self.link.back(changed).await
    }

    async fn due_jobs(&self, ahead: SignedDuration, limit: u32, of: &Buckets) -> Result<DueJobs> {
        self.link.there().await?;
        let mut due = self.inner.due_jobs(ahead, limit, of).await;
        if let Ok(due) = &mut due {
            if let Some(sabotage) = self.link.sabotage {
                due.jobs.retain(|job| !sabotage.forgets(job.id));
            }
            self.link.looked(self.machine, due.now);
        }
        self.link.back(due).await
    }

    async fn fire(&self, batch: &[RecordPlan]) -> Result<Vec<bool>> {
        self.link.there().await?;
        let fired = self.inner.fire(batch).await;
        if let Ok(fired) = &fired {
            let looks = self.link.looks(self.machine);
            for (fire, _) in batch.iter().zip(fired).filter(|(_, won)| **won) {
                self.link.saw(SimEvent::Fired { looks: looks.clone(), fire: fire.clone() });
            }
        }
        self.link.back(fired).await
    }

    async fn submit(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let submitted = self.inner.submit(runs, claim).await;
        if let Ok(submitted) = &submitted {
            for (run, _) in runs.iter().zip(&submitted.accepted).filter(|(_, new)| **new) {
                self.link.saw(SimEvent::Submitted { at, run: run.clone() });
            }
            if let Some(claim) = claim {
                self.saw_claims(at, claim.node, &submitted.claimed).await?;
            }
        }
        self.link.back(submitted).await
    }

    async fn complete_and_claim(
        &self,
        node: NodeId,
        done: &[Finish],
        want: ClaimRequest,
    ) -> Result<Exchanged> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let before = self.states(done.iter().map(|finish| finish.grant.run)).await?;
        let exchanged = self.inner.complete_and_claim(node, done, want).await;
        if let Ok(exchanged) = &exchanged {
            let Exchanged { applied, claimed, .. } = exchanged;
            self.saw_finishes(done.iter().map(|finish| (node, finish)), applied);
            self.moved_by(done.iter(), &before, applied, claimed, at).await?;
            self.saw_claims(at, node, claimed).await?;
        }
        self.link.back(exchanged).await
    }

    async fn held(&self, node: NodeId) -> Result<Vec<ClaimedRun>> {
        self.link.there().await?;
        let held = self.inner.held(node).await;
        self.link.back(held).await
    }

    async fn facts(&self, node: NodeId, questions: &[FactsFor]) -> Result<Vec<StartFacts>> {
        self.link.there().await?;
        let mut facts = self.inner.facts(node, questions).await;
        if let (Some(sabotage @ Sabotage::VanishedStarts), Ok(facts)) =
            (self.link.sabotage, &mut facts)
        {
            for (question, facts) in questions.iter().zip(facts) {
                let jobs = self.inner.jobs_by_id(&[question.job]).await?;
                let is_gone = self.inner.run(question.grant.run).await?.is_none();
                if let (false, true, [job]) = (facts.held, is_gone, &jobs[..]) {
                    sabotage.let_start(facts, job, self.inner.start_tokens(1).await?[0]);
                }
            }
        }
        if let (Some(sabotage), Ok(facts)) = (self.link.sabotage, &mut facts) {
            facts.iter_mut().for_each(|facts| sabotage.change_facts(facts));
        }
        self.link.back(facts).await
    }

    async fn start_tokens(&self, count: usize) -> Result<Vec<i64>> {
        self.link.there().await?;
        let mut tokens = self.inner.start_tokens(count).await;
        if let (Some(sabotage), Ok(tokens)) = (self.link.sabotage, &mut tokens) {
            tokens.iter_mut().for_each(|token| sabotage.change_token(token));
        }
        self.link.back(tokens).await
    }

    async fn cancel(&self, run: RunId, reason: &Reason, by: &str) -> Result<Cancelled> {
        self.link.there().await?;
        let before = self.states(std::iter::once(run)).await?;
        let answer = self.inner.cancel(run, reason, by).await;
        if let Ok(answer) = &answer {
            self.link.saw(SimEvent::Cancelled { run, answer: *answer });
            if let (Cancelled::Ended, [Some(from)]) = (answer, &before[..]) {
                self.moved(run, *from, run::Event::End(Outcome::Cancelled), None).await?;
            }
        }
        self.link.back(answer).await
    }

    async fn decide(
        &self,
        run: RunId,
        answer: LostAnswer,
        reason: &Reason,
        by: &str,
    ) -> Result<Decided> {
        self.link.there().await?;
        let answer = self.inner.decide(run, answer, reason, by).await;
        self.link.back(answer).await
    }

    async fn begin(&self, node: NodeId, grants: &[Grant]) -> Result<Vec<bool>> {
        self.link.there().await?;
        let begun = match self.link.sabotage {
            Some(Sabotage::UnwrittenStarts) => Ok(vec![true; grants.len()]),
            _ => self.inner.begin(node, grants).await,
        };
        self.link.back(begun).await
    }

    async fn join(&self, node: NodeId, info: &NodeInfo, lease: SignedDuration) -> Result<Joined> {
        self.link.there().await?;
        let until = self.link.clock.stamp() + lease;
        let joined = self.inner.join(node, info, lease).await;
        if let Ok(joined) = &joined {
            if let Replaces::Node { node, .. } = &info.replaces {
                self.link.saw(SimEvent::Unleased { node: *node });
            }
            self.link.saw(SimEvent::Leased { node, until });
            self.link.saw(SimEvent::Down { outages: joined.outages.clone() });
        }
        self.link.back(joined).await
    }

    async fn renew(&self, node: NodeId, lease: SignedDuration) -> Result<Option<Renewed>> {
        self.link.there().await?;
        let until = self.link.clock.stamp() + lease;
        let renewed = self.inner.renew(node, lease).await;
        if let Ok(Some(_)) = &renewed {
            self.link.saw(SimEvent::Leased { node, until });
        }
        self.link.back(renewed).await
    }

    async fn record_starts(&self, node: NodeId, starts: &[(Grant, Timestamp)]) -> Result<()> {
        self.link.there().await?;
        let recorded = self.inner.record_starts(node, starts).await;
        self.link.back(recorded).await
    }

    async fn record_clock_offset(&self, node: NodeId, offset: SignedDuration) -> Result<()> {
        self.link.there().await?;
        let recorded = self.inner.record_clock_offset(node, offset).await;
        self.link.back(recorded).await
    }

    async fn retire(&self, node: NodeId) -> Result<()> {
        self.link.there().await?;
        let retired = self.inner.retire(node).await;
        self.link.back(retired).await
    }

    async fn leave(&self, node: NodeId, begun: &[Grant]) -> Result<()> {
        self.link.there().await?;
        let left = self.inner.leave(node, begun).await;
        if left.is_ok() {
            self.link.saw(SimEvent::Unleased { node });
        }
        self.link.back(left).await
    }

    async fn reap(&self, limit: u32) -> Result<Reaped> {
        self.link.there().await?;
        let reaped = self.inner.reap(limit).await;
        if let Ok(reaped) = &reaped {
            for node in &reaped.dead {
                self.link.saw(SimEvent::Unleased { node: *node });
            }
        }
        self.link.back(reaped).await
    }

    async fn settle_lost(&self, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let before = self.states(lost.iter().map(|(_, finish)| finish.grant.run)).await?;
        let applied = self.inner.settle_lost(lost).await;
        if let Ok(applied) = &applied {
            self.saw_finishes(lost.iter().map(|(node, finish)| (*node, finish)), applied);
            let finishes = lost.iter().map(|(_, finish)| finish);
            self.moved_by(finishes, &before, applied, &[], at).await?;
        }
        self.link.back(applied).await
    }

    async fn prune(&self, cut: &RetentionCutoff, limit: u32) -> Result<u64> {
        self.link.there().await?;
        let gone = self.inner.prune(cut, limit).await;
        self.link.back(gone).await
    }

    async fn retention_rules(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<(JobId, Retention)>> {
        self.link.there().await?;
        let rules = self.inner.retention_rules(after, limit).await;
        self.link.back(rules).await
    }

    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        self.link.there().await?;
        let jobs = self.inner.jobs_by_id(ids).await;
        self.link.back(jobs).await
    }

    async fn jobs_by_name(&self, tenant: TenantId, names: &[&str]) -> Result<Vec<Job>> {
        self.link.there().await?;
        let jobs = self.inner.jobs_by_name(tenant, names).await;
        self.link.back(jobs).await
    }

    async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        self.link.there().await?;
        let jobs = self.inner.list_jobs(filter, after, limit).await;
        self.link.back(jobs).await
    }

    async fn dependencies(&self, tenant: TenantId) -> Result<Vec<(JobId, JobId)>> {
        self.link.there().await?;
        let edges = self.inner.dependencies(tenant).await;
        self.link.back(edges).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        self.link.there().await?;
        let run = self.inner.run(id).await;
        self.link.back(run).await
    }

    async fn runs(&self, ids: &[RunId]) -> Result<Vec<RunView>> {
        self.link.there().await?;
        let runs = self.inner.runs(ids).await;
        self.link.back(runs).await
    }

    async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        self.link.there().await?;
        let runs = self.inner.list_runs(filter, before, limit).await;
        self.link.back(runs).await
    }

    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        self.link.there().await?;
        let attempts = self.inner.attempts(run).await;
        self.link.back(attempts).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.link.there().await?;
        let counts = self.inner.counts().await;
        self.link.back(counts).await
    }

    async fn placed(&self) {
        std::future::pending::<()>().await;
    }

    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    fn hint(&self) {}
}

impl<S: Cluster> Cluster for FaultyStore<S> {
    through! {
        nodes() -> Vec<NodeView>;
    }

    async fn take_leadership(&self, node: NodeId) -> Result<Leadership> {
        self.link.there().await?;
        let before = self.inner.leadership().await?;
        let mut leadership = self.inner.take_leadership(node).await;
        if let Ok(leadership) = &mut leadership {
            let begun = leadership.epoch != before.epoch;
            if let Some(sabotage) = self.link.sabotage {
                *leadership = sabotage.leadership(node, *leadership, self.led());
            }
            if leadership.node == Some(node) {
                *self.led.lock().unwrap_or_else(PoisonError::into_inner) = Some(*leadership);
            }
            self.link.saw(SimEvent::Led { leadership: *leadership, begun });
        }
        self.link.back(leadership).await
    }

    async fn leadership(&self) -> Result<Leadership> {
        self.link.there().await?;
        let leadership = self.inner.leadership().await;
        if let Ok(leadership) = &leadership {
            self.link.saw(SimEvent::Led { leadership: *leadership, begun: false });
        }
        self.link.back(leadership).await
    }

    async fn resign(&self, node: NodeId, epoch: i64) -> Result<bool> {
        self.link.there().await?;
        let resigned = self.inner.resign(node, epoch).await;
        if let Ok(true) = &resigned {
            self.link.saw(SimEvent::Resigned { node });
        }
        self.link.back(resigned).await
    }

    async fn claim_placed(
        &self,
        node: NodeId,
        epoch: Option<i64>,
        want: ClaimRequest,
    ) -> Result<Vec<ClaimedRun>> {
        self.link.there().await?;
        let at = self.link.clock.stamp();
        let mut under = (node, epoch);
        if self.link.sabotage == Some(Sabotage::UncheckedClaim) {
            let leadership = self.inner.leadership().await?;
            under = (leadership.node.unwrap_or(node), leadership.node.map(|_| leadership.epoch));
        }
        let claimed = self.inner.claim_placed(under.0, under.1, want).await;
        if let Ok(claimed) = &claimed {
            self.saw_claims(at, node, claimed).await?;
        }
        self.link.back(claimed).await
    }

    through! {
        acknowledge_runs(node: NodeId) -> u64;
        allow_effects(attempts: &[(Grant, String)]) -> Vec<bool>;
        has_effects() -> bool;
        wake_pools() -> u64;
        quorum(run: RunId) -> Quorum;
        acknowledgements(run: RunId) -> Vec<Acknowledgement>;
        publish_policy(node: NodeId, epoch: i64, policy: &str) -> Option<u32>;
        has_more_jobs_than(count: u32) -> bool;
        steer(node: NodeId, steer: NodeControl, by: &str) -> NodeControlOutcome;
    }

    async fn schedulers(&self) -> Result<Vec<NodeId>> {
        self.link.there().await?;
        let mut schedulers = self.inner.schedulers().await;
        if let Some(sabotage) = self.link.sabotage {
            schedulers = schedulers.map(|schedulers| sabotage.schedulers(schedulers));
        }
        self.link.back(schedulers).await
    }
}
