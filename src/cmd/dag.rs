//! `punctual dag`: DAGs of a server, and their runs.

mod runs;
mod truth;

use clap::{Args, Subcommand};
use domain::schedule::parse_duration;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::job::{Asking, Waiting, parameters, wait};
use super::named::{ListArgs, Noun, OneArgs};
use crate::cli_error::CliError;
use crate::document;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, confirm, instant, text};
use crate::times;

pub use truth::VerifyCommand;
pub use truth::verify;

/// The verbs of `punctual dag`.
#[derive(Subcommand)]
pub enum DagCommand {
    /// List DAGs
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a DAG with its steps, level by level
    Show(OneArgs),
    /// Make DAGs from files
    Create(FileArgs),
    /// Check DAGs of files without making them: levels, critical path, next times
    Validate(FileArgs),
    /// Remove a DAG; its history remains
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Hold a DAG: no run of it starts until it is resumed
    Pause(OneArgs),
    /// Let a paused DAG go on
    Resume(OneArgs),
    /// Start a run now
    #[command(aliases = ["trigger", "start", "execute"])]
    Run(RunArgs),
    /// Run a DAG for times that have passed
    Backfill(BackfillArgs),
    /// List the runs of a DAG, newest first
    Runs(runs::RunsArgs),
    /// Show a run with its steps
    Status(runs::StatusArgs),
    /// Show a step of a run: inputs, result, attempts
    Step(runs::StepArgs),
    /// Cancel a run: no further step starts
    Cancel(runs::CancelArgs),
    /// Let a run go on that holds after a failure
    Continue(runs::ContinueArgs),
    /// Run a run again as a new one
    Rerun(runs::RerunArgs),
    /// Mark a step as completed or skipped
    Mark(runs::MarkArgs),
    /// Approve a step that waits for it
    Approve(runs::DecideArgs),
    /// Reject a step that waits for an approval
    Reject(runs::DecideArgs),
    /// Say why a run or a step is in its state, now or at a time in the past
    Explain(truth::ExplainArgs),
    /// Decide a run again by its recorded ends, or predict it with assumed outcomes
    Replay(truth::ReplayArgs),
    /// Compare two runs of a DAG
    Diff(truth::DiffArgs),
}

/// Which files.
#[derive(Args)]
#[command(after_help = "\
Example:
  punctual dag validate -f etl.yaml && punctual dag create -f etl.yaml

A document is the body of POST /v1/dags as YAML or JSON. punctual apply creates and changes DAGs.")]
pub struct FileArgs {
    /// File, folder or - for stdin; may be given several times
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    files: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

/// A DAG to be removed.
#[derive(Args)]
pub struct DeleteArgs {
    /// Name or id
    name: String,

    /// Also if others depend on it
    #[arg(long)]
    cascade: bool,

    /// Cancel its runs that have not ended
    #[arg(long)]
    cancel_running: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Which DAG, and whether to wait.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual dag run etl-pipeline
  punctual dag run etl-pipeline --param day=2026-01-31 --wait --timeout 1h

With --wait the exit code is 0 when the run completed, 7 when it did not, and 124 when --timeout
passed first; the run itself goes on then.")]
pub struct RunArgs {
    /// Name or id of the DAG
    dag: String,

    /// Value of the run's config, as JSON or as text; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// The time that the run stands for, instead of now
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    at: Option<Timestamp>,

    /// Wait for the jobs that it depends on
    #[arg(long)]
    with_dependencies: bool,

    /// Wait for the end of the run
    #[arg(short, long)]
    wait: bool,

    /// Give up waiting after this time
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = span)]
    timeout: Option<SignedDuration>,

    #[command(flatten)]
    asking: Asking,
}

fn span(text: &str) -> Result<SignedDuration, String> {
    parse_duration(text).map_err(|error| error.problem)
}

/// Which DAG, and which times.
#[derive(Args)]
pub struct BackfillArgs {
    /// Name or id of the DAG
    dag: String,

    /// The first time, itself included
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    from: Timestamp,

    /// The last time, itself included
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Timestamp,

    /// How many of the runs may be at work at a time; as many as the DAG allows by default
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,

    /// Newest first instead of oldest first
    #[arg(long)]
    newest_first: bool,

