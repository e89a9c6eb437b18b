//! The end of claims and of runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use domain::id::{JobId, NodeId, RunId};
use domain::run::{ClaimedRun, EndedAttempt, Grant, Outcome, Reason, Wait};
use tokio_postgres::Row;
use uuid::Uuid;

use super::end_alerts::EndAlerts;
use super::holdings::Holdings;
use super::pipeline::{Pipeline, ends_of, sparse, uniform, values};
use super::row::{outcome, signed, span_us, state_name, text, us};
use crate::author::SYSTEM;
use crate::{Applied, Finish, Result, Verdict};

/// The part of a transaction that ends claims, and the position of its replies.
pub(super) struct Ending<'a> {
    done: Vec<&'a Finish>,
    /// Runs whose ends give their jobs another state, and those states.
    job_states: (Vec<Uuid>, Vec<&'static str>),
    ends: Option<usize>,
    agains: Option<usize>,
    wake: Option<usize>,
}

impl<'a> Ending<'a> {
    /// Ends runs, and locks those that go on. This comes before the gate: it takes long, and needs
    /// to see no work of other transactions. Runs are locked by id, before the lock of waits and
    /// the gate.
    pub fn before_gate(
        pipeline: &mut Pipeline<'a>,
        holder: Option<NodeId>,
        holdings: &Holdings,
        done: Vec<&'a Finish>,
    ) -> Self {
        let mut ends = Ends::default();
        // Always in the same order, so that two of these cannot wait for each other.
        let mut ordered = done.clone();
        ordered.sort_unstable_by_key(|finish| finish.grant.run);
        if ordered.iter().any(|finish| !matches!(finish.verdict, Verdict::End { .. })) {
            let runs: Vec<Uuid> = ordered.iter().map(|finish| finish.grant.run.0).collect();
            pipeline.push(sql!("run_lock"), values![runs]);
        }
        let has_effect = |finish: &&&Finish| {
            let is_done =
                matches!(finish.verdict, Verdict::End { outcome: Outcome::Completed, .. });
            finish.has_effect && !is_done
        };
        settle_effects(pipeline, ordered.iter().filter(has_effect).copied());
        let mut job_states = (Vec::new(), Vec::new());
        let mut alerts = EndAlerts::default();
        for finish in ordered {
            match &finish.verdict {
                Verdict::End { outcome, reason, dead_letter } => {
                    ends.push(finish, *outcome, reason.as_ref(), *dead_letter, false);
                    alerts.push(finish.grant.run, *outcome, reason.as_ref(), *dead_letter);
                }
                Verdict::Retry { .. } | Verdict::Hold { .. } => {
                    ends.push(finish, Outcome::Cancelled, None, false, true);
                }
                Verdict::Wait(..) | Verdict::Line { .. } | Verdict::Release => continue,
            }
            if let Some(state) = finish.job_state {
                job_states.0.push(finish.grant.run.0);
                job_states.1.push(state_name(state));
            }
        }
        let ends =
            (!ends.grants.run.is_empty()).then(|| ends.into_step(pipeline, holder, holdings));
        alerts.into_step(pipeline);
        Ending { done, job_states, ends, agains: None, wake: None }
    }

    /// Lets runs go on, gives jobs the states that follow from ends, and wakes the runs that waited
    /// for one of the runs, behind the locks that this needs. The gate allocates so many fences,
    /// and the caller claims so many runs with the same call. The second column of the returned
    /// step is the time.
    pub fn pass_gate(
        &mut self,
        pipeline: &mut Pipeline<'a>,
        holder: Option<NodeId>,
        holdings: &Holdings,
        fences: i64,
        taken_at_once: u32,
    ) -> usize {
        let mut agains = Agains::default();
        let mut freed = Freed::default();
        let mut waits = false;
        for finish in &self.done {
            let known = holdings.job(finish.grant.fence);
            match &finish.verdict {
                // Only the parent run waits for a child run.
                Verdict::End { .. } if finish.grant.run.is_part() => {}
                Verdict::End { .. } => {
                    freed.push(finish.grant.run, known);
                    freed.follow(known, finish.followers.min(taken_at_once));
                }
                Verdict::Retry { delay } => {
                    agains.push(finish, Some(span_us(*delay)), None);
                    // It has ended only if its cancellation was requested.
                    if !finish.grant.run.is_part() {
                        freed.push(finish.grant.run, None);
                    }
                }
                Verdict::Hold { timeout } => {
                    waits = true;
                    let timeout = span_us(*timeout);
                    agains.push(finish, None, Some((Wait::Decision, Some(timeout))));
                    if !finish.grant.run.is_part() {
                        freed.push(finish.grant.run, None);
                    }
                }
                Verdict::Wait(wait, until) => {
                    waits = true;
                    agains.push(finish, None, Some((*wait, until.map(us))));
                    if matches!(wait, Wait::Upstream | Wait::Overlap) {
                        freed.push_aside(finish.grant.run, 1);
                    }
                }
                Verdict::Line { wait, places } => {
                    waits = true;
                    agains.push(finish, None, Some((*wait, None)));
                    freed.push_aside(finish.grant.run, *places);
                }
                Verdict::Release => agains.push(finish, None, None),
            }
        }
        let goes_on = !agains.grants.run.is_empty();
        let lock = if waits { sql!("waits_alone") } else { sql!("waits_share") };
        let mut clock = pipeline.push(lock, values![]);
        if fences > 0 || goes_on || !freed.unknown.is_empty() {
            clock = pipeline.push(sql!("gate"), values![fences]);
        } else if !freed.jobs.is_empty() {
            let jobs: Vec<Uuid> = freed.jobs.keys().map(|job| job.0).collect();
            pipeline.push(sql!("gate_of_ends"), values![jobs]);
        }
        if goes_on {
            self.agains = Some(agains.into_step(pipeline, holder, holdings));
        }
        let (runs, states) = std::mem::take(&mut self.job_states);
        if !runs.is_empty() {
            pipeline.push(sql!("finish_job"), values![runs, states, SYSTEM]);
        }
        self.wake = freed.into_step(pipeline, fences);
        keep_outputs(&self.done, pipeline);
        clock
    }

