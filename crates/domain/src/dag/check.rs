//! Validation of a DAG: every error names its place.

use std::collections::HashMap;
use std::fmt;

use super::call::templates_of;
use super::graph::Graph;
use super::place::check_places;
use super::template::segments;
use super::{
    ALERT_BYTES_MAX, Dag, EDGES_MAX, ForEach, GraphStep, ITEMS_MAX, MinSuccess, RESULT_BYTES_MAX,
    STEP_NAME_MAX, STEPS_MAX, Step, StepWork,
};

/// The number of steps of a cycle that a message shows.
const CYCLE_SHOWN: usize = 20;

/// Why a DAG is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DagError {
    /// A setting of the DAG.
    Dag {
        /// The setting, by its REST name.
        field: &'static str,
        /// The problem, and the correct value.
        problem: String,
    },
    /// A step.
    Step {
        /// The name of the step.
        step: String,
        /// The setting, by its REST name.
        field: &'static str,
        /// The problem, and the correct value.
        problem: String,
    },
    /// A cycle: each step comes before the next one, and the last is the first.
    Cycle(Vec<String>),
}

impl std::error::Error for DagError {}

impl fmt::Display for DagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DagError::Dag { field, problem } => write!(f, "{field}: {problem}"),
            DagError::Step { step, field, problem } => {
                write!(f, "step {step:?}: {field}: {problem}")
            }
            DagError::Cycle(names) => {
                write!(f, "DAG contains a cycle: ")?;
                let shown = names.len().min(CYCLE_SHOWN);
                let hidden = names.len() - shown;
                if hidden == 0 {
                    return f.write_str(&names.join(" -> "));
                }
                let last = names.last().map(String::as_str).unwrap_or_default();
                let first = names[..shown - 1].join(" -> ");
                write!(f, "{first} -> ({hidden} others) -> {last}")
            }
        }
    }
}

impl DagError {
    pub(super) fn at(step: &str, field: &'static str, problem: &str) -> Self {
        DagError::Step { step: step.to_owned(), field, problem: problem.to_owned() }
    }

    /// A step that does not exist, and the name that was perhaps meant.
    pub(super) fn unknown_step(
        step: &str,
        field: &'static str,
        name: &str,
        known: &HashMap<String, u32>,
    ) -> Self {
        let mut near: Vec<(usize, &String)> = known
            .keys()
            .map(|other| (strsim::damerau_levenshtein(name, other), other))
            .filter(|(distance, _)| *distance <= 2 && *distance < name.chars().count())
            .collect();
        near.sort_unstable();
        let hint =
            near.first().map_or(String::new(), |(_, other)| format!("; did you mean {other:?}?"));
        DagError::at(step, field, &format!("there is no step {name:?}{hint}"))
    }
}

/// Validates a DAG and compiles it.
pub fn check(dag: &Dag) -> Result<Graph, DagError> {
    let wrong = |field, problem: String| Err(DagError::Dag { field, problem });
    if dag.steps.is_empty() {
        return wrong("steps", "a DAG needs at least one step".into());
    }
    if dag.steps.len() > STEPS_MAX {
        return wrong("steps", format!("too many steps: {}, at most {STEPS_MAX}", dag.steps.len()));
    }
    let edges: usize = dag.steps.iter().map(|step| step.after.len()).sum();
    if edges > EDGES_MAX {
        return wrong("steps", format!("too many dependencies: {edges}, at most {EDGES_MAX}"));
    }
    if dag.max_parallel == Some(0) {
        return wrong("max_parallel", "must be at least 1".into());
    }
    if dag.queue.as_ref().is_some_and(|queue| queue.trim().is_empty()) {
        return wrong("queue", "must not be empty".into());
    }
    for step in &dag.steps {
        check_step(step)?;
    }
    for (field, work) in [("on_failure", &dag.on_failure), ("on_success", &dag.on_success)] {
        if let Some(work) = work {
            check_work(work).map_err(|problem| DagError::Dag { field, problem })?;
        }
    }
    let graph = Graph::compile(dag)?;
    for number in 0..graph.len() as u32 {
        check_references(&graph, number)?;
    }
    Ok(graph)
}

