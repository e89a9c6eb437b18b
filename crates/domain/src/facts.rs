//! What a store knows and a decision asks for.

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Quorum;
use crate::id::RunId;
use crate::job::JobState;
use crate::run::{Origin, Outcome, Wait};

pub use crate::schedule::Outage;

/// What the store knows about a run at the moment it should start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartFacts {
    /// Whether the run is still there and still this holder's.
    pub held: bool,
    /// How far the nominal time of a tick is away by the store's clock; none when it has come.
    /// Until then a change of its job can take it away; from then on nobody can.
    pub early_by: Option<SignedDuration>,
    /// Whether somebody asked for its end.
    pub cancel_requested: bool,
    /// Whether the job is planned; none when it does not exist.
    pub job_state: Option<JobState>,
    /// The version of the job's definition at this moment.
    pub job_version: u32,
    /// The fencing token of this start: larger than that of every start decided before.
    pub token: i64,
    /// Runs of the same job that became due earlier and have not ended, oldest first; at most 64.
    pub earlier: Vec<EarlierRun>,
    /// Runs of the same job that other nodes have claimed and whose time has come. They may have
    /// begun. A run that was claimed after this one and comes after it in line is left out: its
    /// holder sees this one.
    pub elsewhere: Vec<ActiveRun>,
    /// What the jobs that it depends on did last, in the order of the definition.
    pub upstream: Vec<UpstreamFact>,
    /// How far it is acknowledged, if that was asked.
    pub quorum: Option<Quorum>,
}

/// A run of the same job that comes before another one and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRun {
    /// Its identity.
    pub id: RunId,
    /// What asked for it.
    pub origin: Origin,
    /// What it waits for, other than its time.
    pub wait: Option<Wait>,
    /// Whether an attempt at it was made before.
    pub was_tried: bool,
}

impl EarlierRun {
    /// Whether it has begun and not ended: it is between two attempts, or waits for its own parts.
    pub fn has_begun(&self) -> bool {
        match self.wait {
            Some(Wait::Parts) => true,
            Some(Wait::Overlap | Wait::Upstream) => false,
            Some(Wait::Quorum) | None => self.was_tried,
        }
    }

    /// Whether it waits in line for other runs of the job.
    pub fn is_in_line(&self) -> bool {
        self.wait == Some(Wait::Overlap)
    }
}

/// A run of the same job that has begun, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveRun {
    /// Its identity.
    pub id: RunId,
    /// What asked for it.
    pub origin: Origin,
}

/// The last end of an upstream job's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamFact {
    /// The job's name, for the reason.
    pub name: String,
    /// The last run that ended, by when it ended.
    pub last: Option<(Outcome, Timestamp)>,
    /// When a run last ended well.
    pub last_success: Option<Timestamp>,
}
