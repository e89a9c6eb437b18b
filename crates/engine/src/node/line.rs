//! Runs of one job that wait for each other on the node that holds them.
//!
//! A run that has to wait for other runs of its job goes back to the store, which wakes it when one
//! of them has ended: two commits for each. Where runs are short, that is most of the time. So a
//! run that waits only for runs of this node, and not for long, waits here:
//!
//! ```text
//!   claimed and looked at together ──▶ A begins     B ─ waits     C ─ waits behind B
//!   A ends here                    ──▶              B begins      C ─ waits
//! ```
//!
//! B begins when A has ended, not when the store has recorded it: the start decision goes by begun
//! runs (docs/decisions/025-prepared-is-not-begun.md). If the node is lost in between, both are
//! lost with it, and no other node begins either before the lease has ended. The store gives
//! several runs in line to a node that reports the end of a short run (`domain::decide::line`).
//!
//! The look at a run that waits here decides for the moment at which those before it have ended, as
//! long as that is soon ([`LOOK_COUNTS`]) and neither the definition that the node knows nor the
//! order of fencing tokens says otherwise. A run that was decided with its claim, and waits because
//! its job has as many runs under way as it may have, is in the same line without a look.

use std::collections::{BTreeMap, HashMap};

use domain::decide::line::{LINE_MAX, LINE_SPAN, followers};
use domain::decide::start::StartFacts;
use domain::id::{JobId, NodeId, RunId};
use domain::job::{Job, Overlap};
use domain::run::{ClaimedRun, Grant};
use jiff::{SignedDuration, Timestamp};

use super::State;
use super::split::is_split;
use super::start::needs_record;

/// How long a run waits here before it is released to the store.
const WAIT_MAX: SignedDuration = SignedDuration::from_millis(50);

/// How long the look at a run that waits here counts.
const LOOK_COUNTS: SignedDuration = LINE_SPAN;

/// The most runs of a job that wait here: those of one claim while those of another run.
const WAITING_MAX: usize = 2 * LINE_MAX as usize;

/// After so many ends without a run that had to wait, a job has no line.
const ENDS_MAX: u32 = 2 * LINE_MAX;

/// Maximum number of jobs with a line.
const JOBS_MAX: usize = 4_096;

/// The lines of jobs on this node.
#[derive(Default)]
pub(super) struct Lines {
    jobs: HashMap<JobId, JobLine>,
    /// Whether an end has released a run since the last [`Lines::take_released`].
    has_released: bool,
}

/// The line of one job, as far as this node has seen runs wait for each other.
#[derive(Default)]
struct JobLine {
    /// How long the last run took that ended here; none while a run takes longer than expected.
    took: Option<SignedDuration>,
    /// By due time.
    waiting: BTreeMap<(Timestamp, RunId), Waiting>,
    /// Runs that ended here since one had to wait.
    ends: u32,
    /// The largest fencing token of a run of the job that began here.
    last_token: i64,
}

/// A run that waits here.
struct Waiting {
    grant: Grant,
    /// When its facts are read again at the latest; its key among prepared runs.
    until: Timestamp,
    /// Whether a run that it waited for has ended, so that it is about to be decided about.
    is_released: bool,
    /// Facts without the other runs of the job: none of them was on another node. None for a run
    /// that its claim decided about.
    facts: Option<StartFacts>,
    looked_at: Timestamp,
}

impl Lines {
    /// Facts about a run that waited here, if they are still valid.
    pub fn look(&self, run: &ClaimedRun, job: &Job, now: Timestamp) -> Option<StartFacts> {
        let line = self.jobs.get(&run.run.job)?;
        let waiting = line.waiting.get(&place(run)).filter(|it| it.grant == run.grant)?;
        let facts = waiting.facts.as_ref()?;
        let counts = waiting.is_released
            && now.duration_since(waiting.looked_at) <= LOOK_COUNTS
            && facts.job_version == job.version
            && facts.token > line.last_token;
        counts.then(|| facts.clone())
    }

