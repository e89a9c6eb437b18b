//! Workflows: a DAG is a job whose definition has [`Definition::dag`](crate::job::Definition::dag).
//!
//! A DAG run is a run of that job that waits for its steps; a step's execution is a run of its own.
//! Which steps an end releases or skips is decided here, by pure functions of the definition and of
//! the outcomes so far ([`state`]).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::Action;
use crate::cluster::{Class, Labels};
use crate::exact_number;
use crate::job::{Definition, RetryPolicy};
use crate::partition::Partition;

pub mod call;
mod check;
mod graph;
pub mod path;
mod place;
pub mod rerun;
mod rule;
pub mod state;
mod template;

#[cfg(test)]
mod tests;

pub use check::{DagError, check};
pub use graph::{Finally, Graph, GraphStep};
pub use rule::{Judgement, Tally, TriggerRule};
pub use template::{Scope, Template, TemplateError, date_of};

/// Results, parameters and templates are JSON values.
pub type Json = Value;

/// A JSON object.
pub type JsonMap = serde_json::Map<String, Value>;

/// Parses a JSON object; none if the text is something else.
pub fn parse_object(text: &str) -> Option<JsonMap> {
    exact_number::parse(text).ok()
}

/// Parses the result of a run; a text that is no JSON is a string.
pub fn parse_result(text: &str) -> Json {
    exact_number::parse(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The text of a JSON object.
pub fn object_text(map: &JsonMap) -> String {
    let text = serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned());
    exact_number::restored(text)
}

/// The maximum number of steps of a DAG.
pub const STEPS_MAX: usize = 10_000;

/// The maximum number of edges of a DAG.
pub const EDGES_MAX: usize = 100_000;

/// The maximum length of the name of a step, in bytes.
pub const STEP_NAME_MAX: usize = 100;

/// Default of the maximum number of items of a fan-out.
pub const ITEMS_DEFAULT: u32 = 1_000;

/// The maximum number of items of a fan-out.
pub const ITEMS_MAX: u32 = 100_000;

/// Default of the maximum size of a step's result, in bytes of JSON.
pub const RESULT_BYTES_DEFAULT: u32 = 64 << 10;

/// The maximum size of a step's result, in bytes of JSON.
pub const RESULT_BYTES_MAX: u32 = 1 << 20;

/// The maximum size of all results of a DAG run that steps refer to, in bytes of JSON.
pub const RESULTS_BYTES_MAX: usize = 16 << 20;

/// The maximum number of DAG calls that lead to a DAG run: a step of the last one calls no DAG.
pub const CALLS_MAX: usize = 16;

/// The maximum length of the text of an alert, in bytes.
pub const ALERT_BYTES_MAX: usize = 4_096;

/// The timeout of a step that names none.
pub const STEP_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// The queue of steps that workers execute, if neither the step nor the DAG names one.
pub const QUEUE_DEFAULT: &str = "default";

/// The steps of a DAG and the policies of its runs. Schedule, overlap, catch-up, zone, deadline,
/// parameters, retention and tags are those of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dag {
    /// The steps.
    pub steps: Vec<Step>,
    /// Policy for the other steps when a step fails.
    #[serde(skip_serializing_if = "OnStepFailure::is_default")]
    pub on_step_failure: OnStepFailure,
    /// The maximum number of steps of one run that execute at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// The queue of steps that workers execute; [`QUEUE_DEFAULT`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Runs after a run that failed, before its end is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<StepWork>,
    /// Runs after a run that completed, before its end is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_success: Option<StepWork>,
}

/// A step of a DAG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// The name, unique in the DAG: letters, digits, `_` and `-`.
    pub name: String,
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Work of the step.
    pub work: StepWork,
    /// Upstream steps, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Which outcomes of them let it run.
    #[serde(skip_serializing_if = "TriggerRule::is_default")]
    pub rule: TriggerRule,
    /// It is skipped unless this expression is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// It runs once for each item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEach>,
    /// Whether the DAG run can complete although it failed. Its children treat the failure as a
    /// success, except that it satisfies `ONE_FAILED`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_failure: bool,
    /// The timeout of an attempt; [`STEP_TIMEOUT`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// When a failed attempt is retried; the policy of the DAG's job if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// 0 to 9; that of the DAG's job if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The execution class.
    #[serde(skip_serializing_if = "Class::is_default")]
    pub class: Class,
    /// Labels of the nodes that may execute it; all if empty.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub run_on: Labels,
    /// The shards on which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// The maximum size of its result, in bytes of JSON; [`RESULT_BYTES_DEFAULT`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u32>,
    /// Runs after it failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<StepWork>,
    /// Runs after it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_success: Option<StepWork>,
}

