//! Runs of DAGs: listed, shown, cancelled, run again; steps marked and approved.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli_error::{CliError, visible};
use crate::client::Client;
use crate::cmd::job::Asking;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Format, Shape, duration, instant, text};

/// Which runs.
#[derive(Args)]
pub struct RunsArgs {
    /// Name or id of the DAG
    dag: String,

    /// Only in these states: PENDING, QUEUED, RUNNING, COMPLETED, FAILED …
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    status: Vec<String>,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// Which run.
#[derive(Args)]
pub struct StatusArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Also the items of steps that run once for each item
    #[arg(long)]
    items: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Which step of which run.
#[derive(Args)]
pub struct StepArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Name of the step
    step: String,

    /// Position of the item, from 0
    #[arg(long, value_name = "N")]
    item: Option<u32>,

    #[command(flatten)]
    asking: Asking,
}

/// Which run is cancelled.
#[derive(Args)]
pub struct CancelArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Reason of the cancellation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

/// Which run goes on.
#[derive(Args)]
pub struct ContinueArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    #[command(flatten)]
    asking: Asking,
}

/// Which run is repeated, and how.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual dag rerun etl-pipeline --dry-run
  punctual dag rerun 01996c2e --from transform --latest")]
pub struct RerunArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Where it begins: the name of a step, and everything behind it [default: what did not
    /// complete, and everything behind it]
    #[arg(long, value_name = "STEP", conflicts_with = "all")]
    from: Option<String>,

    /// Run every step again
    #[arg(long)]
    all: bool,

    /// Follow the present version of the DAG instead of that of the run
    #[arg(long)]
    latest: bool,

    /// Run this step although its rule would skip it; may be given several times
    #[arg(long, value_name = "STEP")]
    force: Vec<String>,

    /// Only print what would run, be adopted and be removed
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    asking: Asking,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mark {
    Completed,
    Skipped,
}

/// Which step is marked.
#[derive(Args)]
pub struct MarkArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Name of the step
    step: String,

    /// Outcome that the step counts as
    #[arg(long = "as", value_name = "STATE", value_enum)]
    mark: Mark,

    /// Position of the item, from 0
    #[arg(long, value_name = "N")]
    item: Option<u32>,

    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,

    #[command(flatten)]
    asking: Asking,
}

/// Which approval is answered.
#[derive(Args)]
pub struct DecideArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Name of the step
    step: String,

    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,

    #[command(flatten)]
    asking: Asking,
}

const RUNS: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |it| text(it, "dag_run_id") },
        Column { title: "STATUS", cell: |it| text(it, "status") },
        Column { title: "SCHEDULED", cell: |it| instant(it, "scheduled_time") },
        Column { title: "DURATION", cell: |it| duration(it, "duration_ms") },
        Column { title: "REASON", cell: |it| text(it, "reason_message") },
    ],
    wide: &[
        Column { title: "VERSION", cell: |it| text(it, "dag_version") },
        Column { title: "ORIGIN", cell: |it| text(it, "origin") },
    ],
    name: "dag_run_id",
};

const STEPS: Shape = Shape {
    columns: &[
        Column { title: "STEP", cell: label },
        Column { title: "KIND", cell: |it| text(it, "kind") },
        Column { title: "STATUS", cell: |it| text(it, "status") },
        Column { title: "ATTEMPTS", cell: |it| text(it, "attempt_number") },
        Column { title: "DURATION", cell: |it| duration(it, "duration_ms") },
        Column { title: "REASON", cell: why },
    ],
    wide: &[Column { title: "RUN", cell: |it| text(it, "execution_id") }],
    name: "task",
};

/// `load`, `load[3]`.
fn label(it: &Value) -> String {
    match it["item"].as_u64() {
        Some(item) => format!("{}[{item}]", text(it, "task")),
        None => text(it, "task"),
    }
}

fn why(it: &Value) -> String {
    let why = ["error_message", "reason_message"].map(|field| text(it, field));
    why.into_iter().find(|why| !why.is_empty()).unwrap_or_default()
}

