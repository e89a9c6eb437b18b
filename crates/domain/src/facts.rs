//! What a store knows and a decision asks for.

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Quorum;
use crate::id::RunId;
use crate::job::JobState;
use crate::run::{Origin, Outcome};

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
    /// Whether the job is planned.
    pub job_state: Option<JobState>,
    /// Runs of the same job that became due earlier and have not ended, oldest first.
    pub earlier: Vec<EarlierRun>,
    /// What the jobs that it depends on did last, in the order of the definition.
    pub upstream: Vec<UpstreamFact>,
    /// How far it is acknowledged, if that was asked.
    pub quorum: Option<Quorum>,
}

/// A run of the same job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRun {
    /// Which.
    pub id: RunId,
    /// Who asked for it.
    pub origin: Origin,
    /// Whether it waits for the end of other jobs, and so stands in nobody's way.
    pub waits_for_upstream: bool,
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
