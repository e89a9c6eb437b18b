//! Starts due runs, and settles their ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::action::EffectKey;
use domain::cluster::Class;
use domain::decide::start::{ActiveRun, Moment, Start, StartFacts, start, window};
use domain::id::{JobId, NodeId, RunId};
use domain::job::{Definition, Job, OnLost, Overlap};
use domain::partition::Part;
use domain::run::{ClaimedRun, Grant, Origin, Reason, ReasonCode, Wait};
use domain::schedule::{Fate, Outage};
use domain::shard::Shard;
use domain::slot::SlotKind;
use jiff::{SignedDuration, Timestamp};
use store::{Finish, SYSTEM, Verdict};

use super::dag::{HeldDag, with_action_parameters};
use super::look::Look;
use super::settle::job_state_after;
use super::split::is_split;
use super::{Ended, Node, Running, Started, State};
use crate::start_log::BegunRun;

/// Maximum number of runs that start together. Few, so that the first need not wait until the store
/// has the facts of the last; and many, so that a call is cheap for each.
const START_BATCH: usize = 125;

/// How soon a run is looked at again that later runs on other nodes are decided before.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_millis(100);

/// How long a run waits whose job cannot be read.
const UNREADABLE_WAIT: SignedDuration = SignedDuration::from_mins(1);

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
            change(&mut state.starts_in_flight);
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.count(|starts| *starts -= self.runs);
    }
}