/// The id of a run: by its begin, or the newest run of a DAG.
pub(super) fn resolve(client: &Client, run: &str) -> Result<String, Failure> {
    let asked = client.call(reqwest::Method::GET, &["v1", "dag-runs", run]);
    match asked.query("limit", "1").send() {
        Ok(found) => Ok(text(&found, "dag_run_id")),
        Err(Failure::Ended(Exit::NotFound, none)) => {
            let (runs, _) = match client.list(&["v1", "dags", run, "runs"], &[], Some(1)) {
                Err(Failure::Ended(Exit::NotFound, _)) => {
                    return Err(Failure::Ended(Exit::NotFound, none));
                }
                runs => runs?,
            };
            let none = || CliError::new(format!("the DAG {run} has no run"));
            let newest = runs.first().map(|run| text(run, "dag_run_id"));
            newest.ok_or_else(|| Failure::Ended(Exit::NotFound, none()))
        }
        Err(failure) => Err(failure),
    }
}

/// A run with all of its steps, and the items of each behind it.
pub(super) fn whole(client: &Client, id: &str, items: bool) -> Result<Value, Failure> {
    let (mut run, steps) = tasks(client, id, None)?;
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        let name = (items && step["items"].as_u64() > Some(0)).then(|| text(&step, "task"));
        all.push(step);
        if let Some(name) = name {
            all.extend(tasks(client, id, Some(&name))?.1);
        }
    }
    run["tasks"] = Value::Array(all);
    run["next_cursor"] = Value::Null;
    Ok(run)
}

/// A run, and all of its steps or all items of one.
fn tasks(client: &Client, id: &str, of: Option<&str>) -> Result<(Value, Vec<Value>), Failure> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut call = client.call(reqwest::Method::GET, &["v1", "dag-runs", id]);
        call = call.query("limit", "500");
        if let Some(step) = of {
            call = call.query("items_of", step);
        }
        if let Some(cursor) = &cursor {
            call = call.query("cursor", cursor);
        }
        let mut page = call.send()?;
        if let Some(tasks) = page["tasks"].as_array_mut() {
            all.append(tasks);
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok((page, all));
        }
    }
}

/// Prints a run with its steps.
pub(super) fn print(asking: &Asking, run: &Value) -> Result<(), Failure> {
    if !asking.output.is_table() {
        return output::print_one(&asking.output, run, "dag_run_id", |_| Vec::new());
    }
    output::print_one(&asking.output, run, "dag_run_id", rows)?;
    writeln!(io::stdout())?;
    let steps = run["tasks"].as_array().cloned().unwrap_or_default();
    output::print_list(&asking.output, &steps, &STEPS)
}

fn rows(it: &Value) -> Vec<(String, String)> {
    let path = it["critical_path"].as_array().into_iter().flatten().map(label);
    let path: Vec<String> = path.collect();
    let counts = &it["counts"];
    let count = |field: &str| text(counts, field);
    let counts = format!(
        "{} completed, {} failed, {} skipped, {} open, {} pending",
        count("completed"),
        count("failed"),
        count("skipped"),
        count("open"),
        count("pending")
    );
    output::rows([
        ("run", text(it, "dag_run_id")),
        ("dag", format!("{} (version {})", text(it, "dag_name"), text(it, "dag_version"))),
        ("status", text(it, "status")),
        ("control", text(it, "control")),
        ("reason", text(it, "reason_message")),
        ("scheduled", instant(it, "scheduled_time")),
        ("started", instant(it, "started_at")),
        ("ended", instant(it, "completed_at")),
        ("expected end", instant(it, "expected_end")),
        ("repeats", text(it, "rerun_of")),
        ("steps", counts),
        ("critical path", path.join(" -> ")),
    ])
}

/// The id of a run that was accepted: it is what the next command needs.
pub(super) fn print_started(asking: &Asking, accepted: &Value, id: &str) -> Result<(), Failure> {
    match asking.output.format() {
        Format::Table | Format::Wide => Ok(writeln!(io::stdout(), "{}", visible(id))?),
        _ => output::print_one(&asking.output, accepted, "dag_run_id", |_| Vec::new()),
    }
}

pub(super) fn list(args: &RunsArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut filters = Vec::new();
    if !args.status.is_empty() {
        filters.push(("status", args.status.join(",").to_ascii_uppercase()));
    }
    let path = ["v1", "dags", &args.dag, "runs"];
    let (runs, is_more) = client.list(&path, &filters, Some(args.limit))?;
    output::print_list(&args.asking.output, &runs, &RUNS)?;
    if is_more {
        args.asking.output.say("note: there are more runs; see --limit");
    }
    Ok(())
}

