//! Starting what is due, and saying what its end means.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use domain::cluster::Class;
use domain::decide::settle::{Settlement, settle, settle_lost};
use domain::decide::start::{Start, StartFacts, start, window};
use domain::id::NodeId;
use domain::job::{Job, JobState, OnCompletion, Overlap};
use domain::run::{AttemptEnd, ClaimedRun, EndedAttempt, Grant, Reason, ReasonCode, Wait};
use domain::schedule::jitter;
use domain::shard::Shard;
use jiff::{SignedDuration, Timestamp};
use store::{FactsFor, Finish, Shards, Store, Verdict};

use super::divide::is_divided;
use super::notify::late_start;
use super::{Ended, Held, Node, Started, State};

/// So many start together. Few, so that the first need not wait until the store knows about the
/// last; and many, so that to ask costs little.
const START_BATCH: usize = 125;

/// Runs that are about to start.
struct Starting<'a> {
    state: &'a Mutex<State>,
    node: NodeId,
    runs: usize,
}

impl<'a> Starting<'a> {
    fn begin(state: &'a Mutex<State>, node: NodeId, runs: usize) -> Self {
        let starting = Starting { state, node, runs };
        starting.count(|starts| *starts += runs);
        starting
    }

    /// Unless the node is another one by now.
    fn count(&self, change: impl FnOnce(&mut usize)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.id == self.node {
            change(&mut state.starts);
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.count(|starts| *starts -= self.runs);
    }
}

impl<S: Shards> Node<S> {
    /// Starts what is due and has a slot. Call it when the first prepared run is due and after
    /// every pump.
    pub async fn start_due(&self) -> store::Result<Vec<Started>> {
        self.wake_divided().await?;
        let (node, due) = self.take_due(self.now());
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let _starting = Starting::begin(&self.state, node, due.len());
        match self.admit(node, &due).await {
            Ok(started) => Ok(started),
            Err(error) => {
                // Nothing was started: they are as due as before.
                for run in &due {
                    self.put_back(node, run);
                }
                Err(error)
            }
        }
    }

    /// A run goes back to where others find it.
    fn give_back(&self, node: NodeId, run: &ClaimedRun) {
        let mut state = self.state();
        if state.frees_slot(node, run.grant) {
            state.held.remove(&run.grant.run);
            let (grant, verdict) = (run.grant, Verdict::Release);
            state.done.push(Finish { grant, verdict, attempt: None, job_state: None });
        }
    }

    /// A run that could not be decided about is as due as before.
    fn put_back(&self, node: NodeId, run: &ClaimedRun) {
        let mut state = self.state();
        if state.frees_slot(node, run.grant) {
            state.crowded.insert(run.run.tenant, (run.run.due_at, run.grant.run));
        }
    }

    /// A run that is early by the store's clock is prepared until then.
    fn put_off(&self, node: NodeId, run: &ClaimedRun, until: Timestamp) {
        let mut state = self.state();
        if state.frees_slot(node, run.grant) {
            state.prepared.insert((until, run.grant.run));
        }
    }

    /// Takes a slot for each run that is due, as far as there are slots.
    fn take_due(&self, now: Timestamp) -> (NodeId, Vec<Arc<ClaimedRun>>) {
        let mut state = self.state();
        if state.draining || state.drained {
            return (state.id, Vec::new());
        }
        while let Some(first) = state.prepared.first().copied().filter(|(due_at, _)| *due_at <= now)
        {
            state.prepared.remove(&first);
            if let Some(held) = state.held.get(&first.1) {
                let tenant = held.run.run.tenant;
                state.crowded.insert(tenant, first);
            }
        }
        let mut due = Vec::new();
        while state.free > 0 && due.len() < START_BATCH {
            let Some(run) = state.crowded.pop() else { break };
            let waiting = state.held.get(&run).filter(|held| held.running.is_none());
            if let Some(held) = waiting {
                due.push(Arc::clone(&held.run));
                state.free -= 1;
            }
        }
        (state.id, due)
    }

