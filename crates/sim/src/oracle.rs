//! The expected ledger: every nominal time of every job while it was enabled.
//!
//! The oracle follows the accepted definitions and nothing else. A job's life is cut into stretches
//! of one schedule. Every time that is due inside a stretch must be in the ledger exactly once;
//! creating, enabling or changing a job begins a new stretch and never runs the past; a pause
//! interrupts a stretch, and resuming heals it.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::JobId;
use domain::job::{Definition, Job, JobState, When};
use domain::schedule::{Schedule, Zones};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, Verdict};

use crate::event::SimEvent;

/// No node plans further ahead.
const LOOK_AHEAD_MAX: SignedDuration = SignedDuration::from_secs(130);

/// The expected state of all jobs.
pub struct Oracle {
    jobs: BTreeMap<JobId, Expected>,
    zones: Zones,
}

/// The expected state of one job.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The job as it was last defined.
    pub job: Job,
    /// Its stretches, oldest first.
    pub stretches: Vec<Stretch>,
    /// Every definition that it ever had, by version.
    pub definitions: BTreeMap<u32, Definition>,
    /// Every schedule that it ever had, by version.
    pub schedules: BTreeMap<u32, Option<Schedule>>,
    /// When it was changed.
    pub changes: Vec<Timestamp>,
}

/// A time in which one schedule counted.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub schedule: Schedule,
    /// It counts after this instant …
    pub after: Timestamp,
    /// … and up to this one; none while it goes on.
    pub until: Option<Timestamp>,
    /// Set while the job is paused.
    pub paused_at: Option<Timestamp>,
    /// Times from here to `after` may be in the ledger, too: the command was under way.
    pub maybe_from: Timestamp,
}

impl Oracle {
    /// An oracle that knows nothing yet.
    pub fn new() -> Self {
        Oracle { jobs: BTreeMap::new(), zones: Zones::bundled() }
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobId, &Expected)> {
        self.jobs.iter()
    }

    /// One job.
    pub fn job(&self, id: JobId) -> Option<&Expected> {
        self.jobs.get(&id)
    }

    /// The schedule of a definition.
    pub fn schedule(&self, definition: &Definition) -> Option<Schedule> {
        definition.schedule(&self.zones).ok().flatten()
    }

    /// Takes an event into account.
    pub fn see(&mut self, event: &SimEvent) {
        match event {
            SimEvent::Defined { at, job } => self.define(*at, job),
            SimEvent::Finished { finish, applied: Applied::Ended(_), .. }
                if matches!(finish.verdict, Verdict::End { .. }) =>
            {
                self.end_one_time(finish);
            }
            _ => {}
        }
    }

    /// A one-time job is over when the run of its time has ended: the time that it has now, not one
    /// that it had before a change.
    fn end_one_time(&mut self, finish: &store::Finish) {
        let Some(state) = finish.job_state else { return };
        for expected in self.jobs.values_mut() {
            let When::At { at } = expected.job.definition.when else { continue };
            let run = domain::id::RunId::of_tick(expected.job.id, at, "");
            if run == finish.grant.run && expected.job.state != JobState::Deleted {
                expected.job.state = state;
            }
        }
    }

