//! A node whose executor is a remote agent: its runs can be picked up by another process, and their
//! results may arrive at any server.
//!
//! The node represents the agent beside the store. It can be lost with its process while the agent
//! goes on, so its memory holds nothing that matters: claims are in the store, and the agent keeps
//! which runs have begun.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use domain::id::{JobId, NodeId};
use domain::job::Job;
use domain::run::{AttemptResult, ClaimedRun, EndedAttempt, Grant};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, ClaimRequest, Finish, Verdict};

use super::split::is_split;
use super::{Ended, Held, Node, Running, Skill, Started, State, settle, start};

/// How many ended claims are remembered: more than end while the store replies to a read.
const RECENTLY_RELEASED_MAX: usize = 16_384;

/// An attempt that ended elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteAttempt {
    /// The right under which it was made.
    pub grant: Grant,
    /// The fencing token that it was given.
    pub token: Option<i64>,
    /// When it began, by the clock of the server that gave it out.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: SignedDuration,
    /// How it ended.
    pub result: AttemptResult,
}

/// A run that an agent has begun, as it reports when it reconnects.
#[derive(Clone, Copy, Debug)]
pub struct CarriedRun {
    /// When it began.
    pub started_at: Timestamp,
    /// Its fencing token.
    pub token: i64,
    /// The kind of slot that it occupies.
    pub slot: SlotKind,
}

/// How long a node that claimed a run which it cannot execute lets other nodes claim first.
const CLAIM_BACKOFF: SignedDuration = SignedDuration::from_secs(1);

/// How long it is believed that no server executes.
const ALONE: SignedDuration = SignedDuration::from_secs(5);

impl State {
    /// A claim is over. A reply of the store that is under way may still list it.
    fn remember_released(&mut self, grant: Grant) {
        self.recently_released.push_back(grant.fence);
        if self.recently_released.len() > RECENTLY_RELEASED_MAX {
            self.recently_released.pop_front();
        }
    }
}

impl Node {
    /// The same node with the job cache of another one of this process: a change that the process
    /// made is visible to both.
    pub(crate) fn sharing_definitions(mut self, with: &Node) -> Self {
        self.definitions = Arc::clone(&with.definitions);
        self.blackouts = Arc::clone(&with.blackouts);
        self
    }

    /// The same node with an executor that cannot do everything.
    pub(crate) fn with_skill(mut self, skill: Skill) -> Self {
        self.skill = Some(skill);
        self
    }

    /// The executor does not poll for work now.
    pub(crate) fn detach_executor(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.executor_detached = true;
    }
}

impl Node {
    /// Goes on as a node that has joined before, if its lease is valid: its claims and its begun
    /// runs, with their start times, are taken over; the rest is as due as before. Returns the
    /// begun runs; none when the lease is lost.
    pub async fn resume(
        &self,
        id: NodeId,
        begun: &HashMap<Grant, CarriedRun>,
    ) -> store::Result<Option<Vec<Started>>> {
        {
            let mut state = self.state();
            state.id = id;
            state.has_joined = true;
        }
        if self.renew().await?.is_none() {
            return Ok(None);
        }
        let held = self.store.held(id).await?;
        let (running, waiting): (Vec<ClaimedRun>, Vec<ClaimedRun>) =
            held.into_iter().partition(|run| begun.contains_key(&run.grant));
        let running: Vec<Arc<ClaimedRun>> = running.into_iter().map(Arc::new).collect();
        let jobs = self.jobs_of(&running).await?;
        let shards = self.shards_of(&running).await?;
        let claimed_at = self.now();
        let mut started = Vec::new();
        {
            let mut state = self.state();
            for (run, job) in running.into_iter().zip(jobs) {
                let carried = begun.get(&run.grant);
                let (started_at, token) = carried
                    .map_or((claimed_at, run.token), |carried| (carried.started_at, carried.token));
                let _counted = state.begun.count(&run.run);
                let (waited, of_job) = (None, Arc::clone(&job));
                let running = Running { job: of_job, started_at, token, waited, _counted };
                let running = Some(running);
                let run_held = Arc::clone(&run);
                let held = Held { run: run_held, claimed_at, running, late_starts: 0 };
                state.held.insert(run.grant.run, held);
                let free = &mut state.free[run.run.slot];
                *free = free.saturating_sub(1);
                let shard = shards.get(&run.run.shard).cloned();
                let asks_rows = is_split(&run, &job);
                let job = start::carried_out(&job, shard.as_deref(), asks_rows);
                let effect = None;
                started.push(Started { run, job, started_at, token, shard, asks_rows, effect });
            }
        }
        self.accept_claims(waiting, claimed_at);
        Ok(Some(started))
    }
}