    /// Result of each finish, as far as the transaction shows it. `None`: the claim was not valid.
    pub fn applied(&self, answers: &[Vec<Row>]) -> Result<Vec<Option<Applied>>> {
        let mut found: HashMap<i64, Applied> = HashMap::with_capacity(self.done.len());
        for row in self.ends.into_iter().flat_map(|step| &answers[step]) {
            let fences: Vec<i64> = row.try_get::<_, Option<_>>(0)?.unwrap_or_default();
            let outcomes: Vec<i16> = row.try_get::<_, Option<_>>(1)?.unwrap_or_default();
            for (fence, ended) in fences.into_iter().zip(outcomes) {
                found.insert(fence, Applied::Ended(outcome(ended)?));
            }
        }
        for row in self.agains.into_iter().flat_map(|step| &answers[step]) {
            found.insert(row.try_get(0)?, Applied::Again);
        }
        Ok(self.done.iter().map(|finish| found.get(&finish.grant.fence).copied()).collect())
    }

    /// Whether runs go on that may be claimable now.
    pub fn goes_on(&self, answers: &[Vec<Row>]) -> bool {
        self.agains.is_some_and(|step| !answers[step].is_empty())
    }

    /// Whether an end made runs claimable that the transaction did not claim, or jobs due.
    pub fn left_work(&self, answers: &[Vec<Row>], claimed: &[ClaimedRun]) -> Result<bool> {
        let Some(row) = self.wake.and_then(|step| answers[step].first()) else {
            return Ok(false);
        };
        let mut woken: HashSet<Uuid> = row.try_get::<_, Vec<Uuid>>(0)?.into_iter().collect();
        if !woken.is_empty() {
            for claimed in claimed {
                woken.remove(&claimed.run.id.0);
            }
        }
        Ok(!woken.is_empty() || row.try_get(1)?)
    }
}

/// Completes the runs whose work was committed together with its record. Their finishes find
/// nothing after this, and are known by their marks.
fn settle_effects<'a>(pipeline: &mut Pipeline<'a>, done: impl Iterator<Item = &'a Finish>) {
    let (mut runs, mut turns, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut nodes, mut starts) = (Vec::new(), Vec::new());
    for finish in done {
        runs.push(finish.grant.run.0);
        turns.push(signed(finish.grant.turn));
        marks.push(finish.mark());
        nodes.push(finish.attempt.as_ref().map(|attempt| attempt.node.0));
        starts.push(finish.attempt.as_ref().map(|attempt| us(attempt.started_at)));
    }
    if !runs.is_empty() {
        // The lock is waited for before the next statement looks at effects.
        pipeline.push(sql!("run_lock"), values![runs.clone()]);
        pipeline.push(sql!("effect_settle"), values![runs, turns, marks, nodes, starts]);
    }
}

/// Keeps the short outputs of attempts that were recorded.
fn keep_outputs<'a>(done: &[&'a Finish], pipeline: &mut Pipeline<'a>) {
    let (mut runs, mut fences) = (Vec::new(), Vec::new());
    let (mut numbers, mut frames) = (Vec::new(), Vec::new());
    for finish in done {
        let Some(attempt) = &finish.attempt else { continue };
        let Some(output) = &attempt.result.output else { continue };
        runs.push(finish.grant.run.0);
        fences.push(finish.mark());
        numbers.push(signed(attempt.number));
        frames.push(output.as_slice());
    }
    if !runs.is_empty() {
        pipeline.push(sql!("output_insert"), values![runs, fences, numbers, frames]);
    }
}

