//! DAG runs and their steps.
//!
//! ```text
//!   a DAG run starts ──▶ its first steps are recorded, with their runs ──▶ it waits (Wait::Parts)
//!                                                                             │
//!        a step's run ends ──▶ decided on its node ──▶ advance: ends, skips, new runs
//!                                                                             │
//!                              no step is left: the DAG run is woken ◀────────┘
//! ```
//!
//! A DAG run has a revision, which grows with every [`Dags::advance`]. A decision names the revision
//! that it is based on; if another one was written meanwhile, nothing is written and the caller
//! decides again. So the runs of steps that a decision releases exist exactly if the decision counts.

use std::future::Future;

use domain::dag::state::{Control, StepKey, StepRecord};
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{ClaimedRun, Grant, NewRun, Outcome};
use jiff::Timestamp;

use crate::{ClaimFor, Page, Result, Store};

/// A store that keeps DAG runs.
pub trait Dags: Store {
    /// Records the beginning of a DAG run that a node holds. Answers false, and writes nothing, if
    /// the node does not hold it any more, its end was requested, or it has begun.
    fn begin_dag(
        &self,
        node: NodeId,
        grant: Grant,
        run: &DagRun,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Records a DAG run that repeats another one, with the steps that it adopts. It waits from the
    /// beginning, until its first look. Answers false if its id is known.
    fn repeat_dag(
        &self,
        new: &NewRun,
        run: &DagRun,
        adopted: &[StepRecord],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Records decisions, each of which is based on a revision of its DAG run, and hands up to
    /// `claim` of the new runs to the node. Each counts on its own: one whose revision is not the
    /// present one writes nothing.
    fn advance(
        &self,
        batch: &[Advance],
        claim: Option<ClaimFor>,
    ) -> impl Future<Output = Result<Advanced>> + Send;

    /// DAG runs by id, with everything that is recorded of their steps if asked for.
    fn dag_runs(
        &self,
        runs: &[RunId],
        with_steps: bool,
    ) -> impl Future<Output = Result<Vec<(DagRun, Vec<StepRecord>)>>> + Send;

    /// What is recorded of the steps of a DAG run, in the order of their keys, after the given one.
    fn dag_steps(
        &self,
        run: RunId,
        after: Option<StepKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<StepRecord, StepKey>>> + Send;

    /// Steps that are recorded as open although their runs have ended, at most so many.
    fn unrecorded_ends(
        &self,
        run: RunId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StepEnd>>> + Send;

    /// The steps that runs execute: the DAG run and the step of each, if it is one.
    fn steps_of_runs(
        &self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<Vec<(RunId, RunId, StepKey)>>> + Send;

    /// The results of ended runs, as JSON; none of those that have none.
    fn results(
        &self,
        runs: &[RunId],
    ) -> impl Future<Output = Result<Vec<(RunId, Option<String>)>>> + Send;

    /// Makes DAG runs claimable that wait for their steps.
    fn wake_dags(&self, runs: &[RunId]) -> impl Future<Output = Result<u64>> + Send;

    /// Forgets steps of DAG runs that are gone, looking at no more than so many; answers how many.
    fn prune_dags(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// A DAG run as it is kept beside its run.
#[derive(Clone, Debug, PartialEq)]
pub struct DagRun {
    /// Its run.
    pub run: RunId,
    /// The DAG.
    pub job: JobId,
    /// The tenant of the DAG.
    pub tenant: TenantId,
    /// The version of the DAG that it follows.
    pub version: u32,
    /// The number of decisions so far.
    pub revision: i64,
    /// What it does apart from its steps.
    pub control: Control,
    /// The run that it repeats.
    pub rerun_of: Option<RunId>,
    /// Steps that run although their rule would skip them.
    pub forced: Vec<u32>,
    /// The scheduled time.
    pub scheduled_for: Timestamp,
    /// The parameters, as a JSON object.
    pub parameters: Option<String>,
}

/// The end of a step's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEnd {
    /// The step.
    pub key: StepKey,
    /// Its run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
}

/// A decision about a DAG run.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// The DAG run.
    pub run: RunId,
    /// The revision that it is based on.
    pub revision: i64,
    /// What the run does apart from its steps.
    pub control: Control,
    /// New records: skipped, expanded and released steps.
    pub recorded: Vec<StepRecord>,
    /// Records that get an outcome: of steps that were open.
    pub ended: Vec<StepRecord>,
    /// The runs of the released steps.
    pub runs: Vec<NewRun>,
    /// Whether no step is left: the DAG run can be claimed.
    pub wakes: bool,
}

/// What became of decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advanced {
    /// For each whether it was written.
    pub written: Vec<bool>,
    /// New runs that the node holds.
    pub claimed: Vec<ClaimedRun>,
}
