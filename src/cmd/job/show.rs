//! `punctual job show`: one job, with all that is known about it.

use clap::Args;
use serde_json::Value;

use super::{Asking, schedule};
use crate::exit::Failure;
use crate::output::{self, distance, instant, text};

/// Which job.
#[derive(Args)]
pub struct ShowArgs {
    /// Name or id of the job
    job: String,

    /// Show this version of its definition instead of the present one
    #[arg(long, value_name = "N")]
    version: Option<u32>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: ShowArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let job = match args.version {
        None => client.get(&["v1", "jobs", &args.job])?,
        Some(version) => {
            let path = ["v1", "jobs", &args.job, "versions", &version.to_string()];
            let version = client.get(&path)?;
            let mut job = version["definition"].clone();
            job["updated_at"] = version["at"].clone();
            job["changed_by"] = version["by"].clone();
            job
        }
    };
    output::print_one(&args.asking.output, &job, "name", rows)
}

/// The fields of a job for display.
fn rows(job: &Value) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |word: &str, value: String| {
        if !value.is_empty() && value != "-" {
            rows.push((word.to_owned(), value));
        }
    };
    row("name", text(job, "name"));
    row("description", text(job, "description"));
    row("status", text(job, "status"));
    row("schedule", schedule(job));
    row("calendars", calendars(&job["calendars"]));
    row("next run", at(job, "next_run_time"));
    row("last run", at(job, "last_run_time"));
    row("last status", text(job, "last_status"));
    row("tags", words(&job["tags"]));
    let depends_on = words(&job["depends_on"]);
    row(
        "depends on",
        match text(job, "dependency_rule").as_str() {
            "ANY" => format!("any of {depends_on}"),
            _ => depends_on,
        },
    );
    if let Value::Object(payload) = &job["payload"] {
        row("action", text(&job["payload"], "type"));
        for (field, value) in payload.iter().filter(|(field, _)| *field != "type") {
            row(&format!("  {field}"), plain(value));
        }
    }
    if let Value::Object(rule) = &job["partition"] {
        row("partition", text(&job["partition"], "strategy"));
        for (field, value) in rule.iter().filter(|(field, _)| *field != "strategy") {
            row(&format!("  {field}"), if value.is_array() { words(value) } else { plain(value) });
        }
    }
    row("parameters", text(job, "parameters"));
    row("  from", text(&job["parameters_from"], "sql"));
    for rule in job["parameter_rules"].as_array().into_iter().flatten() {
        row("  declared", parameter_rule(rule));
    }
    row("pool", pool(&job["pool"]));
    row("attempts", text(&job["retry_config"], "max_attempts"));
    row("backoff", seconds(&job["retry_config"], "backoff_seconds"));
    row("timeout", seconds(job, "timeout_seconds"));
    row("grace period", seconds(job, "grace_period_seconds"));
    row("overlap", text(job, "overlap"));
    row("concurrency", text(job, "concurrency"));
    row("catch-up", text(job, "catch_up"));
    row("start deadline", seconds(job, "start_deadline_seconds"));
    row("jitter", seconds(job, "jitter_seconds"));
    row("priority", text(job, "priority"));
    let warnings = job["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    row("warnings", warnings.collect::<Vec<_>>().join("\n"));
    row("created", instant(job, "created_at"));
    row("changed", instant(job, "updated_at"));
    row("changed by", text(job, "changed_by"));
    row("version", text(job, "version"));
    row("id", text(job, "job_id"));
    rows
}

/// `exclude holidays:next, include workdays`.
fn calendars(uses: &Value) -> String {
    let one = |it: &Value| {
        let shift = match it["shift"].as_str() {
            None | Some("SKIP") => String::new(),
            Some(shift) => format!(":{}", shift.to_lowercase()),
        };
        let mode = it["mode"].as_str().unwrap_or("EXCLUDE").to_lowercase();
        format!("{mode} {}{shift}", text(it, "calendar"))
    };
    uses.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
}

fn pool(pool: &Value) -> String {
    match pool["weight"].as_u64() {
        None | Some(1) => text(pool, "name"),
        Some(weight) => format!("{} (weight {weight})", text(pool, "name")),
    }
}

/// A declared parameter: its name, its type, and its constraints.
fn parameter_rule(rule: &Value) -> String {
    let mut words = vec![text(rule, "name"), text(rule, "type").to_lowercase()];
    for (field, value) in rule.as_object().into_iter().flatten() {
        match value {
            _ if field == "name" || field == "type" => {}
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(field.clone()),
            value => words.push(format!("{field} {}", plain(value))),
        }
    }
    words.join(" ")
}

/// An instant, and how far it is.
fn at(item: &Value, field: &str) -> String {
    match item[field].is_string() {
        true => format!("{} ({})", instant(item, field), distance(item, field)),
        false => String::new(),
    }
}

fn seconds(item: &Value, field: &str) -> String {
    match &item[field] {
        Value::Null => String::new(),
        value => format!("{value} s"),
    }
}

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list, with commas between them.
fn words(list: &Value) -> String {
    let word = |item: &Value| match (&item["job"], &item["on"]) {
        (Value::String(job), Value::String(on)) => format!("{job} ({on})"),
        _ => plain(item),
    };
    list.as_array()
        .map(|items| items.iter().map(word).collect::<Vec<_>>().join(", "))
        .unwrap_or_default()
}
