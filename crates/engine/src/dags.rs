//! Requests and responses about DAG runs, for interfaces.

use std::ops::Range;
use std::sync::Arc;

use domain::dag::path::PathStep;
use domain::dag::rerun::Rerun;
use domain::dag::state::{Control, StepCounts, StepKey, StepState};
use domain::dag::{Graph, JsonMap, Tally, TriggerRule};
use domain::id::RunId;
use domain::job::Job;
use domain::run::{NewRun, Outcome, Reason, RunState};
use jiff::{SignedDuration, Timestamp};
use store::RunView;

/// A version of a DAG, compiled.
#[derive(Debug)]
pub struct CompiledDag {
    /// The DAG's job as it was in this version.
    pub job: Job,
    /// Its graph.
    pub graph: Graph,
    /// Whether a step waits for a message.
    pub waits_for_messages: bool,
}

/// A DAG run.
#[derive(Clone, Debug)]
pub struct DagRunView {
    /// Its run: id, state, times, outcome and reason.
    pub run: RunView,
    /// The version of the DAG that it follows.
    pub dag: Arc<CompiledDag>,
    /// State of the run apart from its steps.
    pub control: Control,
    /// The run that it repeats.
    pub rerun_of: Option<RunId>,
    /// Its steps by their states; a fan-out counts as one.
    pub counts: StepCounts,
    /// The steps that it could not have ended without, in the order of time.
    pub critical_path: Vec<PathStep>,
    /// When it is expected to end, by the durations of earlier runs; none if there is none.
    pub expected_end: Option<Timestamp>,
}

/// A step of a DAG run, or one item of it.
#[derive(Clone, Debug)]
pub struct StepView {
    /// The step.
    pub key: StepKey,
    /// Its name.
    pub name: String,
    /// Kind of work, see [`domain::dag::StepWork::kind`].
    pub kind: &'static str,
    /// Its state. PENDING steps have no record and no run.
    pub state: StepState,
    /// Why it was skipped, failed without a run, or was marked.
    pub reason: Option<Reason>,
    /// The number of its items, if it was expanded.
    pub items: Option<u32>,
    /// Its run, live or ended: attempts, times, message, error, result, parameters.
    pub run: Option<RunView>,
    /// The step whose end decided it.
    pub decided_by: Option<StepKey>,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether it was adopted from the run that this one repeats.
    pub is_adopted: bool,
}

/// All steps of a DAG run.
#[derive(Clone, Debug)]
pub struct DagColumns {
    /// The version that the run follows.
    pub dag: Arc<CompiledDag>,
    /// Its steps by number.
    pub steps: Vec<StepColumn>,
    /// The items of steps by their outcomes; open ones have none.
    pub item_counts: Vec<(u32, Option<Outcome>, u32)>,
}

/// A step among all steps of a DAG run.
#[derive(Clone, Debug)]
pub struct StepColumn {
    /// Its state.
    pub state: StepState,
    /// The state of its run, if that has not ended and was looked up.
    pub run: Option<RunState>,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Attempts that have begun.
    pub attempts: u32,
    /// The number of its items, if it was expanded.
    pub items: Option<u32>,
    /// Whether it was adopted from the run that this one repeats.
    pub is_adopted: bool,
}

impl Default for StepColumn {
    fn default() -> Self {
        StepColumn {
            state: StepState::Pending,
            run: None,
            decided_at: None,
            started_at: None,
            ended_at: None,
            attempts: 0,
            items: None,
            is_adopted: false,
        }
    }
}

/// The states of steps in several runs of a DAG.
#[derive(Clone, Debug)]
pub struct DagGrid {
    /// The present version of the DAG.
    pub dag: Arc<CompiledDag>,
    /// The numbers of the steps in it.
    pub steps: Range<u32>,
    /// The runs, newest first.
    pub runs: Vec<GridRun>,
}

/// A run of a grid.
#[derive(Clone, Debug)]
pub struct GridRun {
    /// The run.
    pub run: RunView,
    /// The version that it follows.
    pub version: u32,
    /// The state of each step; none where its version has no such step or it came to nothing.
    pub states: Vec<Option<StepState>>,
}

/// A re-run, or its preview.
#[derive(Clone, Debug)]
pub struct RerunReport {
    /// The new DAG run; none if this was a dry run.
    pub run: Option<NewRun>,
    /// The requested re-run.
    pub rerun: Rerun,
    /// Names of steps that execute again.
    pub again: Vec<String>,
    /// Names of steps that are adopted, with their outcomes.
    pub adopted: Vec<(String, Outcome)>,
    /// Names of steps that the followed version does not have.
    pub removed: Vec<String>,
}

/// How a user marks a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepMark {
    /// It counts as completed.
    Succeeded,
    /// It counts as skipped.
    Skipped,
}

/// Why a step ran, waits or did not run.
#[derive(Clone, Debug)]
pub struct StepExplanation {
    /// The step at the requested time.
    pub step: StepView,
    /// Its trigger rule.
    pub rule: TriggerRule,
    /// The outcomes of its parents.
    pub tally: Tally,
    /// Its parents with their states.
    pub parents: Vec<(String, StepState)>,
    /// Its condition.
    pub when: Option<String>,
    /// The hash of its inputs, and the resolved templates.
    pub inputs: Option<(String, JsonMap)>,
    /// One sentence for each fact, most important first.
    pub lines: Vec<String>,
}

/// Result of replaying the recorded ends of a DAG run.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// Decisions that were made again and are the same.
    pub reproduced: usize,
    /// Decisions that differ: the step, the recorded decision, the replayed one.
    pub differences: Vec<(String, String, String)>,
    /// With assumed outcomes: what each step that was not decided would come to.
    pub predicted: Vec<(String, Outcome)>,
    /// How long the run takes by the durations of its steps, with the given number of slots.
    pub duration: Option<SignedDuration>,
}

/// Inconsistencies of recorded DAG runs.
#[derive(Clone, Debug, Default)]
pub struct DagVerification {
    /// DAG runs that were looked at.
    pub runs: usize,
    /// Their steps.
    pub steps: usize,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

/// The first difference between two runs of a DAG.
#[derive(Clone, Debug)]
pub struct DagRunDiff {
    /// Steps whose definition, inputs or outcome differ, in the order of the graph of the first run;
    /// those that only the second run has come last.
    pub steps: Vec<StepDiff>,
}

/// A step that differs between two runs.
#[derive(Clone, Debug)]
pub struct StepDiff {
    /// The name of the step.
    pub name: String,
    /// The states in both runs; none if the DAG of a run does not have the step.
    pub states: (Option<StepState>, Option<StepState>),
    /// The hashes of the step's definition in both runs.
    pub definitions: (Option<String>, Option<String>),
    /// The hashes of the inputs in both runs.
    pub inputs: (Option<String>, Option<String>),
    /// How long it took in both runs.
    pub durations: (Option<SignedDuration>, Option<SignedDuration>),
}