/// Work of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind", deny_unknown_fields)]
pub enum StepWork {
    /// Executes an action, as a job does. Its texts may contain templates.
    Action {
        /// The action.
        action: Action,
    },
    /// Sends a message to a queue and waits until a worker has settled it. The worker's result is
    /// that of the step.
    Message {
        /// The name of the queue; that of the DAG if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<String>,
        /// The payload. Its texts may contain templates.
        payload: Value,
    },
    /// Runs a job and waits for its end.
    Job {
        /// The name of the job.
        job: String,
        /// Parameters of its run. Texts may contain templates.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, Value>,
    },
    /// Runs another DAG and waits for its end.
    Dag {
        /// The name of the DAG.
        dag: String,
        /// Parameters of its run. Texts may contain templates.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, Value>,
    },
    /// Waits until a member of a role approves or rejects.
    Approval {
        /// The name of the role; every user that may execute the DAG if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// After this time the default answer counts; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<SignedDuration>,
        /// The answer when the time is over.
        #[serde(default)]
        default: ApprovalAnswer,
    },
    /// Waits for a time.
    Sleep {
        /// This long after its parents; absent if `until` is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration: Option<SignedDuration>,
        /// Until this time, as RFC 3339 text; may be a template.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    /// Raises an alert.
    Alert {
        /// The text. May contain templates.
        message: String,
    },
    /// Waits until a message arrives in a queue, and takes it. The payload is the step's result.
    WaitForMessage {
        /// The name of the queue.
        queue: String,
        /// Fails after this time; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<SignedDuration>,
    },
}

impl Default for StepWork {
    fn default() -> Self {
        StepWork::Action { action: Action::Noop }
    }
}

impl StepWork {
    /// The name of its kind in every interface: that of the action, or of the other work.
    pub fn kind(&self) -> &'static str {
        match self {
            StepWork::Action { action } => action.kind(),
            StepWork::Message { .. } => "MESSAGE",
            StepWork::Job { .. } => "JOB",
            StepWork::Dag { .. } => "DAG",
            StepWork::Approval { .. } => "APPROVAL",
            StepWork::Sleep { .. } => "SLEEP",
            StepWork::Alert { .. } => "ALERT",
            StepWork::WaitForMessage { .. } => "WAIT_FOR_MESSAGE",
        }
    }

    /// The action that a node executes; none if the work is something else.
    pub fn action(&self) -> Option<&Action> {
        match self {
            StepWork::Action { action } => Some(action),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn action_mut(&mut self) -> Option<&mut Action> {
        match self {
            StepWork::Action { action } => Some(action),
            _ => None,
        }
    }
}

/// The answer to an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ApprovalAnswer {
    /// The step completes.
    Approve,
    /// The step fails.
    #[default]
    Reject,
}

/// A step runs once for each item of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// The name by which templates and parameters refer to the item.
    #[serde(default = "item")]
    pub item: String,
    /// The list: a path such as `steps.list.result` or `params.days`. Absent if `along` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// A parent with items: this step has the same items, and each runs after that item of the
    /// parent, without waiting for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<String>,
    /// The path inside an item that identifies it over re-runs; the hash of the item if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The maximum number of items; [`ITEMS_DEFAULT`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    /// The maximum number of items that execute at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How many items must succeed; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_success: Option<MinSuccess>,
}

impl Default for ForEach {
    fn default() -> Self {
        ForEach {
            item: item(),
            list: None,
            along: None,
            key: None,
            max_items: None,
            max_parallel: None,
            min_success: None,
        }
    }
}

fn item() -> String {
    "item".to_owned()
}

/// How many items of a fan-out must succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MinSuccess {
    /// This many.
    Count(u32),
    /// This share of them, in percent.
    Percent(u8),
}

impl MinSuccess {
    /// The number of items that must succeed.
    pub fn of(self, items: u32) -> u32 {
        match self {
            MinSuccess::Count(count) => count.min(items),
            MinSuccess::Percent(percent) => {
                (u64::from(items) * u64::from(percent)).div_ceil(100) as u32
            }
        }
    }
}

/// Policy for the other steps of a run when a step without ALLOW FAILURE fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnStepFailure {
    /// Steps that do not depend on it go on.
    #[default]
    Continue,
    /// Steps that have not started are skipped, and those that execute are cancelled.
    Stop,
    /// No further step starts until a user resumes or cancels the run.
    Hold,
}

impl OnStepFailure {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_default(&self) -> bool {
        *self == OnStepFailure::Continue
    }
}

impl Dag {
    /// Everything that its steps and handlers do.
    pub fn works(&self) -> impl Iterator<Item = &StepWork> {
        let own = [&self.on_failure, &self.on_success].into_iter().flatten();
        let of_steps = self.steps.iter().flat_map(|step| {
            std::iter::once(&step.work).chain(&step.on_failure).chain(&step.on_success)
        });
        of_steps.chain(own)
    }

    /// The same, to be changed.
    pub fn works_mut(&mut self) -> impl Iterator<Item = &mut StepWork> {
        let own = [&mut self.on_failure, &mut self.on_success].into_iter().flatten();
        let of_steps = self.steps.iter_mut().flat_map(|step| {
            std::iter::once(&mut step.work).chain(&mut step.on_failure).chain(&mut step.on_success)
        });
        of_steps.chain(own)
    }
}

impl Definition {
    /// The actions of its runs: its own, or those of its steps.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        let steps = self.dag.iter().flat_map(|dag| dag.works()).filter_map(StepWork::action);
        std::iter::once(&self.action).chain(steps)
    }

    /// Whether it is a DAG, whose runs wait for their steps.
    pub fn is_dag(&self) -> bool {
        self.dag.is_some()
    }
}
