//! Explains how a job is doing, why it ran, did not run or will run at a time, and why a run is in
//! its state.
//!
//! An answer is a [`Report`]: a verdict, and lines that every interface shows alike. The steps that
//! a time goes through are among the lines, in their order, up to the one that decided:
//!
//! ```text
//!   EXISTS ▶ SCHEDULED ▶ ENABLED ▶ PLANNED ▶ DUE ▶ DEADLINE ▶ DEPENDENCIES ▶ OVERLAP ▶ QUORUM
//!          ▶ PLACEMENT ▶ SLOT ▶ EXECUTION
//! ```

mod change;
mod division;
mod end;
mod facts;
mod late;
mod message;
mod overview;
mod run;
mod time;
mod timeline;
mod unrecorded;
mod wait;
mod waiting;
mod words;

use jiff::Timestamp;

use crate::id::RunId;
use crate::schedule::{Schedule, SkippedRange};

pub use division::{Division, PartFacts};
pub use facts::{
    AttemptFacts, ClusterFacts, Deed, JobEvent, KeptFor, LiveFacts, NodeFacts, OtherRun, PartOf,
    PoolFacts, RunDetail, RunFacts, Subject, Upstream, UpstreamEnd,
};
pub use late::{wait_in, with_wait};
pub use message::{MessageFacts, MessageLine, MessageState, explain_message, message_line};
pub use overview::{HEALTH_RUNS, OverviewFacts, Prospect, overview};
pub use run::explain_run;
pub use time::{RunAndDetail, TimeFacts, explain_time};
pub use waiting::waiting_reason;
pub use words::{error_words, short};

/// An explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The time that it is about; none for a job as a whole.
    pub at: Option<Timestamp>,
    /// The verdict, a word.
    pub verdict: &'static str,
    /// The verdict, a sentence with the cause.
    pub message: String,
    /// The code of the cause.
    pub cause: Option<String>,
    /// The run that it is about.
    pub run: Option<RunId>,
    /// All lines, in the order in which they are shown.
    pub lines: Vec<Line>,
    /// Obstacles to a run that has not started.
    pub obstacles: Vec<String>,
    /// The progress of child runs.
    pub parts: Vec<String>,
    /// The scheduled time before it.
    pub previous: Option<Timestamp>,
    /// The scheduled time after it; none if nothing is planned in the state of the job.
    pub next: Option<Timestamp>,
    /// Local times around it that a clock change skips.
    pub skipped: Vec<SkippedRange>,
}

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Aspect of the line.
    pub aspect: Aspect,
    /// Time that the line refers to.
    pub at: Option<Timestamp>,
    /// The line.
    pub text: String,
    /// The result of a step.
    pub status: Option<StepStatus>,
    /// The name of a step, the code of a cause, an outcome or an error.
    pub code: Option<String>,
    /// The run that it is about.
    pub run: Option<RunId>,
}

/// Aspect of a line of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// The verdict.
    Verdict,
    /// The job and its state.
    Job,
    /// The schedule in words.
    Schedule,
    /// Whether the last runs completed.
    Health,
    /// A run that has not ended.
    Now,
    /// The last run that ended.
    Last,
    /// Times that did not run.
    Skipped,
    /// Waits of a run, or obstacles to the next one.
    Waits,
    /// Where a run comes from.
    Origin,
    /// Why a run began late.
    Late,
    /// An attempt.
    Attempt,
    /// Another run that has to do with it: at the same time, in its place, or its repetition.
    Run,
    /// The child runs of a parent run.
    Parts,
    /// The state of the job and its last change.
    State,
    /// A step and its result.
    Step,
    /// The scheduled time before.
    Previous,
    /// A clock change.
    Dst,
    /// A time to come.
    Next,
    /// Something surprising about the schedule.
    Warning,
}

