//! Runs of DAGs explained, replayed, compared and verified.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::runs::resolve;
use crate::cli_error::{CliError, visible};
use crate::cmd::job::Asking;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Shape, text};
use crate::times;

/// Which run or step.
#[derive(Args)]
pub struct ExplainArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Name of a step
    step: Option<String>,

    /// Position of the item, from 0
    #[arg(long, value_name = "N", requires = "step")]
    item: Option<u32>,

    /// The time in question, in the past
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    at: Option<Timestamp>,

    #[command(flatten)]
    asking: Asking,
}

/// Which run, and what is assumed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual dag replay etl-pipeline
  punctual dag replay etl-pipeline --assume transform=FAILED --slots 8")]
pub struct ReplayArgs {
    /// Id of the run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// An outcome that a step is assumed to have had; may be given several times
    #[arg(long, value_name = "STEP=OUTCOME")]
    assume: Vec<String>,

    /// How many steps can execute at the same time
    #[arg(long, value_name = "N")]
    slots: Option<u32>,

    #[command(flatten)]
    asking: Asking,
}

/// Which runs are compared.
#[derive(Args)]
pub struct DiffArgs {
    /// Id of the one run, its begin, or the name of a DAG, whose newest run is meant
    run: String,

    /// Id of the other run, or its begin
    other: String,

    #[command(flatten)]
    asking: Asking,
}

/// Subcommands of `punctual verify`.
#[derive(Subcommand)]
pub enum VerifyCommand {
    /// Verify that every step of recorded DAG runs has exactly one outcome
    DagRuns(VerifyArgs),
}

/// Which DAG runs.
#[derive(Args)]
pub struct VerifyArgs {
    /// Only runs of this DAG
    #[arg(long, value_name = "DAG")]
    dag: Option<String>,

    /// Only runs for this time and later
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    since: Option<Timestamp>,

    /// Verify at most this many runs, the newest
    #[arg(long, value_name = "N", default_value_t = 500)]
    limit: u32,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let mut path = vec!["v1", "dag-runs", &id];
    if let Some(step) = &args.step {
        path.extend(["tasks", step]);
    }
    path.push("explain");
    let mut call = client.call(Method::GET, &path);
    if let Some(item) = args.item {
        call = call.query("item", &item.to_string());
    }
    if let Some(at) = args.at {
        call = call.query("at", &at.to_string());
    }
    let answer = call.send()?;
    if !args.asking.output.is_table() {
        return output::print_one(&args.asking.output, &answer, "dag_run_id", |_| Vec::new());
    }
    let mut out = io::stdout().lock();
    for line in answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        writeln!(out, "{}", visible(line))?;
    }
    Ok(())
}

pub(super) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let mut assume = Map::new();
    for text in &args.assume {
        let Some((step, outcome)) = text.split_once('=') else {
            let error = CliError::new(format!("--assume {text:?} has no outcome"));
            return Err(error.hint("write STEP=OUTCOME, for example load=FAILED").into());
        };
        assume.insert(step.to_owned(), outcome.to_ascii_uppercase().into());
    }
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let body = json!({ "assume": assume, "slots": args.slots });
    let report = client.post(&["v1", "dag-runs", &id, "replay"]).json(&body).send()?;
    output::print_one(&args.asking.output, &report, "reproduced", |it| {
        let mut rows = vec![("reproduced".to_owned(), text(it, "reproduced"))];
        let differences = it["differences"].as_array().into_iter().flatten();
        rows.extend(differences.map(|it| {
            let words = format!("{}, now {}", text(it, "recorded"), text(it, "decided"));
            (text(it, "task"), words)
        }));
        let predicted = it["predicted"].as_array().into_iter().flatten();
        rows.extend(predicted.map(|it| (text(it, "task"), text(it, "status"))));
        let seconds = it["duration_seconds"].as_f64();
        rows.extend(seconds.map(|seconds| ("duration".to_owned(), format!("{seconds:.3} s"))));
        rows
    })?;
    match report["differences"].as_array().map_or(0, Vec::len) {
        0 => Ok(()),
        count => {
            let text = format!("{count} decisions of run {id} are not reproduced");
            Err(Failure::Ended(Exit::Failed, CliError::new(text)))
        }
    }
}

pub(super) fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = resolve(&client, &args.run)?;
    let call = client.call(Method::GET, &["v1", "dag-runs", &id, "diff"]);
    let found = call.query("with", &args.other).send()?;
    if !args.asking.output.is_table() {
        return output::print_one(&args.asking.output, &found, "first_difference", |_| Vec::new());
    }
    let steps = found["tasks"].as_array().cloned().unwrap_or_default();
    let shape = Shape {
        columns: &[
            Column { title: "STEP", cell: |it| text(it, "task") },
            Column { title: "STATUS", cell: |it| both(&it["status"]) },
            Column { title: "MS", cell: |it| both(&it["duration_ms"]) },
            Column { title: "DEFINITION", cell: |it| compared(&it["definition_hash"]) },
            Column { title: "INPUTS", cell: |it| compared(&it["input_hash"]) },
        ],
        wide: &[],
        name: "task",
    };
    output::print_list(&args.asking.output, &steps, &shape)
}

fn both(pair: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (one, other) = (shown(&pair[0]), shown(&pair[1]));
    if one == other { one } else { format!("{one} / {other}") }
}

fn compared(pair: &Value) -> String {
    (if pair[0] == pair[1] { "same" } else { "differ" }).to_owned()
}

/// Runs `punctual verify`.
pub fn verify(command: &VerifyCommand) -> Result<(), Failure> {
    let VerifyCommand::DagRuns(args) = command;
    let client = args.asking.client()?;
    let mut call = client.call(Method::GET, &["v1", "dag-runs", "verify"]);
    call = call.query("limit", &args.limit.to_string());
    if let Some(dag) = &args.dag {
        call = call.query("dag", dag);
    }
    if let Some(since) = args.since {
        call = call.query("since", &since.to_string());
    }
    let found = call.send()?;
    let words = format!("verified {} runs with {} steps", found["runs"], found["tasks"]);
    output::print_done(&args.asking.output, &found, "runs", &words)?;
    let problems: Vec<&str> =
        found["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match problems.first() {
        None => Ok(()),
        Some(first) => {
            for problem in &problems[1..] {
                args.asking.output.say(problem);
            }
            Err(Failure::Ended(Exit::Failed, CliError::new((*first).to_owned())))
        }
    }
}
