//! Statements about DAGs and their runs.

use domain::dag::rerun::Rerun;
use domain::dag::{ApprovalAnswer, ForEach, OnStepFailure, TriggerRule};
use domain::id::RunId;
use domain::schedule::CatchUpPolicy;
use jiff::SignedDuration;
use serde_json::Value;

use super::{BackfillJob, DropJob, ExecuteJob, IfPresent, Spanned};
use crate::clause::{ActionClause, Clauses};
use crate::literal::Literal;

/// A statement about a DAG or a run of one.
#[derive(Clone, Debug, PartialEq)]
pub enum DagStatement {
    /// CREATE DAG, CREATE OR ALTER DAG.
    Create(CreateDag),
    /// ALTER DAG.
    Alter(AlterDag),
    /// DROP DAG.
    Drop(DropJob),
    /// PAUSE DAG.
    Pause(Spanned<String>),
    /// RESUME DAG.
    Resume(Spanned<String>, Option<CatchUpPolicy>),
    /// EXECUTE DAG.
    Execute(ExecuteJob),
    /// BACKFILL DAG.
    Backfill(BackfillJob),
    /// CANCEL DAG RUN.
    CancelRun(Spanned<RunId>),
    /// RESUME DAG RUN.
    ResumeRun(Spanned<RunId>),
    /// RERUN DAG RUN.
    Rerun {
        /// The run to repeat.
        run: Spanned<RunId>,
        /// Steps to repeat.
        rerun: Rerun,
        /// Preview only.
        dry_run: bool,
    },
    /// MARK STEP.
    Mark {
        /// The step.
        step: StepOf,
        /// Whether it counts as skipped instead of completed.
        is_skipped: bool,
        /// Why, for the audit.
        note: String,
    },
    /// APPROVE STEP and REJECT STEP.
    Decide {
        /// The step.
        step: StepOf,
        /// The answer.
        answer: ApprovalAnswer,
        /// Why, for the audit.
        note: String,
    },
    /// EXPLAIN DAG RUN.
    ExplainRun {
        /// The run.
        run: Spanned<RunId>,
        /// The time in question; now if absent.
        at: Option<Spanned<String>>,
    },
    /// EXPLAIN STEP.
    ExplainStep {
        /// The step.
        step: StepOf,
        /// The time in question; now if absent.
        at: Option<Spanned<String>>,
    },
    /// SHOW CREATE DAG.
    ShowCreate {
        /// The name of the DAG.
        dag: Spanned<String>,
        /// The number of the version; the present one if absent.
        version: Option<Spanned<u32>>,
    },
    /// SHOW DAGS.
    Show {
        /// Only names that match this pattern: `%` is any text, `_` any character.
        like: Option<String>,
    },
}

impl DagStatement {
    pub(super) fn tag(&self) -> &'static str {
        match self {
            DagStatement::Create(_) => "CREATE DAG",
            DagStatement::Alter(_) => "ALTER DAG",
            DagStatement::Drop(_) => "DROP DAG",
            DagStatement::Pause(_) => "PAUSE DAG",
            DagStatement::Resume(..) => "RESUME DAG",
            DagStatement::Execute(_) => "EXECUTE DAG",
            DagStatement::Backfill(_) => "BACKFILL DAG",
            DagStatement::CancelRun(_) => "CANCEL DAG RUN",
            DagStatement::ResumeRun(_) => "RESUME DAG RUN",
            DagStatement::Rerun { .. } => "RERUN DAG RUN",
            DagStatement::Mark { .. } => "MARK STEP",
            DagStatement::Decide { answer: ApprovalAnswer::Approve, .. } => "APPROVE STEP",
            DagStatement::Decide { answer: ApprovalAnswer::Reject, .. } => "REJECT STEP",
            DagStatement::ExplainRun { .. } | DagStatement::ExplainStep { .. } => "EXPLAIN",
            DagStatement::ShowCreate { .. } | DagStatement::Show { .. } => "SHOW",
        }
    }

    pub(super) fn changes(&self) -> bool {
        match self {
            DagStatement::Backfill(backfill) => !backfill.dry_run,
            DagStatement::Rerun { dry_run, .. } => !dry_run,
            DagStatement::ExplainRun { .. }
            | DagStatement::ExplainStep { .. }
            | DagStatement::ShowCreate { .. }
            | DagStatement::Show { .. } => false,
            _ => true,
        }
    }
}

