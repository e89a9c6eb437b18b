//! Explains why a job ran, did not run or will run at a time.

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

/// The maximum number of late times of one job that are checked.
const TICKS_MAX: usize = 500;

/// A question about a job and a time, with the known facts.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its schedule; none if it has no scheduled times.
    pub schedule: Option<&'a Schedule>,
    /// The time to explain.
    pub at: Timestamp,
    /// The current time.
    pub now: Timestamp,
    /// Periods in which no scheduler was alive.
    pub outages: &'a [Outage],
    /// The ledger entry of the time.
    pub record: Option<Record>,
    /// The number of its runs that have started and not ended.
    pub active: usize,
    /// The jobs that it depends on, in the order of the definition.
    pub upstream: Vec<Upstream>,
    /// The state of the cluster, if the job has a class or a placement.
    pub cluster: Option<Cluster>,
    /// The parent run of that time and its child runs, or the last one before it.
    pub division: Option<Division>,
}

/// The nodes of a cluster that may execute a job with a class or a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The offers of the leader; none if there is no leader.
    pub leader: Option<Vec<String>>,
    /// The offers of each agent that claims runs.
    pub agents: Vec<Vec<String>>,
    /// The acknowledgements of the run.
    pub quorum: Quorum,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The id of the run, or of a row without a run.
    pub id: RunId,
    /// Its state or outcome.
    pub state: RunState,
    /// The reason code.
    pub reason: Option<String>,
    /// The text of the reason.
    pub reason_text: Option<String>,
    /// The first scheduled time of the row.
    pub first: Timestamp,
    /// The last scheduled time of the row.
    pub last: Timestamp,
    /// The number of scheduled times of the row.
    pub count: u64,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// A job that the job depends on, and its last outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The name of the job.
    pub name: String,
    /// The required outcome.
    pub on: DependsOn,
    /// Its last outcome, and when.
    pub last: Option<(Outcome, Timestamp)>,
}

/// The explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The explained time.
    pub at: Timestamp,
    /// The result for the time.
    pub verdict: Verdict,
    /// What may prevent a future run.
    pub obstacles: Vec<Obstacle>,
    /// The scheduled time before it.
    pub before: Option<Timestamp>,
    /// The scheduled time after it.
    pub after: Option<Timestamp>,
    /// Local times between those two that a clock change skips.
    pub skipped: Vec<SkippedRange>,
    /// The parent run of that time and its child runs, or the last one before it.
    pub division: Option<Division>,
}

/// The result for a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The ledger has an entry.
    Recorded(Record),
    /// It is in the future, and a run will be due then.
    Planned {
        /// When the run may start: the scheduled time and the jitter.
        due_at: Timestamp,
    },
    /// It has passed, and was not planned yet. This is what the planner would do now.
    Late(Late),
    /// It is not a scheduled time.
    NotScheduled,
    /// The job has no schedule: it runs on request, or after other jobs.
    NoSchedule,
    /// The job is not scheduled in this state.
    Off(JobState),
    /// The job did not exist yet.
    BeforeJob,
    /// The job was changed since then. Earlier times without an entry were not scheduled then.
    BeforeChange,
    /// It was planned, and its entry was deleted by retention.
    Forgotten,
}

/// What the planner does with a time that has passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Late {
    /// It is caught up.
    Runs,
    /// It ends without a run.
    Ends(Outcome, Reason),
}

/// What may prevent a run from starting.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// The job is paused: its catch-up policy applies when it is resumed.
    Paused,
    /// Too many earlier runs are active.
    Active(Overlap, usize),
    /// It depends on this job.
    DependsOn(Upstream),
    /// There is no leader.
    NoLeader,
    /// No agent that claims runs has these labels, or the leader has not.
    NoNode(Labels),
    /// Not enough schedulers have acknowledged the run.
    Quorum(Quorum),
}

impl Verdict {
    /// The name in every interface.
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

/// Explains a time.
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

/// The result for a time without an entry.
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

/// The placement obstacle, if no node may execute the run.
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