impl Node {
    /// Starts runs that are due and have a slot. Call it when the first prepared run is due and
    /// after every exchange.
    pub async fn start_due(&self) -> store::Result<Vec<Started>> {
        self.wake_split().await?;
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
                    self.requeue(node, run);
                }
                Err(error)
            }
        }
    }

    /// Takes a slot for each run that is due, as far as there are slots.
    fn take_due(&self, now: Timestamp) -> (NodeId, Vec<Arc<ClaimedRun>>) {
        let mut state = self.state();
        if state.draining || state.drained || !state.has_joined {
            return (state.id, Vec::new());
        }
        while let Some(first) = state.prepared.first().copied().filter(|(due_at, _)| *due_at <= now)
        {
            state.prepared.remove(&first);
            if let Some(held) = state.held.get(&first.1) {
                let (tenant, slot) = (held.run.run.tenant, held.run.run.slot);
                state.slot_waiters[slot].insert(tenant, first);
            }
        }
        let mut due = Vec::new();
        // The kinds take turns, so that much of one does not hold up the other.
        while due.len() < START_BATCH {
            let before = due.len();
            for slot in SlotKind::ALL {
                due.extend(state.take_slot(slot));
            }
            if due.len() == before {
                break;
            }
        }
        (state.id, due)
    }

    async fn admit(&self, node: NodeId, due: &[Arc<ClaimedRun>]) -> store::Result<Vec<Started>> {
        let mut look = self.look_at_store(node, due).await?;
        let parts = self.parts_of(due, &look.jobs).await?;
        let shards = self.shards_of(due).await?;
        self.renew_look(node, due, &mut look).await?;
        self.note_act(node, &look);
        let now = self.now();
        let mut decided = self.decide_all(node, due, &look, &parts, now);
        self.take_places(node, due, &look, &mut decided).await;
        self.write_starts(node, due, &look, &mut decided).await;
        let effects = self.allow_effects(node, due, &look, &mut decided).await;
        let mut started = Vec::with_capacity(due.len());
        let mut dags: Vec<HeldDag> = Vec::new();
        for (i, (run, decision)) in due.iter().zip(decided).enumerate() {
            let job = &look.jobs[i];
            match decision {
                Decision::Begin(token) => {
                    if let Some(log) = &self.parts.start_log {
                        log.begin(run.grant, BegunRun { started_at: now, token });
                    }
                    let shard = shards.get(&run.run.shard).cloned();
                    let asks_rows = is_split(run, job);
                    let run = match run.run.origin {
                        Origin::Step | Origin::Part => with_action_parameters(run, job),
                        _ => run.clone(),
                    };
                    let job = carried_out(job, shard.as_deref(), asks_rows);
                    let effect = effects.get(&run.grant.run).cloned();
                    let started_at = now;
                    started.push(Started { run, job, started_at, token, shard, asks_rows, effect });
                }
                Decision::Split if job.definition.is_dag() => {
                    let (run, job) = (Arc::clone(run), Arc::clone(job));
                    dags.push(HeldDag { run, job, has_begun: false, is_cancelled: false });
                }
                Decision::Split => {
                    let split = self.split(node, run, job, None).await;
                    self.requeue_if_failed(node, run, split);
                }
                Decision::Gather => {
                    let facts = look.facts[i].as_ref();
                    let is_cancelled = facts.is_some_and(|facts| facts.cancel_requested);
                    let parts = parts.get(&run.run.id).map_or(&[][..], Vec::as_slice);
                    // Only a DAG run has begun without parts.
                    if parts.is_empty() {
                        let (run, job) = (Arc::clone(run), Arc::clone(job));
                        dags.push(HeldDag { run, job, has_begun: true, is_cancelled });
                        continue;
                    }
                    let gathered = self.gather(node, run, job, parts, is_cancelled).await;
                    self.requeue_if_failed(node, run, gathered);
                }
                // The job was changed since this node claimed the run.
                Decision::Release => self.release(node, run),
                Decision::ChangeSlot(slot) => self.change_slot(node, run, slot),
                Decision::Stale | Decision::WaitsHere => {}
                Decision::Reject(Start::Early(by)) => {
                    self.defer(node, run, now.saturating_add(by).unwrap_or(Timestamp::MAX));
                }
                Decision::Reject(Start::LaterUndecided) => {
                    let until = now.saturating_add(RECHECK_AFTER).unwrap_or(Timestamp::MAX);
                    self.defer(node, run, until);
                }
                Decision::Reject(verdict) => {
                    // Other runs of the batch have begun, so an error must not end this step.
                    if let Err(error) = self.reject(node, run, job, verdict).await {
                        let attempt = run.number();
                        tracing::warn!(run = %run.grant.run, attempt, %error, "a start is put off");
                        self.requeue(node, run);
                    }
                }
            }
        }
        self.attend_dags(node, &dags).await;
        Ok(started)
    }

    /// Decides about all runs of a batch and marks those that begin, in one step: each decision
    /// sees the ones before it, and those of other batches of this node.
    fn decide_all(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        look: &Look,
        parts: &HashMap<RunId, Vec<Part>>,
        now: Timestamp,
    ) -> Vec<Decision> {
        // Before the lock: whether this node leads is behind the same one.
        let is_place: Vec<bool> =
            due.iter().zip(&look.jobs).map(|(run, job)| self.is_place_of(run, job)).collect();
        let mut state = self.state();
        let mut begun = state.begun_of(due, &look.jobs);
        // A run that was split has begun, also while its parts are counted here.
        for (run, job) in
            due.iter().zip(&look.jobs).filter(|(run, _)| parts.contains_key(&run.run.id))
        {
            let active = ActiveRun { id: run.run.id, origin: run.run.origin };
            begun.entry(job.id).or_default().push(active);
        }
        let outages = state.outages.clone();
        let mut decided: Vec<Decision> = due.iter().map(|_| Decision::Stale).collect();
        // A live tick goes before runs of its job that waited or were missed: those are never
        // skipped, so both run.
        let is_live = |run: &ClaimedRun| {
            run.run.origin == Origin::Schedule
                && !outages.iter().any(|outage| outage.contains(run.run.due_at))
        };
        let mut order: Vec<usize> = (0..due.len()).collect();
        order.sort_by_key(|i| !is_live(&due[*i]));
        for i in order {
            let (run, job, facts) = (&due[i], &look.jobs[i], look.facts[i].as_ref());
            let of_job = begun.entry(job.id).or_default();
            let line = state.line_before(run);
            let here = LocalRuns { begun: of_job, count: state.begun.of(job.id), line: &line };
            let verdict = match facts {
                // It looks again when the definition was replaced, or on a node of a newer release
                // that can read it.
                Some(facts) if job.definition.unreadable.is_some() && facts.held => {
                    let until = now.saturating_add(UNREADABLE_WAIT).unwrap_or(Timestamp::MAX);
                    Start::Wait(Wait::Pause, Some(until))
                }
                Some(facts) => self.decide(run, job, facts, (here, &outages), now),
                // Those that wait here and come before it count too: it does not overtake them.
                None if self.is_one_too_many(run, job, here.count + line.len() as u32) => {
                    state.note_line(job.id);
                    Start::Wait(Wait::Overlap, None)
                }
                // Since the look, another batch has begun a later run of the job, or its
                // cancellation was requested.
                None if state.lines.is_overtaken(run) || state.lines.is_cancelled(run) => {
                    Start::Early(SignedDuration::ZERO)
                }
                None => Start::Go,
            };
            let is_in_line = verdict == Start::Wait(Wait::Overlap, None) && self.skill.is_none();
            let is_split = is_split(run, job);
            let active = ActiveRun { id: run.run.id, origin: run.run.origin };
            let decision = if parts.contains_key(&run.run.id) {
                Decision::Gather
            } else if is_in_line && state.waits_here(run, job, facts, now) {
                match state.wait_in_line(node, run, facts, now) {
                    true => Decision::WaitsHere,
                    false => Decision::Stale,
                }
            } else if verdict != Start::Go {
                Decision::Reject(verdict)
            } else if is_split && job.definition.rows_action().is_none() {
                of_job.push(active);
                Decision::Split
            } else if !is_place[i] {
                Decision::Release
            } else if run.run.slot != job.definition.action.slot_kind() {
                Decision::ChangeSlot(job.definition.action.slot_kind())
            } else {
                let token = look.tokens[i];
                let _counted = state.begun.count(&run.run);
                let waited = state.wait_of(run, now);
                let (job, started_at) = (Arc::clone(job), now);
                let running = Running { job, started_at, token, waited, _counted };
                if state.mark_running(node, run, running) {
                    of_job.push(active);
                    Decision::Begin(token)
                } else {
                    Decision::Stale
                }
            };
            match decision {
                Decision::WaitsHere => {}
                // It gets another token, and keeps its place.
                Decision::Reject(Start::Early(_)) if facts.is_none() => {}
                Decision::Begin(token) => state.lines.begin(run, token),
                _ => state.leave_line(run),
            }
            decided[i] = decision;
        }
        decided
    }

    /// Records the starts that must be known if this node dies, before they happen. A run whose
    /// start could not be recorded does not begin.
    async fn write_starts(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        look: &Look,
        decided: &mut [Decision],
    ) {
        let needed = |i: &usize| {
            matches!(decided[*i], Decision::Begin(_)) && needs_record(&due[*i], &look.jobs[*i])
        };
        let needed: Vec<usize> = (0..due.len()).filter(needed).collect();
        if needed.is_empty() {
            return;
        }
        let grants: Vec<Grant> = needed.iter().map(|i| due[*i].grant).collect();
        let begun = self.store.begin(node, &grants).await;
        if let Err(error) = &begun {
            tracing::warn!(runs = grants.len(), %error, "starts could not be written down");
        }
        for (n, i) in needed.into_iter().enumerate() {
            match &begun {
                Ok(begun) if begun[n] => continue,
                Ok(_) => self.drop_stale(node, &due[i]),
                Err(_) => self.unmark_running(node, &due[i]),
            }
            decided[i] = Decision::Stale;
        }
    }

    /// Draws secrets for the runs that record their effects in the store's own database. A run that
    /// may not does not begin.
    async fn allow_effects(
        &self,
        node: NodeId,
        due: &[Arc<ClaimedRun>],
        look: &Look,
        decided: &mut [Decision],
    ) -> HashMap<RunId, EffectKey> {
        let needed = |i: &usize| {
            let definition = &look.jobs[*i].definition;
            matches!(decided[*i], Decision::Begin(_))
                && definition.exactly_once
                && !is_split(&due[*i], &look.jobs[*i])
        };
        let needed: Vec<usize> = (0..due.len()).filter(needed).collect();
        if needed.is_empty() {
            return HashMap::new();
        }
        let secret = || format!("{:032x}{:032x}", (self.parts.random)(), (self.parts.random)());
        let attempts: Vec<(Grant, String)> =
            needed.iter().map(|i| (due[*i].grant, secret())).collect();
        let allowed = self.store.allow_effects(&attempts).await;
        if let Err(error) = &allowed {
            tracing::warn!(runs = attempts.len(), %error, "effects could not be allowed");
        }
        let mut keys = HashMap::new();
        for ((n, i), (grant, secret)) in needed.into_iter().enumerate().zip(attempts) {
            match &allowed {
                Ok(allowed) if allowed[n] => {
                    let generation = grant.turn;
                    keys.insert(grant.run, EffectKey { generation, secret });
                    continue;
                }
                Ok(_) => self.drop_stale(node, &due[i]),
                Err(_) => self.unmark_running(node, &due[i]),
            }
            decided[i] = Decision::Stale;
        }
        keys
    }

    /// Whether a run may begin here. A child run has its placement from when its parent was split,
    /// whatever the job requests by now.
    fn is_place_of(&self, run: &ClaimedRun, job: &Job) -> bool {
        run.run.id.is_part() || self.offers(&job.definition.place())
    }

    fn decide(
        &self,
        run: &ClaimedRun,
        job: &Job,
        facts: &StartFacts,
        (here, outages): (LocalRuns<'_>, &[Outage]),
        now: Timestamp,
    ) -> Start {
        let (at, definition) = (run.run.scheduled_for, &job.definition);
        // Only dependencies care about the times around this one.
        let schedule = if definition.depends_on.is_empty() {
            None
        } else {
            definition.schedule(&self.parts.zones).ok().flatten()
        };
        let previous = schedule.as_ref().and_then(|schedule| schedule.prev(at));
        let next = schedule.as_ref().and_then(|schedule| schedule.next(at));
        let window = window(definition, at, previous, next);
        let fate = self.fate(run, definition, outages);
        let excluded = self.exclusion(run, definition, now);
        let excluded = excluded.as_ref();
        let LocalRuns { begun: begun_here, count: running_here, line: line_here } = here;
        let most_running = definition.most_running(self.settings.max_runs_per_job);
        let moment = Moment {
            now,
            begun_here,
            running_here,
            most_running,
            line_here,
            fate,
            window,
            excluded,
        };
        start(run, definition, facts, &moment)
    }

    /// Whether a run that needs no look would be one run of its job too many on this node.
    fn is_one_too_many(&self, run: &ClaimedRun, job: &Job, running_here: u32) -> bool {
        let most = job.definition.most_running(self.settings.max_runs_per_job);
        running_here >= most && run.attempts == 0 && !run.run.id.is_part()
    }

    /// Whether a tick was missed in an outage, and the decision about it.
    fn fate(&self, run: &ClaimedRun, definition: &Definition, outages: &[Outage]) -> Fate {
        let outage = outages.iter().find(|outage| outage.contains(run.run.due_at));
        let Some(outage) = outage.filter(|_| run.run.origin == Origin::Schedule) else {
            return Fate::Live;
        };
        let blackouts = self.blackouts(run.run.tenant);
        match definition.schedule_under(&self.parts.zones, &blackouts) {
            Ok(Some(schedule)) => {
                let rules = definition.catch_up_rules();
                outage.fate(&schedule, run.run.scheduled_for, &rules)
            }
            _ => Fate::Live,
        }
    }

    /// Why a tick does not run: its day is excluded by a calendar of the job, its time lies in a
    /// blackout, or a blackout has begun before it could start.
    fn exclusion(
        &self,
        run: &ClaimedRun,
        definition: &Definition,
        now: Timestamp,
    ) -> Option<Reason> {
        let blackouts = self.blackouts(run.run.tenant);
        let is_open = definition.calendars.is_empty() && blackouts.is_empty();
        if is_open || !run.run.origin.is_tick() {
            return None;
        }
        let schedule = definition.schedule_under(&self.parts.zones, &blackouts).ok().flatten();
        let excluded = schedule.and_then(|schedule| schedule.exclusion(run.run.scheduled_for));
        if let Some((closing, moved_to)) = excluded {
            return Some(closing.reason(moved_to));
        }
        let blackout = blackouts.iter().find(|blackout| blackout.contains(now))?;
        let text = format!("blackout {:?} began before it could start", blackout.name());
        Some(Reason { code: ReasonCode::Blackout, text })
    }

    async fn reject(
        &self,
        node: NodeId,
        run: &ClaimedRun,
        job: &Arc<Job>,
        verdict: Start,
    ) -> store::Result<()> {
        let verdict = match verdict {
            Start::Go | Start::Forget | Start::Early(_) | Start::LaterUndecided => None,
            Start::Wait(Wait::Overlap, None) => Some(self.in_line(job)),
            Start::Wait(Wait::Backfill, None) => {
                let places = run.run.backfill_limit().unwrap_or(1);
                Some(Verdict::Line { wait: Wait::Backfill, places })
            }
            Start::Wait(wait, until) => Some(Verdict::Wait(wait, until)),
            Start::CancelEarlier(earlier) => {
                for id in earlier {
                    let text = format!("run {} takes its place", run.grant.run);
                    let reason = Reason { code: ReasonCode::CancelRequested, text };
                    self.cancel(id, &reason, SYSTEM).await?;
                }
                Some(self.in_line(job))
            }
            Start::End(outcome, mut reason) => {
                // The cause of the delay is known only now, so it is recorded for a later
                // explanation.
                if reason.code == ReasonCode::StartDeadline
                    && let Some(waited) = self.state().wait_of(run, self.now())
                {
                    reason.text.push_str(&format!("; it {waited}"));
                }
                Some(Verdict::End { outcome, reason: Some(reason), dead_letter: false })
            }
        };
        let mut state = self.state();
        if !state.frees_slot(node, run) {
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
            state.done.push(Finish { job_state, ..Finish::untried(run.grant, verdict) });
        }
        Ok(())
    }
}