fn check_step(step: &Step) -> Result<(), DagError> {
    let wrong = |field, problem: &str| Err(DagError::at(&step.name, field, problem));
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if step.name.is_empty() || step.name.len() > STEP_NAME_MAX || !step.name.chars().all(fits) {
        return wrong("name", "a name has 1 to 100 bytes: letters, digits, _ and -");
    }
    check_work(&step.work).map_err(|problem| DagError::at(&step.name, "payload", &problem))?;
    for (field, work) in [("on_failure", &step.on_failure), ("on_success", &step.on_success)] {
        if let Some(work) = work {
            check_work(work).map_err(|problem| DagError::at(&step.name, field, &problem))?;
        }
    }
    if step.timeout.is_some_and(|timeout| !timeout.is_positive()) {
        return wrong("timeout_seconds", "must be at least 1");
    }
    if step.priority.is_some_and(|priority| priority > 9) {
        return wrong("priority", "must be 0 to 9");
    }
    if let Some(retry) = &step.retry {
        if retry.max_attempts == 0 {
            return wrong("max_retries", "at least one attempt must be allowed");
        }
        if !retry.multiplier.is_finite() || retry.multiplier < 1.0 {
            return wrong("backoff_multiplier", "must be a number of at least 1");
        }
        if !(0.0..=1.0).contains(&retry.jitter) {
            return wrong("retry_jitter", "must be a number from 0 to 1");
        }
        if !retry.backoff.is_positive() {
            return wrong("backoff", "a duration must be longer than nothing");
        }
    }
    if step.result_bytes.is_some_and(|bytes| bytes == 0 || bytes > RESULT_BYTES_MAX) {
        return wrong("result_bytes", "must be between 1 and 1048576");
    }
    if let Err(error) = step.run_on.check() {
        return wrong("run_on", &error.to_string());
    }
    if let Some(rule) = &step.partition {
        rule.check().map_err(|problem| DagError::at(&step.name, "partition", &problem))?;
        if step.for_each.is_some() {
            return wrong("partition", "a step has either FOR EACH or a partition rule");
        }
        if step.work.action().is_none() {
            return wrong("partition", "only an action can run on shards");
        }
    }
    if let Some(each) = &step.for_each {
        check_for_each(each).map_err(|problem| DagError::at(&step.name, "for_each", &problem))?;
        if matches!(step.work, StepWork::Approval { .. } | StepWork::WaitForMessage { .. }) {
            return wrong("for_each", "an approval or a wait for a message has no items");
        }
    }
    Ok(())
}

fn check_for_each(each: &ForEach) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if each.item.is_empty() || !each.item.chars().all(is_word) {
        return Err(format!("{:?} is not a name for an item", each.item));
    }
    if ["steps", "params", "config", "run", "secrets", "index"].contains(&each.item.as_str()) {
        return Err(format!("{:?} has another meaning; choose another name", each.item));
    }
    match (&each.list, &each.along) {
        (None, None) => return Err("name a list, such as steps.NAME.result".into()),
        (Some(_), Some(_)) => return Err("name a list or a step to go along with, not both".into()),
        (Some(list), None) => {
            let template = super::Template::parse(list).map_err(|error| error.problem)?;
            if template.item().is_some() {
                return Err(format!(
                    "{list:?} is not a list: use steps.NAME.result or params.NAME"
                ));
            }
        }
        (None, Some(_)) => {}
    }
    if each.max_items.is_some_and(|most| most == 0 || most > ITEMS_MAX) {
        return Err(format!("the maximum number of items must be between 1 and {ITEMS_MAX}"));
    }
    if each.max_parallel == Some(0) {
        return Err("max_parallel must be at least 1".into());
    }
    if let Some(MinSuccess::Percent(101..)) = each.min_success {
        return Err("min_success is at most 100 %".into());
    }
    if each.key.as_ref().is_some_and(|key| segments(key).is_none()) {
        return Err("the key is a path inside an item, such as id".into());
    }
    Ok(())
}