    /// Only print the times
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

const DAG: Noun = Noun {
    path: "dags",
    word: "DAG",
    name: "name",
    id: "dag_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "STATUS", cell: |it| text(it, "status") },
            Column { title: "STEPS", cell: |it| text(it, "task_count") },
            Column { title: "SCHEDULE", cell: |it| text(it, "schedule_text") },
            Column { title: "NEXT", cell: |it| instant(it, "next_run_time") },
            Column { title: "LAST", cell: |it| text(it, "last_status") },
        ],
        wide: &[
            Column { title: "LAST RUN", cell: |it| instant(it, "last_run_time") },
            Column { title: "VERSION", cell: |it| text(it, "version") },
        ],
        name: "name",
    },
    rows,
};

fn rows(it: &Value) -> Vec<(String, String)> {
    let mut rows = output::rows([
        ("name", text(it, "name")),
        ("status", text(it, "status")),
        ("description", text(it, "description")),
        ("schedule", text(it, "schedule_text")),
        ("next run", instant(it, "next_run_time")),
        ("last run", instant(it, "last_run_time")),
        ("last status", text(it, "last_status")),
        ("steps", text(it, "task_count")),
        ("max parallel", text(it, "max_parallel")),
        ("on failure", text(it, "on_task_failure")),
        ("queue", text(it, "queue")),
        ("version", text(it, "version")),
        ("id", text(it, "dag_id")),
    ]);
    let levels = it["levels"].as_array().into_iter().flatten();
    rows.extend(levels.enumerate().map(|(n, level)| (format!("level {n}"), names(level))));
    let warnings = it["warnings"].as_array().into_iter().flatten();
    rows.extend(warnings.filter_map(|it| Some(("warning".to_owned(), it.as_str()?.to_owned()))));
    rows
}

/// Names with commas between them.
fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

/// Runs the verb.
pub fn run(command: DagCommand) -> Result<(), Failure> {
    match command {
        DagCommand::List(args) => DAG.list(&args),
        DagCommand::Show(args) => DAG.show(&args),
        DagCommand::Create(args) => create(&args),
        DagCommand::Validate(args) => validate(&args),
        DagCommand::Delete(args) => delete(&args),
        DagCommand::Pause(args) => turn(&args, "pause", "paused"),
        DagCommand::Resume(args) => turn(&args, "resume", "resumed"),
        DagCommand::Run(args) => start(&args),
        DagCommand::Backfill(args) => backfill(&args),
        DagCommand::Runs(args) => runs::list(&args),
        DagCommand::Status(args) => runs::status(&args),
        DagCommand::Step(args) => runs::step(&args),
        DagCommand::Cancel(args) => runs::cancel(&args),
        DagCommand::Continue(args) => runs::go_on(&args),
        DagCommand::Rerun(args) => runs::rerun(&args),
        DagCommand::Mark(args) => runs::mark(&args),
        DagCommand::Approve(args) => runs::decide(&args, "APPROVE", "approved"),
        DagCommand::Reject(args) => runs::decide(&args, "REJECT", "rejected"),
        DagCommand::Explain(args) => truth::explain(&args),
        DagCommand::Replay(args) => truth::replay(&args),
        DagCommand::Diff(args) => truth::diff(&args),
    }
}

/// The bodies of the documents of files.
fn bodies(args: &FileArgs) -> Result<Vec<(String, Value)>, Failure> {
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(document::read(file)?);
    }
    document::check_names(&documents)?;
    let body = |mut document: document::Document| {
        document.fields.remove("kind");
        (document.source, Value::Object(document.fields))
    };
    Ok(documents.into_iter().map(body).collect())
}

fn create(args: &FileArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    for (source, body) in bodies(args)? {
        let made = client.post(&["v1", "dags"]).json(&body).send();
        let made = made.map_err(|failure| failure.about(&source))?;
        for warning in made["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            args.asking.output.say(&format!("warning: {warning}"));
        }
        let words = format!("created {}", text(&made, "name"));
        output::print_done(&args.asking.output, &made, "name", &words)?;
    }
    Ok(())
}

fn validate(args: &FileArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    for (source, body) in bodies(args)? {
        let found = client.post(&["v1", "dags", "validate"]).json(&body).send();
        let mut found = found.map_err(|failure| failure.about(&source))?;
        found["name"] = body["name"].clone();
        output::print_one(&args.asking.output, &found, "name", outlook)?;
    }
    Ok(())
}