/// A step of a DAG run: `name[item] OF RUN 'id'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOf {
    /// The name of the step.
    pub step: Spanned<String>,
    /// The position of the item, from 0; the step as a whole if absent.
    pub item: Option<u32>,
    /// The run.
    pub run: Spanned<RunId>,
}

/// CREATE DAG.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDag {
    /// The name of the DAG.
    pub name: Spanned<String>,
    /// How to treat an existing DAG of that name.
    pub if_present: IfPresent,
    /// Its definition.
    pub clauses: DagClauses,
}

/// ALTER DAG.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDag {
    /// The name of the DAG.
    pub name: Spanned<String>,
    /// Whether a missing DAG is not an error.
    pub if_exists: bool,
    /// The new name.
    pub rename: Option<Spanned<String>>,
    /// The changes.
    pub clauses: DagClauses,
    /// Changes of single steps, in order.
    pub steps: Vec<StepChange>,
}

/// A change of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepChange {
    /// ADD STEP.
    Add(StepClause),
    /// ALTER STEP: another definition for a step that exists.
    Replace(StepClause),
    /// DROP STEP.
    Drop(Spanned<String>),
}

/// The clauses of a DAG.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DagClauses {
    /// Those that jobs have, too.
    pub job: Clauses,
    /// MAX_PARALLEL: maximum number of concurrent steps; none for NONE.
    pub max_parallel: Option<Option<u32>>,
    /// QUEUE: queue of steps that workers execute; none for NONE.
    pub queue: Option<Option<String>>,
    /// ON FAILURE = CONTINUE, STOP or HOLD.
    pub on_step_failure: Option<OnStepFailure>,
    /// ON FAILURE DO; none for NONE.
    pub on_failure: Option<Option<WorkClause>>,
    /// ON SUCCESS DO; none for NONE.
    pub on_success: Option<Option<WorkClause>>,
    /// AS (STEP …), all steps.
    pub steps: Option<Vec<StepClause>>,
}

/// STEP name and its clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct StepClause {
    /// The name of the step.
    pub name: Spanned<String>,
    /// The clauses that jobs have, too.
    pub job: Clauses,
    /// AFTER: upstream steps.
    pub after: Vec<Spanned<String>>,
    /// TRIGGER RULE.
    pub rule: TriggerRule,
    /// WHEN: condition.
    pub when: Option<String>,
    /// FOR EACH.
    pub for_each: Option<ForEach>,
    /// ALLOW FAILURE.
    pub allow_failure: bool,
    /// RESULT_BYTES: limit of the result.
    pub result_bytes: Option<u32>,
    /// ON FAILURE DO.
    pub on_failure: Option<WorkClause>,
    /// ON SUCCESS DO.
    pub on_success: Option<WorkClause>,
    /// AS, if it is not an action of jobs.
    pub work: Option<WorkClause>,
}

/// Work of a step or a handler.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkClause {
    /// An action of jobs.
    Action(ActionClause),
    /// MESSAGE: a message to a queue, which a worker executes.
    Message {
        /// The name of the queue; that of the DAG if absent.
        queue: Option<String>,
        /// The payload.
        payload: Value,
    },
    /// JOB: triggers a job, with parameters.
    Job(String, Vec<(String, Literal)>),
    /// DAG: triggers a DAG, with parameters.
    Dag(String, Vec<(String, Literal)>),
    /// APPROVAL: waits for a user.
    Approval {
        /// The name of the role.
        role: Option<String>,
        /// After this time the default answer counts.
        timeout: Option<SignedDuration>,
        /// The answer when the time is over.
        default: ApprovalAnswer,
    },
    /// SLEEP: waits for a duration.
    Sleep(SignedDuration),
    /// SLEEP UNTIL.
    SleepUntil(String),
    /// ALERT: raises an alert with this text.
    Alert(String),
    /// WAIT FOR MESSAGE.
    WaitForMessage {
        /// The name of the queue.
        queue: String,
        /// Fails after this time.
        timeout: Option<SignedDuration>,
    },
}