impl Node {
    /// Whether the executor polls for work.
    pub fn set_away(&self, away: bool) {
        let mut state = self.state();
        state.executor_detached = away;
        if !away {
            state.want_claim();
        }
    }

    /// Whether the executor can execute a run. A run with a placement request for its labels or its
    /// shard is always its own.
    pub(crate) fn can(&self, run: &ClaimedRun, job: &Job) -> bool {
        let may_go_anywhere = job.definition.place().is_anywhere() && run.run.shard.is_empty();
        let Some(skill) = self.skill.as_ref().filter(|_| may_go_anywhere) else { return true };
        skill(job) || self.now() < self.state().alone_until
    }

    /// There is no server that could execute what the executor cannot.
    pub(crate) fn note_alone(&self) {
        let until = self.now().saturating_add(ALONE).unwrap_or(Timestamp::MAX);
        self.state().alone_until = until;
    }

    /// Occupies slots for runs that are not this node's any more.
    pub(crate) fn take_slots(&self, counts: PerSlot<u32>) {
        let mut state = self.state();
        for slot in SlotKind::ALL {
            state.free[slot] = state.free[slot].saturating_sub(counts[slot]);
        }
    }

    /// Frees slots of runs that were not this node's any more.
    pub(crate) fn free_slots(&self, counts: PerSlot<u32>) {
        let most = self.settings.slots();
        let mut state = self.state();
        for slot in SlotKind::ALL {
            state.free[slot] = (state.free[slot] + counts[slot]).min(most[slot]);
        }
        if counts.total() > 0 {
            state.want_claim();
        }
    }

    /// Releases runs that have not begun at once, and lets other nodes claim them first. If the
    /// store does not reply, the next exchange releases them.
    pub(crate) async fn pass_on(&self, grants: &[Grant]) -> store::Result<()> {
        let (node, released) = {
            let mut state = self.state();
            state.claim_backoff_until =
                self.now().saturating_add(CLAIM_BACKOFF).unwrap_or(Timestamp::MAX);
            state.want_claim();
            let mut released = Vec::new();
            for grant in grants {
                let Some(held) = state.held(*grant) else { continue };
                let (is_let_in, place) = (held.running.is_some(), (held.run.run.due_at, grant.run));
                let slot = held.run.run.slot;
                state.held.remove(&grant.run);
                state.remember_released(*grant);
                state.prepared.remove(&place);
                state.free[slot] += u32::from(is_let_in);
                released.push(Finish::untried(*grant, Verdict::Release));
            }
            (state.id, released)
        };
        if released.is_empty() {
            return Ok(());
        }
        let told = self.store.complete_and_claim(node, &released, ClaimRequest::default()).await;
        let mut state = self.state();
        if told.is_err() && state.id == node {
            state.done.extend(released);
        }
        told.map(|_| ())
    }

