//! Why a command was refused.

use domain::access::Refusal;
use domain::action::ActionError;
use domain::dag::DagError;
use domain::id::JobId;
use domain::job::WhenError;
use domain::parameter::ParameterError;
use jiff::Timestamp;
use store::StoreError;

/// The result of a command.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Why a command was refused.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store has no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A field has a value that it cannot have.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Cause, and a valid value.
        problem: String,
    },
    /// A value does not follow the rule of its parameter, or the rule is invalid.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The schedule cannot be read.
    #[error("schedule: {0}")]
    Schedule(#[from] WhenError),
    /// The action cannot be executed.
    #[error("action.{0}")]
    Action(#[from] ActionError),
    /// The steps of a DAG are invalid.
    #[error("{0}")]
    Dag(#[from] DagError),
    /// Another job or queue has that name: they share one namespace.
    #[error("a job or queue named {name:?} exists already")]
    NameTaken {
        /// The name.
        name: String,
        /// The job or queue that has it.
        by: JobId,
    },
    /// The job was changed meanwhile.
    #[error("it has version {current}; the change is based on version {expected}")]
    VersionConflict {
        /// The version that the change is based on.
        expected: u32,
        /// The version that the job has.
        current: u32,
    },
    /// There is no such thing.
    #[error("{0} does not exist")]
    NotFound(String),
    /// Jobs would wait for each other for ever.
    #[error("the jobs would wait for each other: {}", way(.0))]
    Cycle(Vec<String>),
    /// The tenant has as many jobs as it may have.
    #[error("tenant job limit reached (max_jobs)")]
    TooManyJobs,
    /// The actor lacks a privilege.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another tenant, user or role has that name.
    #[error("there is a {0} of that name")]
    EntryTaken(&'static str),
    /// The job is a one-time job that has run: its time does not come again.
    #[error("one-time job {name:?} has run for {at} and is finished")]
    AlreadyRan {
        /// Its name.
        name: String,
        /// Its time.
        at: Timestamp,
    },
    /// The queue has as many messages as it may have.
    #[error("queue {name:?} is full (max_depth = {max_depth})")]
    QueueFull {
        /// The queue.
        name: String,
        /// The most messages that it may have.
        max_depth: u64,
    },
    /// The run is in a state in which this cannot be done.
    #[error("{0}")]
    WrongState(String),
}

/// Names of jobs one after the other; of a long way, its beginning and its end.
fn way(names: &[String]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        length if length > 2 * SHOWN => {
            let (first, last) = (&names[..SHOWN], &names[length - SHOWN..]);
            let between = length - 2 * SHOWN;
            format!("{} → ({between} others) → {}", first.join(" → "), last.join(" → "))
        }
        _ => names.join(" → "),
    }
}