impl Aspect {
    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Verdict => "verdict",
            Aspect::Job => "job",
            Aspect::Schedule => "schedule",
            Aspect::Health => "health",
            Aspect::Now => "now",
            Aspect::Last => "last",
            Aspect::Skipped => "skipped",
            Aspect::Waits => "waits",
            Aspect::Origin => "origin",
            Aspect::Late => "late",
            Aspect::Attempt => "attempt",
            Aspect::Run => "run",
            Aspect::Parts => "parts",
            Aspect::State => "state",
            Aspect::Step => "step",
            Aspect::Previous => "previous",
            Aspect::Dst => "dst",
            Aspect::Next => "next",
            Aspect::Warning => "warning",
        }
    }
}

/// A step that a time goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepName {
    /// The job exists.
    Exists,
    /// The time is one of the schedule, or a user or another job asked for the run.
    Scheduled,
    /// The job is enabled.
    Enabled,
    /// A scheduler plans the run.
    Planned,
    /// Its time comes.
    Due,
    /// It can start before its deadline.
    Deadline,
    /// The jobs that it depends on have ended.
    Dependencies,
    /// Earlier runs of the job do not prevent it.
    Overlap,
    /// A majority of the schedulers has acknowledged it.
    Quorum,
    /// A node may execute it.
    Placement,
    /// A slot is free, and no limit is reached.
    Slot,
    /// Its attempts.
    Execution,
}

impl StepName {
    /// Every step, in order.
    pub const ALL: [StepName; 12] = [
        StepName::Exists,
        StepName::Scheduled,
        StepName::Enabled,
        StepName::Planned,
        StepName::Due,
        StepName::Deadline,
        StepName::Dependencies,
        StepName::Overlap,
        StepName::Quorum,
        StepName::Placement,
        StepName::Slot,
        StepName::Execution,
    ];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            StepName::Exists => "EXISTS",
            StepName::Scheduled => "SCHEDULED",
            StepName::Enabled => "ENABLED",
            StepName::Planned => "PLANNED",
            StepName::Due => "DUE",
            StepName::Deadline => "DEADLINE",
            StepName::Dependencies => "DEPENDENCIES",
            StepName::Overlap => "OVERLAP",
            StepName::Quorum => "QUORUM",
            StepName::Placement => "PLACEMENT",
            StepName::Slot => "SLOT",
            StepName::Execution => "EXECUTION",
        }
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// The time went past it.
    Passed,
    /// It decided about the time, or the run waits at it.
    Decided,
    /// A step before it decided.
    NotReached,
    /// The records that would decide it are not kept any more.
    Unknown,
}

impl StepStatus {
    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            StepStatus::Passed => "PASSED",
            StepStatus::Decided => "DECIDED",
            StepStatus::NotReached => "NOT_REACHED",
            StepStatus::Unknown => "UNKNOWN",
        }
    }
}

/// Decisive step about a time or a run.
#[derive(Clone, Debug, PartialEq)]
struct Cause {
    step: StepName,
    code: String,
    text: String,
}

impl Cause {
    fn new(step: StepName, code: &str, text: String) -> Self {
        Cause { step, code: code.to_owned(), text }
    }
}

fn line(aspect: Aspect, at: Option<Timestamp>, text: impl Into<String>) -> Line {
    Line { aspect, at, text: text.into(), status: None, code: None, run: None }
}

impl Line {
    fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    fn step(name: StepName, status: StepStatus, text: impl Into<String>) -> Self {
        Line {
            status: Some(status),
            code: Some(name.name().to_owned()),
            ..line(Aspect::Step, None, text)
        }
    }
}

/// A time of a schedule as the schedule's zone shows it.
pub fn local(schedule: &Schedule, at: Timestamp) -> String {
    match schedule.base() {
        Schedule::Cron(cron) => {
            let zone = cron.zone().time_zone().clone();
            at.to_zoned(zone).strftime("%a %F %T %:z").to_string()
        }
        _ => at.strftime("%a %F %T UTC").to_string(),
    }
}

#[cfg(test)]
mod tests;