    async fn admit(&self, node: NodeId, due: &[Arc<ClaimedRun>]) -> store::Result<Vec<Started>> {
        let jobs = self.jobs_of(due).await?;
        let facts = self.facts(node, due, &jobs).await?;
        let parts = self.parts_of(due, &jobs).await?;
        let shards = self.shards_of(due).await?;
        let now = self.now();
        let mut started = Vec::with_capacity(due.len());
        for ((run, job), facts) in due.iter().zip(jobs).zip(facts) {
            let is_cancelled = facts.as_ref().is_some_and(|facts| facts.cancel_requested);
            let verdict = match facts {
                None => Start::Go,
                Some(facts) => self.decide(run, &job, &facts, now),
            };
            let is_divided = is_divided(run, &job);
            let divided = if let Some(parts) = parts.get(&run.run.id) {
                Some(self.gather(node, run, &job, parts, is_cancelled).await)
            } else if is_divided && verdict == Start::Go && job.definition.rows_action().is_none() {
                Some(self.divide(node, run, &job, None).await)
            } else {
                None
            };
            if let Some(divided) = divided {
                if let Err(error) = divided {
                    tracing::warn!(run = %run.grant.run, %error, "a run is not divided yet");
                    self.put_back(node, run);
                }
            } else if verdict == Start::Go && !self.is_place_of(run, &job) {
                // The job was changed since this node was handed the run.
                self.give_back(node, run);
            } else if let Start::Early(by) = verdict {
                self.put_off(node, run, now.saturating_add(by).unwrap_or(Timestamp::MAX));
            } else if verdict == Start::Go {
                if self.mark_running(node, run, &job, now) {
                    let shard = shards.get(&run.run.shard).cloned();
                    let asks_rows = is_divided;
                    let (run, job) = (run.clone(), carried_out(&job, shard.as_deref(), asks_rows));
                    started.push(Started { run, job, started_at: now, shard, asks_rows });
                }
            } else if let Err(error) = self.turn_away(node, run, &job, verdict).await {
                // The others have begun already, and somebody must hear of it.
                let attempt = run.number();
                tracing::warn!(run = %run.grant.run, attempt, %error, "a start is put off");
                self.put_back(node, run);
            }
        }
        Ok(started)
    }

    /// Whether a run may begin here. A part has its place from when its run was divided, whatever
    /// its job asks for by now.
    fn is_place_of(&self, run: &ClaimedRun, job: &Job) -> bool {
        run.run.id.is_part() || self.offers(&job.definition.place())
    }

    /// What the store knows of the runs that need a look; none for the others.
    async fn facts(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        jobs: &[Arc<Job>],
    ) -> store::Result<Vec<Option<StartFacts>>> {
        let mut asked = Vec::new();
        let questions: Vec<FactsFor> = due
            .iter()
            .zip(jobs)
            .enumerate()
            .filter(|(_, (run, job))| needs_facts(run, job))
            .map(|(i, (run, job))| {
                asked.push(i);
                let dependencies =
                    job.definition.depends_on.iter().map(|dependency| dependency.job);
                let is_part = run.run.id.is_part();
                FactsFor {
                    grant: run.grant,
                    job: run.run.job,
                    earlier: job.definition.overlap != Overlap::Allow && !is_part,
                    upstream: if run.run.ignore_dependencies {
                        Vec::new()
                    } else {
                        dependencies.collect()
                    },
                    quorum: job.definition.class == Class::QuorumRequired && !is_part,
                }
            })
            .collect();
        let mut facts = vec![None; due.len()];
        if !questions.is_empty() {
            let answers = self.store.facts(node, &questions).await?;
            for (i, answer) in asked.into_iter().zip(answers) {
                facts[i] = Some(answer);
            }
        }
        Ok(facts)
    }

    fn decide(&self, run: &ClaimedRun, job: &Job, facts: &StartFacts, now: Timestamp) -> Start {
        let at = run.run.scheduled_for;
        // Only dependencies care about the times around this one.
        let schedule = if job.definition.depends_on.is_empty() {
            None
        } else {
            job.definition.when.compile(&self.parts.zones).ok().flatten()
        };
        let previous = schedule.as_ref().and_then(|schedule| schedule.prev(at));
        let next = schedule.as_ref().and_then(|schedule| schedule.next(at));
        start(run, &job.definition, window(&job.definition, at, previous, next), facts, now)
    }

    /// Answers false when the run was given back or lost while it was looked at.
    fn mark_running(&self, node: NodeId, run: &ClaimedRun, job: &Arc<Job>, now: Timestamp) -> bool {
        let mut state = self.state();
        let held = state.held.get_mut(&run.grant.run).filter(|held| held.run.grant == run.grant);
        let Some(held) = held.filter(|held| held.running.is_none()) else {
            state.frees_slot(node, run.grant);
            return false;
        };
        held.running = Some((Arc::clone(job), now));
        state.noticed.extend(late_start(run, now));
        true
    }

