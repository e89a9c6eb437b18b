//! Tasks of a DAG as REST shows them: `payload` is that of a job, a message for workers (`action`),
//! or a wait.

use std::collections::BTreeMap;

use domain::cluster::Labels;
use domain::dag::{ForEach, MinSuccess, STEP_TIMEOUT, Step, StepWork};
use domain::job::RetryPolicy;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::duration::Seconds;
use super::mirror::{ApprovalAnswer, JobClass, TriggerRule};
use super::partition::PartitionSpec;
use super::payload;
use super::retry::RetryConfig;
use crate::body::parse_value;
use crate::problem::{Problem, Result};

/// A task of a DAG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Unique in the DAG: letters, digits, `_` and `-`.
    #[schema(min_length = 1, max_length = 100, example = "transform")]
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The action. `action` makes it a message for workers. Otherwise it is the payload of a job,
    /// or `{"type": "JOB", "job": …}`, `DAG`, `APPROVAL`, `SLEEP`,
    /// `ALERT`, `WAIT_FOR_MESSAGE` or `MESSAGE`.
    /// Texts may contain templates: `${steps.NAME.result.PATH}`, `${config.NAME}`,
    /// `${run.scheduled_for | date}`.
    #[schema(value_type = Object, example = json!({"action": "transform_data"}))]
    pub payload: Map<String, Value>,
    /// The tasks that come before it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub dependencies: Vec<String>,
    /// Which outcomes of those let it run; `ALL_SUCCESS` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<TriggerRule>,
    /// It is skipped unless this expression is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "steps.extract.result.rows > 0")]
    pub when: Option<String>,
    /// It runs once for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEachSpec>,
    /// Whether the DAG run can complete although the task failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_failure: bool,
    /// The timeout of one attempt; 3600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<Seconds>,
    /// How often a failed attempt is tried again; that of the DAG when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// When a failed attempt is tried again; that of the DAG when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
    /// 0 to 9, higher is more urgent; that of the DAG when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9)]
    pub priority: Option<u8>,
    /// Where and how it is executed; `LOCAL_SAFE` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<JobClass>,
    /// Labels of the nodes that may execute it; all may when there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub run_on: BTreeMap<String, String>,
    /// On which shards it runs; once, and on none, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionSpec>,
    /// The maximum size of its result, in bytes of JSON; 65536 when absent, at most 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_048_576)]
    pub result_bytes: Option<u32>,
    /// The payload of a handler that runs after the task failed for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub on_failure: Option<Map<String, Value>>,
    /// The payload of a handler that runs after the task completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub on_success: Option<Map<String, Value>>,
}

/// A task runs once for each item of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForEachSpec {
    /// The name of the item in templates; `item` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The list. Absent if `along` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "steps.list.result")]
    pub list: Option<String>,
    /// A task with items that comes before: each item runs after that item of the other task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<String>,
    /// The path inside an item that identifies it over re-runs; the hash of the item when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The maximum number of items; 1000 when absent, at most 100000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    /// The maximum number of items that execute at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How many items must succeed: a number, or a share such as `"90%"`; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_success: Option<MinSuccessSpec>,
}

/// How many items must succeed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum MinSuccessSpec {
    /// So many.
    Count(u32),
    /// A share, with `%` behind it.
    Percent(String),
}

impl ForEachSpec {
    fn domain(&self, place: &str) -> Result<ForEach> {
        let min_success = match &self.min_success {
            None => None,
            Some(MinSuccessSpec::Count(count)) => Some(MinSuccess::Count(*count)),
            Some(MinSuccessSpec::Percent(text)) => {
                let percent = text.strip_suffix('%').and_then(|it| it.trim().parse().ok());
                let wrong = || {
                    let text = format!("is {text:?}, not a number or a share such as \"90%\"");
                    Problem::invalid(format!("{place}.min_success"), text)
                };
                Some(MinSuccess::Percent(percent.ok_or_else(wrong)?))
            }
        };
        let default = ForEach::default();
        Ok(ForEach {
            item: self.item.clone().unwrap_or(default.item),
            list: self.list.clone(),
            along: self.along.clone(),
            key: self.key.clone(),
            max_items: self.max_items,
            max_parallel: self.max_parallel,
            min_success,
        })
    }