    /// Whether a run waited here while another run of its job began with a later token, so that its
    /// own token is out of order.
    pub fn is_overtaken(&self, run: &ClaimedRun) -> bool {
        let line = self.jobs.get(&run.run.job);
        line.is_some_and(|line| {
            line.waiting.contains_key(&place(run)) && run.token <= line.last_token
        })
    }

    /// Whether the cancellation of a run was requested while it waited here.
    pub fn is_cancelled(&self, run: &ClaimedRun) -> bool {
        let line = self.jobs.get(&run.run.job);
        let waiting = line.and_then(|line| line.waiting.get(&place(run)));
        waiting.is_some_and(|waiting| waiting.looked_at == Timestamp::MIN)
    }

    /// The cancellation of a run was requested: if it waits here, its facts are read again before
    /// it begins.
    pub fn forget_look(&mut self, run: RunId) {
        let waiting = self.jobs.values_mut().flat_map(|line| line.waiting.values_mut());
        for waiting in waiting.filter(|waiting| waiting.grant.run == run) {
            waiting.looked_at = Timestamp::MIN;
        }
    }

    /// A run of a job begins, with this token.
    pub fn begin(&mut self, run: &ClaimedRun, token: i64) {
        if let Some(line) = self.jobs.get_mut(&run.run.job) {
            line.waiting.remove(&place(run));
            line.last_token = line.last_token.max(token);
        }
    }

    /// Whether an end has released a run, so that it may start now.
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    /// The line of a job. Where there are many, those in which no run waits are dropped.
    fn open(&mut self, job: JobId) -> &mut JobLine {
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
            self.jobs.retain(|_, line| !line.waiting.is_empty());
        }
        self.jobs.entry(job).or_default()
    }

    /// Nothing is held any more.
    pub fn clear(&mut self) {
        self.jobs.clear();
    }
}

impl State {
    /// The runs of the job that wait here and come before a run.
    pub(super) fn line_before(&self, run: &ClaimedRun) -> Vec<RunId> {
        let Some(line) = self.lines.jobs.get(&run.run.job) else { return Vec::new() };
        let before = line.waiting.range(..place(run)).map(|(_, waiting)| waiting.grant);
        before.filter(|grant| self.is_waiting(*grant)).map(|grant| grant.run).collect()
    }

    /// A run of a job has to wait for others of it, so each end may let another one begin.
    pub(super) fn note_line(&mut self, job: JobId) {
        self.lines.open(job).ends = 0;
    }

    /// Whether a run that has to wait for other runs of its job waits here for them. A run that was
    /// here before and was not released goes back to the store: those before it take too long.
    pub(super) fn waits_here(
        &mut self,
        run: &ClaimedRun,
        job: &Job,
        facts: Option<&StartFacts>,
        now: Timestamp,
    ) -> bool {
        let line = self.lines.open(run.run.job);
        line.ends = 0;
        if let Some(before) = line.waiting.get(&place(run)) {
            if !before.is_released {
                line.took = None;
            }
            if !before.is_released || before.until <= now {
                return false;
            }
        } else if line.waiting.len() >= WAITING_MAX {
            // Some may have gone back to the store since.
            let held = &self.held;
            line.waiting.retain(|_, waiting| held.contains_key(&waiting.grant.run));
            if line.waiting.len() >= WAITING_MAX {
                return false;
            }
        }
        let is_short = line.took.is_some_and(|took| followers(took) > 1);
        let is_all_here = facts.is_none_or(|facts| {
            facts.elsewhere.is_empty()
                && facts.earlier.iter().all(|it| !it.is_in_line() && !it.has_begun())
        });
        is_short && is_all_here && may_wait_here(run, job)
    }

