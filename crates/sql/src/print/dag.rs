//! The clauses of a DAG and its steps.

use domain::dag::{ApprovalAnswer, Dag, ForEach, MinSuccess, OnStepFailure, Step, StepWork};
use domain::job::RetryPolicy;
use serde_json::Value;

use super::{action, database, duration, pairs, partition, retry_clauses, value};
use crate::clause::structure_of;
use crate::name::{quoted, text};
use crate::parse::{TRIGGER_RULES, is_expression};

/// The clauses that a DAG has and a job has not, but for its steps.
pub(super) fn clauses(dag: &Dag) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(dag.max_parallel.map(|most| format!("MAX_PARALLEL = {most}")));
    lines.extend(dag.queue.as_ref().map(|queue| format!("QUEUE = {}", text(queue))));
    lines.extend(match dag.on_step_failure {
        OnStepFailure::Continue => None,
        OnStepFailure::Stop => Some("ON FAILURE = STOP".to_owned()),
        OnStepFailure::Hold => Some("ON FAILURE = HOLD".to_owned()),
    });
    lines.extend(dag.on_failure.as_ref().map(|it| format!("ON FAILURE DO {}", work(it))));
    lines.extend(dag.on_success.as_ref().map(|it| format!("ON SUCCESS DO {}", work(it))));
    lines
}

/// A step. `retry` is the policy of its DAG.
pub(super) fn step(step: &Step, retry: &RetryPolicy) -> String {
    let mut parts = vec![format!("STEP {}", quoted_step(&step.name))];
    if !step.after.is_empty() {
        let names: Vec<String> = step.after.iter().map(|name| quoted_step(name)).collect();
        parts.push(format!("AFTER {}", names.join(", ")));
    }
    let rule = TRIGGER_RULES.iter().find(|(_, rule)| *rule == step.rule);
    if let Some((word, _)) = rule.filter(|_| step.rule != Default::default()) {
        parts.push(format!("TRIGGER RULE = {word}"));
    }
    parts.extend(step.when.as_ref().map(|when| format!("WHEN {}", expression(when))));
    parts.extend(step.for_each.as_ref().map(for_each));
    if step.allow_failure {
        parts.push("ALLOW FAILURE".to_owned());
    }
    if !step.class.is_default() {
        parts.push(format!("CLASS = {}", step.class));
    }
    if !step.run_on.is_empty() {
        parts.push(format!("RUN ON ({})", pairs(&step.run_on.0)));
    }
    parts.extend(step.partition.as_ref().map(partition));
    if let Some(own) = &step.retry {
        let differing = retry_clauses(own, retry);
        // A policy of its own that is that of the DAG: one clause keeps it.
        let same = || format!("MAX_RETRIES = {}", own.max_attempts.saturating_sub(1));
        parts.extend(if differing.is_empty() { vec![same()] } else { differing });
    }
    parts.extend(step.timeout.map(|timeout| format!("TIMEOUT = {}", duration(timeout))));
    parts.extend(step.priority.map(|priority| format!("PRIORITY = {priority}")));
    parts.extend(step.result_bytes.map(|bytes| format!("RESULT_BYTES = {bytes}")));
    if let StepWork::Action { action } = &step.work {
        parts.extend(database(action).map(|name| format!("DATABASE = {}", quoted(name))));
    }
    parts.extend(step.description.as_ref().map(|it| format!("DESCRIPTION = {}", text(it))));
    parts.extend(step.on_failure.as_ref().map(|it| format!("ON FAILURE DO {}", work(it))));
    parts.extend(step.on_success.as_ref().map(|it| format!("ON SUCCESS DO {}", work(it))));
    parts.push(format!("AS {}", work(&step.work)));
    parts.join(" ")
}

/// The name of a step. The word `step` ends a list of names.
fn quoted_step(name: &str) -> String {
    if name == "step" { "\"step\"".to_owned() } else { quoted(name) }
}

/// An expression as it is, or in quotes where the parser would not find its end.
fn expression(source: &str) -> String {
    if is_expression(source) { source.to_owned() } else { text(source) }
}

fn for_each(each: &ForEach) -> String {
    let mut parts = vec![format!("FOR EACH {}", quoted(&each.item))];
    parts.extend(each.list.as_ref().map(|list| format!("IN {}", expression(list))));
    parts.extend(each.along.as_ref().map(|step| format!("ALONG {}", quoted_step(step))));
    parts.extend(each.key.as_ref().map(|key| format!("KEY {}", text(key))));
    parts.extend(each.max_items.map(|most| format!("MAX_ITEMS = {most}")));
    parts.extend(each.max_parallel.map(|most| format!("MAX_PARALLEL = {most}")));
    parts.extend(each.min_success.map(|least| match least {
        MinSuccess::Count(count) => format!("MIN SUCCESS = {count}"),
        MinSuccess::Percent(percent) => format!("MIN SUCCESS = {percent}%"),
    }));
    parts.join(" ")
}

fn work(work: &StepWork) -> String {
    let with = |parameters: &std::collections::BTreeMap<String, Value>| match parameters.is_empty()
    {
        true => String::new(),
        false => {
            let pair = |(name, it): (&String, &Value)| format!("{} = {}", text(name), value(it));
            format!(" WITH ({})", parameters.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    };
    let within = |timeout: &Option<jiff::SignedDuration>| {
        timeout.map(|timeout| format!(" WITHIN {}", duration(timeout))).unwrap_or_default()
    };
    match work {
        StepWork::Action { action: it } => action(it),
        StepWork::Message { queue, payload } => {
            let payload = match payload {
                Value::String(payload) if structure_of(payload).is_none() => text(payload),
                json => format!("JSON {}", text(&json.to_string())),
            };
            let queue = queue.as_ref().map(|queue| format!(" TO {}", text(queue)));
            format!("MESSAGE {payload}{}", queue.unwrap_or_default())
        }
        StepWork::Job { job, parameters } => format!("JOB {}{}", text(job), with(parameters)),
        StepWork::Dag { dag, parameters } => format!("DAG {}{}", text(dag), with(parameters)),
        StepWork::Approval { role, timeout, default } => {
            let role = role.as_ref().map(|role| format!(" BY {}", text(role))).unwrap_or_default();
            let default = match default {
                ApprovalAnswer::Approve => " DEFAULT APPROVE",
                ApprovalAnswer::Reject => "",
            };
            format!("APPROVAL{role}{}{default}", within(timeout))
        }
        StepWork::Sleep { duration: Some(length), .. } => format!("SLEEP {}", duration(*length)),
        StepWork::Sleep { until, .. } => {
            format!("SLEEP UNTIL {}", text(until.as_deref().unwrap_or_default()))
        }
        StepWork::Alert { message } => format!("ALERT {}", text(message)),
        StepWork::WaitForMessage { queue, timeout } => {
            format!("WAIT FOR MESSAGE FROM {}{}", text(queue), within(timeout))
        }
    }
}