pub(super) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    print(&args.asking, &whole(&client, &id, args.items)?)
}

pub(super) fn step(args: &StepArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let path = ["v1", "dag-runs", &id, "tasks", &args.step];
    let mut call = client.call(reqwest::Method::GET, &path);
    if let Some(item) = args.item {
        call = call.query("item", &item.to_string());
    }
    let step = call.send()?;
    output::print_one(&args.asking.output, &step, "task", |it| {
        let attempts = it["attempts"].as_array().into_iter().flatten();
        let attempt = |it: &Value| {
            let message = text(it, "message");
            let message = if message.is_empty() { text(it, "error_name") } else { message };
            let words = format!("{} {} {message}", text(it, "status"), duration(it, "duration_ms"));
            (format!("attempt {}", text(it, "attempt_number")), words)
        };
        let json = |field: &str| match &it[field] {
            Value::Null => String::new(),
            value => value.to_string(),
        };
        let mut rows = output::rows([
            ("step", label(it)),
            ("kind", text(it, "kind")),
            ("status", text(it, "status")),
            ("reason", why(it)),
            ("items", text(it, "items")),
            ("decided by", text(it, "decided_by")),
            ("started", instant(it, "started_at")),
            ("ended", instant(it, "completed_at")),
            ("inputs", json("inputs")),
            ("result", json("result")),
            ("run", text(it, "execution_id")),
        ]);
        rows.extend(attempts.map(attempt));
        rows
    })
}

pub(super) fn cancel(args: &CancelArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let body = args.reason.as_ref().map_or(json!({}), |reason| json!({ "reason": reason }));
    let run = client.post(&["v1", "dag-runs", &id, "cancel"]).json(&body).send()?;
    let words = format!("cancelled {id}");
    output::print_done(&args.asking.output, &run, "dag_run_id", &words)
}

pub(super) fn go_on(args: &ContinueArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let run = client.post(&["v1", "dag-runs", &id, "resume"]).send()?;
    output::print_done(&args.asking.output, &run, "dag_run_id", &format!("{id} goes on"))
}

pub(super) fn rerun(args: &RerunArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let mut body = json!({
        "version": if args.latest { "LATEST" } else { "SAME" },
        "force": args.force,
        "dry_run": args.dry_run,
    });
    match &args.from {
        Some(step) => body["from_task"] = json!(step),
        None => body["from"] = json!(if args.all { "ALL" } else { "FAILED" }),
    }
    let report = client.post(&["v1", "dag-runs", &id, "rerun"]).json(&body).send()?;
    if !args.dry_run && args.asking.output.is_table() {
        return print_started(&args.asking, &report, &text(&report, "dag_run_id"));
    }
    output::print_one(&args.asking.output, &report, "dag_run_id", |it| {
        let adopted = it["adopted"].as_array().into_iter().flatten();
        let adopted = adopted.map(|it| format!("{} ({})", text(it, "task"), text(it, "status")));
        let adopted = adopted.collect::<Vec<_>>().join(", ");
        vec![
            ("runs again".to_owned(), super::names(&it["again"])),
            ("adopted".to_owned(), adopted),
            ("removed".to_owned(), super::names(&it["removed"])),
        ]
    })
}

pub(super) fn mark(args: &MarkArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let status = match args.mark {
        Mark::Completed => "COMPLETED",
        Mark::Skipped => "SKIPPED",
    };
    let body = json!({ "status": status, "item": args.item, "note": args.note });
    let path = ["v1", "dag-runs", &id, "tasks", &args.step, "mark"];
    let step = client.post(&path).json(&body).send()?;
    let words = format!("marked {} as {status}", args.step);
    output::print_done(&args.asking.output, &step, "task", &words)
}

pub(super) fn decide(args: &DecideArgs, answer: &str, done: &str) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let body = json!({ "answer": answer, "note": args.note });
    let path = ["v1", "dag-runs", &id, "tasks", &args.step, "decide"];
    let step = client.post(&path).json(&body).send()?;
    output::print_done(&args.asking.output, &step, "task", &format!("{done} {}", args.step))
}
