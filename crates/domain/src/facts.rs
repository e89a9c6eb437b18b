//! Facts that a store provides for decisions.

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Quorum;
use crate::id::RunId;
use crate::job::JobState;
use crate::run::{Origin, Outcome, Wait};

pub use crate::schedule::Outage;

/// The facts about a run at its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartFacts {
    /// Whether the run still exists and the node still has its claim.
    pub held: bool,
    /// How far the scheduled time of a tick is away by the clock of the store; none if it has come.
    /// Until then a change of its job can remove the tick; afterwards it cannot.
    pub early_by: Option<SignedDuration>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// The state of the job; none if it does not exist.
    pub job_state: Option<JobState>,
    /// The current version of the job's definition.
    pub job_version: u32,
    /// The fencing token of this start: larger than that of every start decided before.
    pub token: i64,
    /// Runs of the same job that became due earlier and have not ended, oldest first; at most 64.
    pub earlier: Vec<EarlierRun>,
    /// Due runs of the same job that other nodes have claimed. They may have started. A run that
    /// was claimed after this one and comes after it in line is omitted: its holder sees this one.
    pub elsewhere: Vec<ActiveRun>,
    /// Those of `elsewhere` that come after this one in line and are not known to have started.
    /// Their holders see this run and have to decide first.
    pub undecided: Vec<RunId>,
    /// The last outcomes of the jobs that it depends on, in the order of the definition.
    pub upstream: Vec<UpstreamFact>,
    /// The acknowledgements of the run, if they were requested.
    pub quorum: Option<Quorum>,
}

impl StartFacts {
    /// The most runs that `earlier` lists.
    pub const EARLIER_MAX: usize = 64;

    /// Whether another live run of the job comes after this one in line.
    pub fn is_later(&self, run: RunId) -> bool {
        self.earlier.len() < Self::EARLIER_MAX && self.earlier.iter().all(|it| it.id != run)
    }
}

/// A run of the same job that comes before another one and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRun {
    /// Its identity.
    pub id: RunId,
    /// The origin of the run.
    pub origin: Origin,
    /// Its wait, other than for its time.
    pub wait: Option<Wait>,
    /// Whether it had an earlier attempt.
    pub was_tried: bool,
}

impl EarlierRun {
    /// Whether it has started and not ended: it waits for its next attempt or for its child runs.
    pub fn has_begun(&self) -> bool {
        match self.wait {
            // A run that waits for a place in a pool was admitted: its job is at work for it.
            // So was one that is HELD: it may be at work still.
            Some(Wait::Parts | Wait::Pool | Wait::Decision) => true,
            Some(Wait::Overlap | Wait::Upstream | Wait::Backfill | Wait::Pause) => false,
            Some(Wait::Quorum) | None => self.was_tried,
        }
    }

    /// Whether it waits in line for other runs of the job.
    pub fn is_in_line(&self) -> bool {
        self.wait == Some(Wait::Overlap)
    }
}

/// A run of the same job that has started, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveRun {
    /// Its identity.
    pub id: RunId,
    /// The origin of the run.
    pub origin: Origin,
}

/// The last end of an upstream job's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamFact {
    /// The job's name, for the reason.
    pub name: String,
    /// The outcome of the last run that ended, and when.
    pub last: Option<(Outcome, Timestamp)>,
    /// When a run last completed.
    pub last_success: Option<Timestamp>,
}