impl Node {
    /// The verdict that a run waits in line for other runs of its job.
    fn in_line(&self, job: &Job) -> Verdict {
        let places = job.definition.most_running(self.settings.max_runs_per_job);
        Verdict::Line { wait: Wait::Overlap, places }
    }
}

/// The runs of a job that this node has begun, and how many they are. Only the number is known of a
/// job whose runs may overlap.
#[derive(Clone, Copy)]
struct LocalRuns<'a> {
    begun: &'a [ActiveRun],
    count: u32,
    /// Those that wait on this node and come before the run in question.
    line: &'a [RunId],
}

/// Decision about a run of a batch.
pub(super) enum Decision {
    /// It begins, with this fencing token.
    Begin(i64),
    /// It is split into parts.
    Split,
    /// Its parts are looked at.
    Gather,
    /// Another node may begin it.
    Release,
    /// It takes another kind of slot than the one that was taken for it.
    ChangeSlot(SlotKind),
    /// It is not this node's any more.
    Stale,
    /// It waits on this node for other runs of its job.
    WaitsHere,
    /// It does not begin now.
    Reject(Start),
}

impl State {
    /// The runs of these jobs that this node has begun.
    fn begun_of(
        &self,
        due: &[Arc<ClaimedRun>],
        jobs: &[Arc<Job>],
    ) -> HashMap<JobId, Vec<ActiveRun>> {
        let is_limited = |(run, job): &(&Arc<ClaimedRun>, &Arc<Job>)| {
            job.definition.overlap != Overlap::Allow || run.run.backfill_limit().is_some()
        };
        let limited = due.iter().zip(jobs).filter(is_limited);
        let mut begun: HashMap<JobId, Vec<ActiveRun>> =
            limited.map(|(_, job)| (job.id, Vec::new())).collect();
        if begun.is_empty() {
            return begun;
        }
        for held in self.held.values().filter(|held| held.running.is_some()) {
            let run = &held.run.run;
            if let Some(of_job) = begun.get_mut(&run.job) {
                of_job.push(ActiveRun { id: run.id, origin: run.origin });
            }
        }
        begun
    }
}

/// Whether the start of a run is recorded before it begins: where its work must not happen twice,
/// where only one node of the cluster may do it, and where it was lost before, so that a run that
/// kills its node is counted exactly.
pub(super) fn needs_record(run: &ClaimedRun, job: &Job) -> bool {
    let definition = &job.definition;
    definition.exactly_once
        || definition.on_lost != OnLost::Retry
        || definition.class != Class::LocalSafe
        || run.lost > 0
}

/// A job as it is executed: in the database of the shard, or as the query for the rows by which the
/// run is split.
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