/// Claims by column.
#[derive(Default)]
struct Grants {
    run: Vec<Uuid>,
    fence: Vec<i64>,
    turn: Vec<i32>,
}

impl Grants {
    fn push(&mut self, grant: Grant) {
        self.run.push(grant.run.0);
        self.fence.push(grant.fence);
        self.turn.push(signed(grant.turn));
    }

    /// The claims of all of them, if they are known.
    fn claims(&self, holdings: &Holdings) -> Option<Vec<i64>> {
        let grants = self.run.iter().zip(&self.fence).map(|(run, fence)| (RunId(*run), *fence));
        holdings.claims(grants)
    }
}

/// Attempts by column; empty where none was made.
#[derive(Default)]
struct Attempts<'a> {
    number: Vec<Option<i32>>,
    end: Vec<Option<i16>>,
    node: Vec<Option<Uuid>>,
    started_at: Vec<Option<i64>>,
    finished_at: Vec<Option<i64>>,
    message: Vec<Option<Cow<'a, str>>>,
    error: Vec<Option<String>>,
    details: Vec<Option<Cow<'a, str>>>,
    mark: Vec<Option<i64>>,
    version: Vec<Option<i32>>,
}

impl<'a> Attempts<'a> {
    fn push(&mut self, attempt: Option<&'a EndedAttempt>) {
        let result = attempt.map(|attempt| &attempt.result);
        self.number.push(attempt.map(|attempt| signed(attempt.number)));
        self.end.push(result.map(|result| i16::from(result.end as u8)));
        self.node.push(attempt.map(|attempt| attempt.node.0));
        self.started_at.push(attempt.map(|attempt| us(attempt.started_at)));
        self.finished_at.push(attempt.map(|attempt| us(attempt.finished_at)));
        let message = result.map(|result| result.message.as_str());
        self.message.push(message.filter(|message| !message.is_empty()).map(text));
        let error = result.and_then(|result| result.error.as_ref());
        self.error.push(error.map(|error| text(&error.to_string()).into_owned()));
        self.details.push(result.and_then(|result| result.details.as_deref()).map(text));
        self.mark.push(attempt.and_then(|attempt| attempt.fence));
        self.version.push(attempt.and_then(|attempt| attempt.job_version).map(signed));
    }

    /// The same without columns of default values. An attempt was made by the holder, if no other
    /// node is named.
    fn sparse(mut self, holder: Option<NodeId>) -> Self {
        let others = |node: &Option<Uuid>| node.is_some() && *node != holder.map(|node| node.0);
        self.node = sparse(self.node, others);
        self.message = sparse(self.message, Option::is_some);
        self.error = sparse(self.error, Option::is_some);
        self.details = sparse(self.details, Option::is_some);
        self.mark = sparse(self.mark, Option::is_some);
        self.version = sparse(self.version, Option::is_some);
        self
    }
}

/// Ends of runs by column.
#[derive(Default)]
struct Ends<'a> {
    grants: Grants,
    attempts: Attempts<'a>,
    if_cancelled: Vec<bool>,
    outcome: Vec<i16>,
    reason: Vec<Option<&'static str>>,
    reason_text: Vec<Option<Cow<'a, str>>>,
    dead_letter: Vec<bool>,
    result: Vec<Option<Cow<'a, str>>>,
    rows_affected: Vec<Option<i64>>,
}

impl<'a> Ends<'a> {
    fn push(
        &mut self,
        finish: &'a Finish,
        outcome: Outcome,
        reason: Option<&'a Reason>,
        dead_letter: bool,
        if_cancelled: bool,
    ) {
        let result = finish.attempt.as_ref().map(|attempt| &attempt.result);
        self.grants.push(finish.grant);
        self.attempts.push(finish.attempt.as_ref());
        self.if_cancelled.push(if_cancelled);
        self.outcome.push(i16::from(outcome as u8));
        self.reason.push(reason.map(|reason| reason.code.name()));
        self.reason_text.push(reason.map(|reason| text(&reason.text)));
        self.dead_letter.push(dead_letter);
        self.result.push(result.and_then(|result| result.result.as_deref()).map(text));
        let rows = result.and_then(|result| result.rows_affected);
        self.rows_affected.push(rows.map(u64::cast_signed));
    }

