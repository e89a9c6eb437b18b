//! Why a job did or did not run at a time, or what is to be expected of a time to come.

mod division;

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::{Class, Labels, Quorum};
use crate::decide::plan::{Horizon, plan, tick};
use crate::id::RunId;
use crate::job::{Definition, DependsOn, Job, JobState, Overlap};
use crate::run::{Origin, Outcome, Reason, RunState};
use crate::schedule::{Outage, Schedule, SkippedRange};

pub use division::{Division, PartFacts};

/// Late times of one job that are looked at, at most.
const TICKS_MAX: usize = 500;

/// A question about a job and a time, with what is known.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its schedule; none when no time makes it due.
    pub schedule: Option<&'a Schedule>,
    /// The time in question.
    pub at: Timestamp,
    /// The present.
    pub now: Timestamp,
    /// Times in which no scheduler was alive.
    pub outages: &'a [Outage],
    /// What the ledger has for that time of the schedule.
    pub record: Option<Record>,
    /// How many runs of the job have begun and not ended.
    pub active: usize,
    /// The jobs that it depends on, in the order of the definition.
    pub upstream: Vec<Upstream>,
    /// What the cluster has for it, if it asks for something.
    pub cluster: Option<Cluster>,
    /// The run of that time as far as its parts have come, or the last one before it.
    pub division: Option<Division>,
}

/// What a cluster has for a job that not every node may execute at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// What the leader offers; none while nobody leads.
    pub leader: Option<Vec<String>>,
    /// What each node that takes runs offers.
    pub agents: Vec<Vec<String>>,
    /// How far the run of the time in question is acknowledged.
    pub quorum: Quorum,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The run, or the row for times without one.
    pub id: RunId,
    /// What it is doing, or how it ended.
    pub state: RunState,
    /// The word of the reason.
    pub reason: Option<String>,
    /// The sentence of the reason.
    pub reason_text: Option<String>,
    /// The first time that it stands for.
    pub first: Timestamp,
    /// The last one.
    pub last: Timestamp,
    /// How many they are.
    pub count: u64,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// A job that is waited for, and what its runs came to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// How it must have ended.
    pub on: DependsOn,
    /// How it ended last, and when.
    pub last: Option<(Outcome, Timestamp)>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The time in question.
    pub at: Timestamp,
    /// What became of it, or will.
    pub verdict: Verdict,
    /// What stands between a time to come and its run.
    pub obstacles: Vec<Obstacle>,
    /// The time of the schedule before it.
    pub before: Option<Timestamp>,
    /// The time of the schedule after it.
    pub after: Option<Timestamp>,
    /// Local times between those two that do not happen, because clocks jump over them.
    pub skipped: Vec<SkippedRange>,
    /// The run of that time as far as its parts have come, or the last one before it.
    pub division: Option<Division>,
}

/// What became of a time, or will.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The ledger has it.
    Recorded(Record),
    /// It lies ahead, and a run will be due then.
    Planned {
        /// When the run may start: the time and the jitter.
        due_at: Timestamp,
    },
    /// It has passed, and nobody has planned it yet. This is what a plan makes of it now.
    Late(Late),
    /// It is not a time of the schedule.
    NotScheduled,
    /// The job has no schedule: it runs when somebody asks, or after other jobs.
    NoSchedule,
    /// The job is not planned while it is in this state.
    Off(JobState),
    /// The job did not exist yet.
    BeforeJob,
    /// The job was changed since. What was due before and has no record was not due then.
    BeforeChange,
    /// It was planned, and its record is gone: history is kept for a while only.
    Forgotten,
}

/// What a plan makes of a time that has passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Late {
    /// It is caught up.
    Runs,
    /// It ends without a run.
    Ends(Outcome, Reason),
}

/// What may keep a run from its start.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// The job is paused: what it misses follows its catch-up policy when it is resumed.
    Paused,
    /// Earlier runs are active now, as many as may be.
    Active(Overlap, usize),
    /// It depends on this job, which must end in time.
    DependsOn(Upstream),
    /// Nobody leads.
    NoLeader,
    /// No node that takes runs has these labels, or the leader has not.
    NoNode(Labels),
    /// Not enough schedulers have acknowledged it.
    Quorum(Quorum),
}