fn check_work(work: &StepWork) -> Result<(), String> {
    let named = |what: &str, name: &str| match name.trim().is_empty() {
        true => Err(format!("{what}: must not be empty")),
        false => Ok(()),
    };
    match work {
        StepWork::Action { action } => action.check().map_err(|error| error.to_string())?,
        StepWork::Message { queue, payload } => {
            if let Some(queue) = queue {
                named("queue", queue)?;
            }
            if payload.to_string().len() > crate::queue::PAYLOAD_BYTES_MAX {
                return Err("the payload is larger than 1 MiB".into());
            }
        }
        StepWork::Job { job, .. } => named("job", job)?,
        StepWork::Dag { dag, .. } => named("dag", dag)?,
        StepWork::Approval { timeout, .. } | StepWork::WaitForMessage { timeout, .. } => {
            if timeout.is_some_and(|timeout| !timeout.is_positive()) {
                return Err("the timeout must be longer than nothing".into());
            }
            if let StepWork::WaitForMessage { queue, .. } = work {
                named("queue", queue)?;
            }
        }
        StepWork::Alert { message } => {
            named("message", message)?;
            if message.len() > ALERT_BYTES_MAX {
                return Err(format!("the message is longer than {ALERT_BYTES_MAX} bytes"));
            }
        }
        StepWork::Sleep { duration, until } => match (duration, until) {
            (Some(_), Some(_)) | (None, None) => {
                return Err("a sleep has either a duration or a time".into());
            }
            (Some(duration), None) if duration.is_negative() => {
                return Err("the duration of a sleep must not be negative".into());
            }
            (None, Some(until)) => {
                let is_template = until.contains("${");
                if !is_template && until.parse::<jiff::Timestamp>().is_err() {
                    return Err(format!("{until:?} is not a time in RFC 3339"));
                }
            }
            (Some(_), None) => {}
        },
    }
    templates_of(work).map_err(|error| error.to_string())?;
    check_places(work)
}

/// Every step that is referred to comes before the step, on any way.
fn check_references(graph: &Graph, number: u32) -> Result<(), DagError> {
    let GraphStep { step, parents, .. } = graph.step(number);
    let wrong = |field, problem: String| Err(DagError::at(&step.name, field, &problem));
    let before = |field, name: &str| {
        let Some(other) = graph.find(name) else {
            let known = graph.steps().iter().enumerate();
            let known = known.map(|(n, other)| (other.step.name.clone(), n as u32)).collect();
            return Err(DagError::unknown_step(&step.name, field, name, &known));
        };
        if parents.contains(&other) || graph.is_before(other, number) {
            return Ok(());
        }
        wrong(field, format!("step {name:?} does not come before it; add AFTER {name}"))
    };
    let item = step.for_each.as_ref().map(|each| each.item.as_str());
    for template in &graph.step(number).templates {
        if let Some(name) = template.step() {
            before("payload", name)?;
        }
        if let Some(name) = template.item()
            && item != Some(name)
            && !(name == "index" && item.is_some())
        {
            let problem = format!(
                "${{{}}} refers to nothing: use steps.NAME.result, params.NAME, run.scheduled_for{}",
                template.source,
                item.map_or(String::new(), |item| format!(" or {item}")),
            );
            return wrong("payload", problem);
        }
    }
    if let Some(name) = graph.step(number).list.as_ref().and_then(|list| list.step()) {
        before("for_each", name)?;
    }
    if let Some(expression) = &graph.step(number).condition {
        for path in expression.paths() {
            let template = super::Template::parse(path)
                .map_err(|error| DagError::at(&step.name, "when", &error.to_string()))?;
            if let Some(name) = template.step() {
                before("when", name)?;
            } else if let Some(name) = template.item().filter(|name| item != Some(name)) {
                let problem = format!(
                    "{name} refers to nothing: use steps.NAME.result, params.NAME or run.scheduled_for"
                );
                return wrong("when", problem);
            }
        }
    }
    Ok(())
}