    fn define(&mut self, at: Timestamp, job: &Job) {
        let schedule = self.schedule(&job.definition);
        let begin = |schedule: Schedule, created: bool| {
            // A one-time job of the past is late, not forgotten.
            let late = match &schedule {
                Schedule::At(time) if *time <= at => Some(before(*time)),
                _ => None,
            };
            Stretch {
                // A new schedule counts from the moment of creation, that moment included. A
                // changed one counts after the change, and the moments before belong to the old.
                after: if created { late.unwrap_or(before(job.created_at)) } else { at },
                maybe_from: late.unwrap_or(before(job.updated_at)),
                schedule,
                until: None,
                paused_at: None,
            }
        };
        let Some(expected) = self.jobs.get_mut(&job.id) else {
            let planned = job.state == JobState::Enabled;
            let schedules = BTreeMap::from([(job.version, schedule.clone())]);
            let stretches = schedule.filter(|_| planned).map(|it| begin(it, true));
            let expected = Expected {
                job: job.clone(),
                stretches: stretches.into_iter().collect(),
                definitions: BTreeMap::from([(job.version, job.definition.clone())]),
                schedules,
                changes: vec![at],
            };
            self.jobs.insert(job.id, expected);
            return;
        };
        let old = std::mem::replace(&mut expected.job, job.clone());
        expected.definitions.insert(job.version, job.definition.clone());
        expected.schedules.insert(job.version, schedule.clone());
        expected.changes.push(at);
        let held = |state| matches!(state, JobState::Enabled | JobState::Paused);
        let rescheduled = old.definition.when != job.definition.when;
        if rescheduled || !held(job.state) || !held(old.state) {
            for stretch in expected.stretches.iter_mut().filter(|it| it.until.is_none()) {
                stretch.until = Some(stretch.paused_at.unwrap_or(at));
            }
            if held(job.state) {
                expected.stretches.extend(schedule.map(|it| begin(it, false)));
            }
        }
        for stretch in expected.stretches.iter_mut().filter(|it| it.until.is_none()) {
            stretch.paused_at = match job.state {
                JobState::Paused => Some(stretch.paused_at.unwrap_or(at)),
                _ => None,
            };
        }
    }
}

impl Expected {
    /// The largest number of attempts that any of its definitions allows.
    pub fn max_attempts(&self) -> u32 {
        let of_steps = |definition: &Definition| {
            let steps = definition.dag.iter().flat_map(|dag| &dag.steps);
            steps.filter_map(|step| Some(step.retry.as_ref()?.max_attempts)).max()
        };
        let most = |it: &Definition| it.retry.max_attempts.max(of_steps(it).unwrap_or(0));
        self.definitions.values().map(most).max().unwrap_or(0)
    }

    /// The times that must be in the ledger, given the first one that is not planned yet. Each
    /// with the number of its schedule.
    pub fn due(
        &self,
        planned_before: Option<Timestamp>,
        now: Timestamp,
    ) -> BTreeSet<(Timestamp, usize)> {
        let mut due = BTreeSet::new();
        for stretch in &self.stretches {
            let until = match (stretch.until, stretch.paused_at) {
                (Some(until), _) | (None, Some(until)) => until,
                // Everything was planned, as far as nodes look ahead.
                (None, None) => planned_before.map_or(now + LOOK_AHEAD_MAX, before),
            };
            let of = self.number_of(&stretch.schedule);
            due.extend(stretch.times(stretch.after, until).into_iter().map(|at| (at, of)));
        }
        due
    }

    /// The times that may be in the ledger besides.
    pub fn maybe_due(&self, now: Timestamp) -> BTreeSet<(Timestamp, usize)> {
        let mut maybe = BTreeSet::new();
        for stretch in &self.stretches {
            let of = self.number_of(&stretch.schedule);
            let mut times = stretch.times(stretch.maybe_from, stretch.after);
            // Prepared runs that come before one that was cancelled outlive a pause.
            if let Some(paused_at) = stretch.paused_at {
                times.extend(stretch.times(paused_at, now.min(paused_at) + LOOK_AHEAD_MAX));
            }
            maybe.extend(times.into_iter().map(|at| (at, of)));
        }
        maybe
    }

    /// The number of the schedule that a version of the job had.
    pub fn schedule_of(&self, version: u32) -> Option<usize> {
        let schedule = self.schedules.get(&version)?.as_ref()?;
        Some(self.number_of(schedule))
    }

    /// Equal schedules have equal numbers.
    fn number_of(&self, schedule: &Schedule) -> usize {
        let same = |stretch: &Stretch| stretch.schedule == *schedule;
        self.stretches.iter().position(same).unwrap_or(usize::MAX)
    }
}

impl Stretch {
    /// The nominal times in `(after, until]`, one by one.
    pub fn times(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let all = std::iter::successors(self.schedule.next(after), |at| self.schedule.next(*at));
        all.take_while(|at| *at <= until).collect()
    }
}

/// The last instant before another one.
pub fn before(at: Timestamp) -> Timestamp {
    at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}