    fn into_step(
        self,
        pipeline: &mut Pipeline<'a>,
        holder: Option<NodeId>,
        holdings: &Holdings,
    ) -> usize {
        let claims = self.grants.claims(holdings);
        let Ends { grants, attempts, .. } = self;
        let attempts = attempts.sparse(holder);
        pipeline.push(
            sql!("finish_end"),
            values![
                holder.map(|holder| holder.0),
                grants.run,
                grants.fence,
                uniform(grants.turn),
                sparse(self.if_cancelled, |value| *value),
                uniform(self.outcome),
                sparse(self.reason, Option::is_some),
                sparse(self.reason_text, Option::is_some),
                sparse(self.dead_letter, |value| *value),
                uniform(attempts.number),
                uniform(attempts.end),
                attempts.node,
                attempts.started_at,
                attempts.finished_at,
                attempts.message,
                attempts.error,
                sparse(self.result, Option::is_some),
                sparse(self.rows_affected, Option::is_some),
                claims,
                attempts.details,
                attempts.mark,
                attempts.version,
            ],
        )
    }
}

/// Runs that go on, by column.
#[derive(Default)]
struct Agains<'a> {
    grants: Grants,
    attempts: Attempts<'a>,
    delay: Vec<Option<i64>>,
    wait: Vec<i16>,
    wait_until: Vec<Option<i64>>,
}

impl<'a> Agains<'a> {
    fn push(&mut self, finish: &'a Finish, delay: Option<i64>, wait: Option<(Wait, Option<i64>)>) {
        self.grants.push(finish.grant);
        self.attempts.push(finish.attempt.as_ref());
        self.delay.push(delay);
        self.wait.push(wait.map_or(0, |(wait, _)| i16::from(wait as u8)));
        self.wait_until.push(wait.and_then(|(_, until)| until));
    }

    fn into_step(
        self,
        pipeline: &mut Pipeline<'a>,
        holder: Option<NodeId>,
        holdings: &Holdings,
    ) -> usize {
        let claims = self.grants.claims(holdings);
        let Agains { grants, attempts, .. } = self;
        let attempts = attempts.sparse(holder);
        pipeline.push(
            sql!("finish_again"),
            values![
                holder.map(|holder| holder.0),
                grants.run,
                grants.fence,
                grants.turn,
                self.delay,
                self.wait,
                self.wait_until,
                attempts.number,
                attempts.end,
                attempts.node,
                attempts.started_at,
                attempts.finished_at,
                attempts.message,
                attempts.error,
                claims,
                attempts.details,
                attempts.mark,
            ],
        )
    }
}

/// Number of waiting runs that may begin after an end.
#[derive(Default)]
struct Room {
    places: u32,
    /// How many in line the node begins one after the other.
    followers: u32,
}

impl Room {
    /// How many in line go on.
    fn count(&self) -> i32 {
        signed(self.places.max(self.followers))
    }
}

/// Runs whose ends may wake others.
#[derive(Default)]
pub(super) struct Freed {
    jobs: BTreeMap<JobId, Room>,
    runs: Vec<Uuid>,
    unknown: Vec<Uuid>,
    aside: Vec<Uuid>,
    /// How many runs of the job of each of them may be under way at a time.
    places: Vec<i64>,
}

impl Freed {
    /// A run that may have ended, and its job if that is known.
    pub fn push(&mut self, run: RunId, job: Option<JobId>) {
        self.runs.push(run.0);
        match job {
            Some(job) => self.jobs.entry(job).or_default().places += 1,
            None => self.unknown.push(run.0),
        }
    }

    /// The node begins so many in line one after the other by itself.
    fn follow(&mut self, job: Option<JobId>, followers: u32) {
        if let Some(room) = job.and_then(|job| self.jobs.get_mut(&job)) {
            room.followers = room.followers.max(followers);
        }
    }

    /// A run that may wait for other jobs or in line now, of a job that lets so many run at a time.
    pub fn push_aside(&mut self, run: RunId, places: u32) {
        self.aside.push(run.0);
        self.places.push(i64::from(places));
    }

    /// Wakes the runs that waited for them. `fences` is the number that the gate has just
    /// allocated.
    pub fn into_step(self, pipeline: &mut Pipeline<'_>, fences: i64) -> Option<usize> {
        if self.runs.is_empty() && self.aside.is_empty() {
            return None;
        }
        let (jobs, counts): (Vec<Uuid>, Vec<i32>) =
            self.jobs.into_iter().map(|(job, room)| (job.0, room.count())).unzip();
        let (first, last) = ends_of(&self.runs);
        let Freed { runs, unknown, aside, places, .. } = self;
        let values = values![jobs, counts, runs, unknown, aside, fences, first, last, places];
        Some(pipeline.push(sql!("wake"), values))
    }
}
