//! The facts that a start needs: how they are read, and how long they are valid.
//!
//! ```text
//!   claim ──▶ prepared ──(due)──▶ look: version, state, cancel, other runs, token ──▶ decision
//!     │                                                                                  │
//!     └─ due at once, guards nothing: the claim itself is the decision ──────────────────┤
//!                                                                      within DECIDED_FOR ▼
//!                                                                                     executor
//! ```
//!
//! Whatever depends on the moment is decided by the look, under the definition that the store has
//! at that moment. A decision is good for [`DECIDED_FOR`]; a start that is later than that looks
//! again.

use std::sync::Arc;

use domain::cluster::Class;
use domain::decide::start::StartFacts;
use domain::id::NodeId;
use domain::job::{Job, JobState, Overlap};
use domain::run::{ClaimedRun, Origin};
use jiff::{SignedDuration, Timestamp};
use store::FactsFor;

use super::{Held, Node, Started};

/// How long after its decision a run may begin without another look.
const DECIDED_FOR: SignedDuration = SignedDuration::from_millis(50);

/// A decision is good for twice as long after each late start, so many times.
const LATE_STARTS_MAX: u32 = 6;

/// A look that meets a changed definition is repeated this often.
const LOOKS_MAX: u32 = 4;

/// A look that is too old is renewed this often. A slow store must not stop all starts.
const RENEWALS_MAX: u32 = 2;

/// Tokens are drawn again this often. A store that never answers in time must not stop all starts.
const DRAWS_MAX: u32 = 8;

/// Facts that took longer than this to read are discarded: on a busy machine, or in a process that
/// was suspended, a job may have been changed or paused since the store replied.
const LOOKED_FOR: SignedDuration = SignedDuration::from_millis(100);

/// Runs that are about to start, each with its job, its facts and its fencing token. A run that
/// needs no facts has none.
pub(super) struct Look {
    pub jobs: Vec<Arc<Job>>,
    pub facts: Vec<Option<StartFacts>>,
    pub tokens: Vec<i64>,
    /// When the first read began.
    since: Timestamp,
}

impl Node {
    /// Looks at the store, until every run is judged by the definition that the store has. A look
    /// that took too long is made once more.
    pub(super) async fn look_at_store(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
    ) -> store::Result<Look> {
        let look = self.look_once(node, due).await?;
        match self.now().duration_since(look.since) > LOOKED_FOR {
            true => self.look_once(node, due).await,
            false => Ok(look),
        }
    }

    /// Notes that this node decides about starts now: its lease counted when it looked. If it is
    /// killed before the next renewal, an outage begins here.
    pub(super) fn note_act(&self, node: NodeId, look: &Look) {
        if !look.facts.iter().flatten().any(|facts| facts.held) {
            return;
        }
        let mut state = self.state();
        if state.id == node {
            state.acted_at = state.acted_at.max(Some(look.since));
            if let Some(log) = &self.parts.start_log {
                log.act(look.since);
            }
        }
    }

    /// Looks again if the look is too old by now: the questions since then took time too, and a job
    /// may have been changed or paused meanwhile. Tokens are drawn again where they are too old.
    pub(super) async fn renew_look(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        look: &mut Look,
    ) -> store::Result<()> {
        for _ in 0..RENEWALS_MAX {
            self.renew_tokens(look).await?;
            if self.now().duration_since(look.since) <= LOOKED_FOR {
                return Ok(());
            }
            *look = self.look_once(node, due).await?;
        }
        self.renew_tokens(look).await
    }

    /// Draws the tokens again if the look was slow, and again if that was slow: a start that was
    /// decided later may have begun and ended since then.
    async fn renew_tokens(&self, look: &mut Look) -> store::Result<()> {
        let mut order: Vec<usize> = (0..look.tokens.len()).collect();
        order.sort_by_key(|i| look.tokens[*i]);
        let mut drawn_at = look.since;
        for _ in 0..DRAWS_MAX {
            let now = self.now();
            if now.duration_since(drawn_at) <= DECIDED_FOR {
                break;
            }
            drawn_at = now;
            let tokens = self.store.start_tokens(order.len()).await?;
            for (i, token) in order.iter().zip(tokens) {
                look.tokens[*i] = token;
            }
        }
        Ok(())
    }

    async fn look_once(&self, node: NodeId, due: &[Arc<ClaimedRun>]) -> store::Result<Look> {
        let since = self.now();
        let jobs = self.jobs_of(due).await?;
        let facts = self.looked_before(due, &jobs);
        let mut stale: Vec<usize> = (0..due.len()).filter(|i| facts[*i].is_none()).collect();
        let mut look = Look { jobs, facts, tokens: Vec::new(), since };
        for _ in 0..LOOKS_MAX {
            self.ask_facts(node, due, &stale, &mut look).await?;
            stale.retain(|i| {
                // A step follows the version that its DAG run follows.
                if due[*i].run.origin == Origin::Step {
                    return false;
                }
                let known = look.facts[*i].as_ref();
                known.is_some_and(|facts| facts.job_version > look.jobs[*i].version)
            });
            if stale.is_empty() {
                break;
            }
            let wanted = stale.iter().filter_map(|i| {
                let version = look.facts[*i].as_ref()?.job_version;
                Some((due[*i].run.job, version))
            });
            let wanted: Vec<_> = wanted.collect();
            let jobs = self.definitions.read(&self.store, &wanted, self.now()).await?;
            for i in &stale {
                if let Some(job) = jobs.get(&due[*i].run.job) {
                    look.jobs[*i] = Arc::clone(job);
                }
            }
        }
        let token = |(run, facts): (&Arc<ClaimedRun>, &Option<StartFacts>)| {
            facts.as_ref().map_or(run.token, |facts| facts.token)
        };
        look.tokens = due.iter().zip(&look.facts).map(token).collect();
        Ok(look)
    }