fn outlook(it: &Value) -> Vec<(String, String)> {
    let mut rows = vec![
        ("name".to_owned(), text(it, "name")),
        ("steps".to_owned(), text(it, "task_count")),
        ("dependencies".to_owned(), text(it, "dependency_count")),
    ];
    let levels = it["levels"].as_array().into_iter().flatten();
    rows.extend(levels.enumerate().map(|(n, level)| (format!("level {n}"), names(level))));
    rows.push(("critical path".to_owned(), names(&it["critical_path"]).replace(", ", " -> ")));
    let seconds = |field: &str| it[field].as_f64().map(|seconds| format!("{seconds} s"));
    rows.extend(seconds("estimated_seconds").map(|it| ("estimated".to_owned(), it)));
    rows.extend(seconds("longest_seconds").map(|it| ("at most".to_owned(), it)));
    let next = it["next_runs"].as_array().into_iter().flatten().take(1);
    rows.extend(next.filter_map(|at| Some(("next run".to_owned(), at.as_str()?.to_owned()))));
    let warnings = it["warnings"].as_array().into_iter().flatten();
    rows.extend(warnings.filter_map(|it| Some(("warning".to_owned(), it.as_str()?.to_owned()))));
    rows
}

fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let dag = client.get(&["v1", "dags", &args.name])?;
    confirm(args.yes, &format!("Delete the DAG {}?", text(&dag, "name")))?;
    let id = text(&dag, "dag_id");
    let mut call = client.call(Method::DELETE, &["v1", "dags", &id]);
    if args.cascade {
        call = call.query("cascade", "true");
    }
    if args.cancel_running {
        call = call.query("cancel_running", "true");
    }
    call.if_version(dag["version"].as_u64()).send()?;
    let words = format!("deleted {}", text(&dag, "name"));
    output::print_done(&args.asking.output, &dag, "name", &words)
}

fn turn(args: &OneArgs, verb: &str, done: &str) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let dag = client.post(&["v1", "dags", &args.name, verb]).send()?;
    let words = format!("{done} {}", text(&dag, "name"));
    output::print_done(&args.asking.output, &dag, "name", &words)
}

fn start(args: &RunArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut body = Map::new();
    if !args.parameters.is_empty() {
        body.insert("config".into(), parameters(&args.parameters)?);
    }
    if let Some(at) = args.at {
        body.insert("scheduled_time".into(), at.to_string().into());
    }
    if args.with_dependencies {
        body.insert("with_dependencies".into(), true.into());
    }
    let accepted = client.post(&["v1", "dags", &args.dag, "trigger"]);
    let accepted = accepted.json(&Value::Object(body)).send()?;
    let id = text(&accepted, "dag_run_id");
    if !args.wait {
        return runs::print_started(&args.asking, &accepted, &id);
    }
    args.asking.output.say(&format!("run {id} of {}", args.dag));
    wait(&client, &id, &Waiting { timeout: args.timeout, log_from: None })?;
    let ended = runs::whole(&client, &id, false)?;
    runs::print(&args.asking, &ended)?;
    super::job::outcome(&ended)
}

fn backfill(args: &BackfillArgs) -> Result<(), Failure> {
    if args.from > args.until {
        let error = CliError::new("--until is before --from");
        return Err(error.hint("exchange the two").into());
    }
    let client = args.asking.client()?;
    let path = ["v1", "dags", &args.dag, "backfill"];
    let body = |dry_run| {
        json!({
            "from": args.from.to_string(), "until": args.until.to_string(),
            "newest_first": args.newest_first, "dry_run": dry_run,
            "concurrency": args.concurrency,
        })
    };
    let mut answer = client.post(&path).json(&body(true)).send()?;
    let count = answer["count"].as_u64().unwrap_or(0);
    if !args.dry_run && count > 0 {
        confirm(args.yes, &format!("Run {} for {count} times that have passed?", args.dag))?;
        answer = client.post(&path).json(&body(false)).send_whenever()?;
    }
    let item = |at: &Value| json!({ "scheduled_time": at });
    let times = answer["scheduled_times"].as_array().into_iter().flatten().map(item);
    let times: Vec<Value> = times.collect();
    let shape = Shape {
        columns: &[Column { title: "SCHEDULED", cell: |it| text(it, "scheduled_time") }],
        wide: &[],
        name: "scheduled_time",
    };
    output::print_list(&args.asking.output, &times, &shape)
}