    fn of(each: &ForEach) -> Self {
        ForEachSpec {
            item: (each.item != ForEach::default().item).then(|| each.item.clone()),
            list: each.list.clone(),
            along: each.along.clone(),
            key: each.key.clone(),
            max_items: each.max_items,
            max_parallel: each.max_parallel,
            min_success: each.min_success.map(|least| match least {
                MinSuccess::Count(count) => MinSuccessSpec::Count(count),
                MinSuccess::Percent(percent) => MinSuccessSpec::Percent(format!("{percent}%")),
            }),
        }
    }
}

impl TaskSpec {
    /// The step that it means. `place` is its path in the body, `retry` the policy of the DAG.
    pub fn step(&self, place: &str, retry: &RetryPolicy) -> Result<Step> {
        let at = |field: &str| format!("{place}.{field}");
        let work = |field: &str, payload: &Option<Map<String, Value>>| {
            payload.as_ref().map(|payload| work(&at(field), payload)).transpose()
        };
        let retry = match (&self.retry_config, self.max_retries) {
            (Some(_), Some(_)) => {
                let text = "is given twice: leave it out, or name it in retry_config only";
                return Err(Problem::invalid(at("max_retries"), text));
            }
            (Some(config), None) => {
                Some(config.clone().policy().map_err(|problem| problem.inside(place))?)
            }
            (None, Some(retries)) => {
                Some(RetryPolicy { max_attempts: retries.saturating_add(1), ..retry.clone() })
            }
            (None, None) => None,
        };
        let timeout = self.timeout_seconds.map(|seconds| seconds.0);
        Ok(Step {
            name: self.name.clone(),
            description: self.description.clone(),
            work: self::work(&at("payload"), &self.payload)?,
            after: self.dependencies.clone(),
            rule: self.trigger_rule.map(Into::into).unwrap_or_default(),
            when: self.when.clone(),
            for_each: match &self.for_each {
                None => None,
                Some(each) => Some(each.domain(&at("for_each"))?),
            },
            allow_failure: self.allow_failure,
            timeout: timeout.filter(|timeout| *timeout != STEP_TIMEOUT),
            retry,
            priority: self.priority,
            class: self.class.map(Into::into).unwrap_or_default(),
            run_on: Labels(self.run_on.clone()),
            partition: match &self.partition {
                None => None,
                Some(spec) => Some(spec.rule().map_err(|problem| problem.inside(place))?),
            },
            result_bytes: self.result_bytes,
            on_failure: work("on_failure", &self.on_failure)?,
            on_success: work("on_success", &self.on_success)?,
        })
    }