    /// A run waits here, until one that it waits for has ended or the time is over. Returns false
    /// when it is not this node's any more.
    pub(super) fn wait_in_line(
        &mut self,
        node: NodeId,
        run: &ClaimedRun,
        facts: Option<&StartFacts>,
        now: Timestamp,
    ) -> bool {
        if !self.frees_slot(node, run) {
            return false;
        }
        let line = self.lines.jobs.entry(run.run.job).or_default();
        let before =
            line.waiting.get(&place(run)).map(|waiting| (waiting.until, waiting.looked_at));
        let until = now.saturating_add(WAIT_MAX).unwrap_or(Timestamp::MAX);
        // Facts that were counted before are not newer now.
        let token = |facts: &StartFacts| facts.token;
        let looked_with = facts.map(token);
        let same_look =
            before.filter(|_| line.waiting[&place(run)].facts.as_ref().map(token) == looked_with);
        let waiting = Waiting {
            grant: run.grant,
            until: before.map_or(until, |(until, _)| until),
            is_released: false,
            facts: facts.map(|facts| StartFacts { earlier: Vec::new(), ..facts.clone() }),
            looked_at: same_look.map_or(now, |(_, looked_at)| looked_at),
        };
        self.prepared.insert((waiting.until, run.grant.run));
        line.waiting.insert(place(run), waiting);
        true
    }

    /// A run that may have waited here is decided about, and does not begin: the next one goes on.
    pub(super) fn leave_line(&mut self, run: &ClaimedRun) {
        let line = self.lines.jobs.get_mut(&run.run.job);
        if line.is_some_and(|line| line.waiting.remove(&place(run)).is_some()) {
            self.release_next(run.run.job);
        }
    }

    /// The first run of a job that waits here is decided about again. Returns whether there is one.
    fn release_next(&mut self, job: JobId) -> bool {
        let Some(line) = self.lines.jobs.get_mut(&job) else { return false };
        for ((due_at, run), waiting) in line.waiting.iter_mut().filter(|(_, it)| !it.is_released) {
            if self.held.get(run).is_none_or(|held| held.run.grant != waiting.grant) {
                continue;
            }
            waiting.is_released = true;
            if self.prepared.remove(&(waiting.until, *run)) {
                self.prepared.insert((*due_at, *run));
            }
            return true;
        }
        false
    }

    /// A run has ended here: the next one that waited for it may begin. Where runs of a job wait
    /// for each other, the call that reports this end also claims the next ones. Returns how many
    /// of those in line it releases with it.
    pub(super) fn end_in_line(&mut self, run: &ClaimedRun, job: &Job, took: SignedDuration) -> u32 {
        if run.run.id.is_part() {
            return 1;
        }
        let Some(line) = self.lines.jobs.get_mut(&run.run.job) else { return 1 };
        line.ends += 1;
        if line.ends > ENDS_MAX && line.waiting.is_empty() {
            self.lines.jobs.remove(&run.run.job);
            return 1;
        }
        line.took = Some(took);
        let waiting = line.waiting.len() as u32;
        self.claim_wanted[run.run.slot] = true;
        self.lines.has_released |= self.release_next(run.run.job);
        if may_wait_here(run, job) { followers(took).saturating_sub(waiting).max(1) } else { 1 }
    }
}

/// Whether runs of a job may wait on a node for each other. Not those whose start is written to the
/// store, and not those for which more than the definition and the other runs matters.
fn may_wait_here(run: &ClaimedRun, job: &Job) -> bool {
    let definition = &job.definition;
    matches!(definition.overlap, Overlap::Skip | Overlap::Queue | Overlap::Allow)
        && !run.run.origin.is_tick()
        && !run.run.id.is_part()
        && !needs_record(run, job)
        && !is_split(run, job)
        && (run.run.ignore_dependencies || definition.depends_on.is_empty())
}

/// Its place in line on this node.
fn place(run: &ClaimedRun) -> (Timestamp, RunId) {
    (run.run.due_at, run.run.id)
}