    /// Releases runs of these jobs that were claimed before their time and that this node cannot
    /// execute, early enough for another node.
    pub(super) async fn pass_on_ahead(&self, jobs: &HashMap<JobId, Arc<Job>>) -> store::Result<()> {
        if self.skill.is_none() {
            return Ok(());
        }
        let waiting: Vec<Arc<ClaimedRun>> = {
            let state = self.state();
            let waiting = state.held.values().filter(|held| held.running.is_none());
            let waiting = waiting.filter(|held| jobs.contains_key(&held.run.run.job));
            waiting.map(|held| Arc::clone(&held.run)).collect()
        };
        let cannot =
            |run: &&Arc<ClaimedRun>| jobs.get(&run.run.job).is_some_and(|job| !self.can(run, job));
        let grants: Vec<Grant> = waiting.iter().filter(cannot).map(|run| run.grant).collect();
        if grants.is_empty() { Ok(()) } else { self.pass_on(&grants).await }
    }

    /// Another process may have claimed for this node, too: the next exchange asks the store.
    pub fn doubt(&self) {
        self.state().claim_reply_lost = true;
    }

    /// A run begun here under this claim has ended elsewhere, and the store has recorded its end.
    pub fn note_released(&self, grant: Grant) {
        let mut state = self.state();
        state.remember_released(grant);
        let begun = state.held(grant).filter(|held| held.running.is_some());
        if let Some(slot) = begun.map(|held| held.run.run.slot) {
            state.held.remove(&grant.run);
            state.free[slot] += 1;
            state.want_claim();
        }
    }

    /// Admitted runs that have not begun go back to the store with the next exchange.
    pub fn return_unbegun(&self, grant: Grant) {
        let mut state = self.state();
        if let Some(slot) = state.held(grant).map(|held| held.run.run.slot) {
            state.held.remove(&grant.run);
            state.free[slot] += 1;
            state.done.push(Finish::untried(grant, Verdict::Release));
        }
    }

    /// Settles attempts that were made for a remote node. It needs nothing but the store, so any
    /// server that gets a result can settle it. Durable when it returns; a result without a valid
    /// claim is stale.
    pub async fn settle_for(
        &self,
        node: NodeId,
        ended: &[RemoteAttempt],
    ) -> store::Result<Vec<Applied>> {
        let held = self.store.held(node).await?;
        let held: HashMap<Grant, ClaimedRun> =
            held.into_iter().map(|run| (run.grant, run)).collect();
        let known: Vec<(&RemoteAttempt, &ClaimedRun)> =
            ended.iter().filter_map(|ended| Some((ended, held.get(&ended.grant)?))).collect();
        let jobs = self.jobs_of(&known.iter().map(|(_, run)| *run).collect::<Vec<_>>()).await?;
        let finishes: Vec<Finish> = known
            .iter()
            .zip(&jobs)
            .map(|((ended, run), job)| self.ended_elsewhere(node, ended, run, job))
            .collect();
        let mut applied = HashMap::new();
        if !finishes.is_empty() {
            let exchanged =
                self.store.complete_and_claim(node, &finishes, ClaimRequest::default()).await?;
            for (finish, became) in finishes.iter().zip(&exchanged.applied) {
                self.ends.applied(finish, *became);
                self.traces.settled(finish, *became, exchanged.now);
                self.note_parts(finish, *became);
                applied.insert(finish.grant, *became);
            }
        }
        let became =
            |ended: &RemoteAttempt| applied.get(&ended.grant).copied().unwrap_or(Applied::Stale);
        Ok(ended.iter().map(became).collect())
    }

    fn ended_elsewhere(
        &self,
        node: NodeId,
        ended: &RemoteAttempt,
        run: &ClaimedRun,
        job: &Arc<Job>,
    ) -> Finish {
        let now = self.now();
        // Neither can be later than now, whatever a remote clock shows.
        let started_at = ended.started_at.min(now);
        let took = ended.took.max(SignedDuration::ZERO);
        let finished_at = started_at.saturating_add(took).map_or(now, |at| at.min(now));
        self.traces.ended(|| Ended {
            run: Arc::new(run.clone()),
            job: Arc::clone(job),
            node,
            claimed_at: None,
            decided_at: now,
        });
        let (number, fence, result) = (run.number(), ended.token, ended.result.clone());
        let job_version = None;
        let attempt =
            EndedAttempt { number, fence, job_version, node, started_at, finished_at, result };
        settle::settled(run, job, attempt)
    }
}