impl Verdict {
    /// The word at every door.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Recorded(_) => "RECORDED",
            Verdict::Planned { .. } => "PLANNED",
            Verdict::Late(_) => "LATE",
            Verdict::NotScheduled => "NOT_SCHEDULED",
            Verdict::NoSchedule => "NO_SCHEDULE",
            Verdict::Off(_) => "OFF",
            Verdict::BeforeJob => "BEFORE_JOB",
            Verdict::BeforeChange => "BEFORE_CHANGE",
            Verdict::Forgotten => "FORGOTTEN",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Recorded(record) => record.fmt(f),
            Verdict::Planned { due_at } => write!(f, "a run will be due at {due_at}"),
            Verdict::Late(Late::Runs) => f.write_str("it is late and will be caught up"),
            Verdict::Late(Late::Ends(outcome, reason)) => {
                write!(f, "it is late and will end as {outcome}: {}", reason.text)
            }
            Verdict::NotScheduled => f.write_str("it is not a time of the schedule"),
            Verdict::NoSchedule => f.write_str("the job has no schedule of its own"),
            Verdict::Off(state) => {
                let state = format!("{state:?}").to_lowercase();
                write!(f, "the job is {state}, so nothing is planned")
            }
            Verdict::BeforeJob => f.write_str("the job did not exist yet"),
            Verdict::BeforeChange => {
                f.write_str("the job was changed since; it was not due at that time")
            }
            Verdict::Forgotten => {
                f.write_str("it was planned, but its record is older than history is kept")
            }
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}", self.state)?;
        if let Some(text) = &self.reason_text {
            write!(f, ": {text}")?;
        }
        if self.count > 1 {
            write!(f, " (one row for {} times from {} to {})", self.count, self.first, self.last)?;
        }
        Ok(())
    }
}

/// Answers a question.
pub fn explain(question: Question<'_>) -> Explanation {
    let Question { schedule, at, .. } = question;
    let before = schedule.and_then(|schedule| schedule.prev(at));
    let after = schedule.and_then(|schedule| schedule.next(at));
    let since = before.unwrap_or(at);
    let skipped =
        schedule.map(|schedule| schedule.skipped(since, after.unwrap_or(at))).unwrap_or_default();
    let verdict = match (&question.record, schedule) {
        (Some(record), _) => Verdict::Recorded(record.clone()),
        (None, None) => Verdict::NoSchedule,
        (None, Some(schedule)) => unrecorded(&question, schedule),
    };
    let obstacles = match &verdict {
        Verdict::Planned { .. } | Verdict::Late(Late::Runs) => obstacles(&question),
        Verdict::Recorded(Record { state: RunState::Pending | RunState::Queued, .. }) => {
            obstacles(&question)
        }
        _ => Vec::new(),
    };
    let division = question.division;
    Explanation { at, verdict, obstacles, before, after, skipped, division }
}

/// What becomes of a time without a record.
fn unrecorded(question: &Question<'_>, schedule: &Schedule) -> Verdict {
    let Question { job, at, now, outages, .. } = *question;
    let just_before = at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    if schedule.next(just_before) != Some(at) {
        return Verdict::NotScheduled;
    }
    if at < job.created_at && !job.definition.when.is_one_time() {
        return Verdict::BeforeJob;
    }
    let next = match job.next_run {
        Some(next) if at >= next => next,
        _ if at < job.updated_at => return Verdict::BeforeChange,
        _ if at <= now => return Verdict::Forgotten,
        _ => return Verdict::Off(job.state),
    };
    if !matches!(job.state, JobState::Enabled | JobState::Paused) {
        return Verdict::Off(job.state);
    }
    if at > now {
        return Verdict::Planned { due_at: tick(job, at, Origin::Schedule, 0).due_at };
    }
    let horizon = Horizon { now, outages, until: now, ticks_max: TICKS_MAX };
    let late = plan(job, schedule, next, &horizon);
    let row = late.ledger.into_iter().find(|row| row.first <= at && at <= row.last);
    match row {
        Some(row) if !late.runs.iter().any(|run| run.scheduled_for == at) => {
            Verdict::Late(Late::Ends(row.outcome, row.reason))
        }
        _ => Verdict::Late(Late::Runs),
    }
}

fn obstacles(question: &Question<'_>) -> Vec<Obstacle> {
    let definition = &question.job.definition;
    let mut obstacles = Vec::new();
    if question.job.state == JobState::Paused {
        obstacles.push(Obstacle::Paused);
    }
    if definition.overlap != Overlap::Allow
        && question.active >= definition.most_running(1) as usize
    {
        obstacles.push(Obstacle::Active(definition.overlap, question.active));
    }
    obstacles.extend(question.upstream.iter().cloned().map(Obstacle::DependsOn));
    obstacles.extend(question.cluster.iter().filter_map(|cluster| placement(definition, cluster)));
    obstacles
}

/// What keeps a run from every node there is.
fn placement(definition: &Definition, cluster: &Cluster) -> Option<Obstacle> {
    let place = definition.place();
    if definition.class != Class::LocalSafe && cluster.leader.is_none() {
        return Some(Obstacle::NoLeader);
    }
    if !cluster.agents.iter().any(|offer| place.is_offered(offer)) {
        return Some(Obstacle::NoNode(definition.run_on.clone()));
    }
    let quorum = Some(cluster.quorum).filter(|_| definition.class == Class::QuorumRequired);
    quorum.filter(|quorum| !quorum.is_reached()).map(Obstacle::Quorum)
}

#[cfg(test)]
mod tests;