    async fn turn_away(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
        verdict: Start,
    ) -> store::Result<()> {
        let verdict = match verdict {
            Start::Go | Start::Forget | Start::Early(_) => None,
            Start::Wait(wait, until) => Some(Verdict::Wait(wait, until)),
            Start::CancelEarlier(earlier) => {
                for id in earlier {
                    let text = format!("run {} takes its place", run.grant.run);
                    self.cancel(id, &Reason { code: ReasonCode::CancelRequested, text }).await?;
                }
                Some(Verdict::Wait(Wait::Overlap, None))
            }
            Start::End(outcome, reason) => {
                Some(Verdict::End { outcome, reason: Some(reason), dead_letter: false })
            }
        };
        let mut state = self.state();
        if !state.frees_slot(node, run.grant) {
            return Ok(());
        }
        let claimed_at = state.held.remove(&run.grant.run).map(|held| held.claimed_at);
        if let Some(verdict) = verdict {
            if matches!(verdict, Verdict::End { .. }) {
                self.traces.ended(|| Ended {
                    run: Arc::new(run.clone()),
                    job: Arc::clone(job),
                    node,
                    claimed_at,
                    decided_at: self.now(),
                });
            }
            let job_state = job_state_after(run, job, &verdict);
            state.done.push(Finish { grant: run.grant, verdict, attempt: None, job_state });
        }
        Ok(())
    }
}

impl<S: Store> Node<S> {
    /// New grants: those that are due get in line, the others are prepared.
    pub(super) fn take_in(&self, claimed: Vec<ClaimedRun>) {
        let now = self.now();
        let mut state = self.state();
        for run in claimed {
            let (tenant, place) = (run.run.tenant, (run.run.due_at, run.grant.run));
            match state.held.entry(run.grant.run) {
                Entry::Occupied(held) if held.get().run.grant == run.grant => continue,
                entry => {
                    let run = Arc::new(run);
                    entry.insert_entry(Held { run, claimed_at: now, running: None });
                }
            }
            if place.0 <= now {
                state.crowded.insert(tenant, place);
            } else {
                state.prepared.insert(place);
            }
        }
    }
}

impl State {
    /// Whether a grant is held and its run has neither started nor been turned away.
    fn is_waiting(&self, grant: Grant) -> bool {
        self.held(grant).is_some_and(|held| held.running.is_none())
    }

    /// The slot that was taken for a run is free again, unless the node is another one by now.
    /// Answers whether the run still waits for it.
    fn frees_slot(&mut self, node: NodeId, grant: Grant) -> bool {
        let same = self.id == node;
        self.free += u32::from(same);
        same && self.is_waiting(grant)
    }
}

/// A run that was asked for by hand, of a job that guards nothing, is let in unseen. One that is to
/// be divided is not: the store would refuse that if somebody has asked for its end.
fn needs_facts(run: &ClaimedRun, job: &Job) -> bool {
    let definition = &job.definition;
    run.run.origin.is_tick()
        || definition.is_guarded()
        || definition.is_divided()
        || job.state == JobState::Deleted
}

/// A job as it is carried out: in the database of the shard, or as the question for the rows by
/// which the run is divided.
pub(super) fn carried_out(job: &Arc<Job>, shard: Option<&Shard>, asks_rows: bool) -> Arc<Job> {
    let rows = job.definition.rows_action().filter(|_| asks_rows);
    let database = shard.and_then(|shard| shard.body.database.as_deref());
    let action = match (rows, database) {
        (Some(rows), _) => rows,
        (None, Some(database)) => job.definition.action.clone().in_database(database),
        (None, None) => return Arc::clone(job),
    };
    let mut job = Job::clone(job);
    job.definition.action = action;
    Arc::new(job)
}

/// What the end of an attempt means for its run.
pub(super) fn settled(run: &ClaimedRun, job: &Job, attempt: EndedAttempt) -> Finish {
    let settlement = if attempt.result.end == AttemptEnd::Lost {
        settle_lost(&job.definition, run.lost)
    } else {
        settle(&job.definition, run.attempts, &attempt.result, || chance(run))
    };
    let verdict = match settlement {
        // The letter of a part is that of its run.
        Settlement::End { outcome, reason, dead_letter } => {
            let dead_letter = dead_letter && !run.run.id.is_part();
            Verdict::End { outcome, reason, dead_letter }
        }
        Settlement::Retry { delay } => Verdict::Retry { delay },
    };
    let job_state = job_state_after(run, job, &verdict);
    Finish { grant: run.grant, verdict, attempt: Some(attempt), job_state }
}

/// A one-time job has done its work when the run of its time has ended.
pub(super) fn job_state_after(run: &ClaimedRun, job: &Job, verdict: &Verdict) -> Option<JobState> {
    let over = matches!(verdict, Verdict::End { .. })
        && run.run.origin.is_tick()
        && job.definition.when.is_one_time();
    over.then_some(match job.definition.on_completion {
        OnCompletion::Preserve => JobState::Completed,
        OnCompletion::Drop => JobState::Deleted,
    })
}

/// A number in 0..1 that is the same whenever this attempt is settled.
fn chance(run: &ClaimedRun) -> f64 {
    let scale = SignedDuration::from_secs(1_000);
    let at = run.run.due_at;
    jitter(run.grant.run.0.into_bytes(), at, scale).as_secs_f64() / scale.as_secs_f64()
}