    /// Asks the store about some of the runs, as far as they need a look.
    async fn ask_facts(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        about: &[usize],
        look: &mut Look,
    ) -> store::Result<()> {
        let claimed_at = self.claimed_at(due);
        let now = self.now();
        let needs = |i: &&usize| {
            let is_known = look.facts[**i].is_some();
            is_known || needs_facts(&due[**i], &look.jobs[**i], claimed_at[**i], now)
        };
        let asked: Vec<usize> = about.iter().filter(needs).copied().collect();
        if asked.is_empty() {
            return Ok(());
        }
        let counts = self.state().begun.clone();
        let questions: Vec<FactsFor> = asked
            .iter()
            .map(|i| question(&due[*i], &look.jobs[*i], counts.of(look.jobs[*i].id)))
            .collect();
        let answers = self.store.facts(node, &questions).await?;
        for (i, answer) in asked.into_iter().zip(answers) {
            look.facts[i] = Some(answer);
        }
        Ok(())
    }

    /// Facts read a moment ago about runs that waited here for others of their job.
    fn looked_before(&self, due: &[Arc<ClaimedRun>], jobs: &[Arc<Job>]) -> Vec<Option<StartFacts>> {
        let now = self.now();
        let state = self.state();
        due.iter().zip(jobs).map(|(run, job)| state.lines.look(run, job, now)).collect()
    }

    /// When this node learnt of each claim; long ago for a claim that decides nothing any more,
    /// because the run has waited here and was overtaken or cancelled meanwhile.
    fn claimed_at(&self, due: &[Arc<ClaimedRun>]) -> Vec<Timestamp> {
        let state = self.state();
        let claimed_at = |run: &Arc<ClaimedRun>| {
            let held = state.held(run.grant);
            let is_void = state.lines.is_overtaken(run) || state.lines.is_cancelled(run);
            held.filter(|_| !is_void).map_or(Timestamp::MIN, |held| held.claimed_at)
        };
        due.iter().map(claimed_at).collect()
    }
}

impl Node {
    /// Whether a run that was decided to start may begin now. A decision that is too old is made
    /// again: the run is as due as before, and this answers false. Each time that happens to a run,
    /// its next decision is good for twice as long: a store that takes longer than [`DECIDED_FOR`]
    /// to write a start down does not keep the run from starting for ever.
    pub fn may_begin(&self, started: &Started) -> bool {
        let age = self.now().duration_since(started.started_at);
        if age <= DECIDED_FOR {
            return true;
        }
        let mut state = self.state();
        let Some(held) = state.held.get_mut(&started.run.grant.run) else { return false };
        if held.run.grant != started.run.grant {
            return false;
        }
        if age <= DECIDED_FOR * (1 << held.late_starts.min(LATE_STARTS_MAX)) {
            return held.running.is_some();
        }
        tracing::debug!(run = %started.run.grant.run, ?age, "a start was decided too long ago");
        if held.running.take().is_none() {
            return false;
        }
        held.late_starts += 1;
        if let Some(log) = &self.parts.start_log {
            log.retract(started.run.grant);
        }
        let Held { run, .. } = held;
        let (tenant, slot) = (run.run.tenant, run.run.slot);
        let place = (run.run.due_at, run.grant.run);
        state.slot_waiters[slot].insert(tenant, place);
        state.free[slot] += 1;
        false
    }
}

fn question(run: &ClaimedRun, job: &Job, running_here: u32) -> FactsFor {
    let definition = &job.definition;
    let is_part = run.run.id.is_part();
    // Runs that may overlap are counted to spare the slots of others. The first of a node need not
    // ask about the other nodes.
    let may_overlap = definition.overlap == Overlap::Allow && definition.concurrency.is_none();
    let upstream = definition.depends_on.iter().map(|dependency| dependency.job);
    FactsFor {
        grant: run.grant,
        job: run.run.job,
        others: (!may_overlap || running_here > 0 || run.run.backfill_limit().is_some())
            && !is_part,
        upstream: if run.run.ignore_dependencies { Vec::new() } else { upstream.collect() },
        quorum: definition.class == Class::QuorumRequired && !is_part,
    }
}

/// Whether a start needs facts. A triggered run of a job without guards was decided with its claim,
/// if that was a moment ago. A run that is to be split needs facts: the store would refuse to split
/// it if its cancellation was requested.
fn needs_facts(run: &ClaimedRun, job: &Job, claimed_at: Timestamp, now: Timestamp) -> bool {
    let definition = &job.definition;
    run.run.origin.is_tick()
        || definition.is_guarded()
        || run.run.backfill_limit().is_some()
        || definition.is_split()
        || definition.is_dag()
        || job.state == JobState::Deleted
        || run.token == 0
        // It was held before, and may have been cancelled then.
        || run.grant.turn > 0
        || run.run.due_at > claimed_at
        || now.duration_since(claimed_at) > DECIDED_FOR
}