    /// A step as it is shown.
    pub fn of(step: &Step) -> Self {
        TaskSpec {
            name: step.name.clone(),
            description: step.description.clone(),
            payload: payload_of(&step.work),
            dependencies: step.after.clone(),
            trigger_rule: (step.rule != Default::default()).then(|| step.rule.into()),
            when: step.when.clone(),
            for_each: step.for_each.as_ref().map(ForEachSpec::of),
            allow_failure: step.allow_failure,
            timeout_seconds: Some(Seconds(step.timeout.unwrap_or(STEP_TIMEOUT))),
            max_retries: None,
            retry_config: step.retry.as_ref().map(RetryConfig::of),
            priority: step.priority,
            class: (!step.class.is_default()).then(|| step.class.into()),
            run_on: step.run_on.0.clone(),
            partition: step.partition.as_ref().map(PartitionSpec::of),
            result_bytes: step.result_bytes,
            on_failure: step.on_failure.as_ref().map(payload_of),
            on_success: step.on_success.as_ref().map(payload_of),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    queue: Option<String>,
    message: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalledJob {
    job: String,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalledDag {
    dag: String,
    #[serde(default, alias = "parameters")]
    config: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    role: Option<String>,
    timeout_seconds: Option<Seconds>,
    default: Option<ApprovalAnswer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    duration_seconds: Option<Seconds>,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitForMessage {
    queue: String,
    timeout_seconds: Option<Seconds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertText {
    message: String,
}

/// The kinds of work that only a task has, each with the field that gives it away.
const KINDS: [(&str, &str); 7] = [
    ("MESSAGE", ""),
    ("JOB", "job"),
    ("DAG", "dag"),
    ("APPROVAL", ""),
    ("SLEEP", ""),
    ("ALERT", ""),
    ("WAIT_FOR_MESSAGE", ""),
];

/// The work that the payload at a place means.
pub fn work(place: &str, payload: &Map<String, Value>) -> Result<StepWork> {
    let named = payload.get("type").and_then(Value::as_str);
    if named.is_none() && payload.contains_key("action") {
        let payload = Value::Object(payload.clone());
        return Ok(StepWork::Message { queue: None, payload });
    }
    let kind = KINDS.iter().find(|(kind, field)| match named {
        Some(named) => kind.eq_ignore_ascii_case(named),
        None => payload.contains_key(*field),
    });
    let Some((kind, _)) = kind else {
        let action = payload::action(payload).map_err(|problem| match named {
            Some(_) => problem,
            None if problem.details.iter().any(|detail| detail.field == "payload.type") => {
                let text = "is missing: send an action for workers, or one of HTTP, SQL, PROCEDURE, \
                            EXTERNAL, QUEUE, BACKUP, NOOP, JOB, DAG, APPROVAL, SLEEP, ALERT, \
                            WAIT_FOR_MESSAGE and MESSAGE";
                Problem::invalid("payload.type", text)
            }
            None => problem,
        });
        let parent = place.strip_suffix(".payload").or(place.rsplit_once('.').map(|it| it.0));
        let action = action.map_err(|problem| problem.inside(parent.unwrap_or_default()));
        return Ok(StepWork::Action { action: action? });
    };
    let mut fields = payload.clone();
    fields.remove("type");
    let fields = Value::Object(fields);
    let seconds = |given: Option<Seconds>| given.map(|seconds| seconds.0);
    Ok(match *kind {
        "MESSAGE" => {
            let Message { queue, message } = parse_value(place, fields)?;
            StepWork::Message { queue, payload: message }
        }
        "JOB" => {
            let CalledJob { job, parameters } = parse_value(place, fields)?;
            StepWork::Job { job, parameters }
        }
        "DAG" => {
            let CalledDag { dag, config } = parse_value(place, fields)?;
            StepWork::Dag { dag, parameters: config }
        }
        "APPROVAL" => {
            let Approval { role, timeout_seconds, default } = parse_value(place, fields)?;
            let default = default.map(Into::into).unwrap_or_default();
            StepWork::Approval { role, timeout: seconds(timeout_seconds), default }
        }
        "SLEEP" => {
            let Sleep { duration_seconds, until } = parse_value(place, fields)?;
            StepWork::Sleep { duration: seconds(duration_seconds), until }
        }
        "ALERT" => {
            let AlertText { message } = parse_value(place, fields)?;
            StepWork::Alert { message }
        }
        _ => {
            let WaitForMessage { queue, timeout_seconds } = parse_value(place, fields)?;
            StepWork::WaitForMessage { queue, timeout: seconds(timeout_seconds) }
        }
    })
}

/// A work as the payload that means it.
pub fn payload_of(work: &StepWork) -> Map<String, Value> {
    let seconds = |duration: &Option<SignedDuration>| json!(duration.map(Seconds));
    let mut shown = match work {
        StepWork::Action { action } => return payload::of(action),
        StepWork::Message { queue: None, payload: Value::Object(fields) }
            if fields.contains_key("action") && !fields.contains_key("type") =>
        {
            return fields.clone();
        }
        StepWork::Message { queue, payload } => json!({ "queue": queue, "message": payload }),
        StepWork::Job { job, parameters } if parameters.is_empty() => json!({ "job": job }),
        StepWork::Job { job, parameters } => json!({ "job": job, "parameters": parameters }),
        StepWork::Dag { dag, parameters } if parameters.is_empty() => json!({ "dag": dag }),
        StepWork::Dag { dag, parameters } => json!({ "dag": dag, "config": parameters }),
        StepWork::Approval { role, timeout, default } => json!({
            "role": role,
            "timeout_seconds": seconds(timeout),
            "default": ApprovalAnswer::from(*default),
        }),
        StepWork::Sleep { duration, until } => {
            json!({ "duration_seconds": seconds(duration), "until": until })
        }
        StepWork::Alert { message } => json!({ "message": message }),
        StepWork::WaitForMessage { queue, timeout } => {
            json!({ "queue": queue, "timeout_seconds": seconds(timeout) })
        }
    };
    shown["type"] = json!(work.kind());
    match shown {
        Value::Object(mut fields) => {
            // The payload of a message may be null.
            fields.retain(|name, value| !value.is_null() || name == "message");
            fields
        }
        _ => Map::new(),
    }
}
