//! `punctual dlq`: manages dead letters, the runs that failed for good.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::job::Asking;
use super::run::SHAPE;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Shape, confirm, text};

/// The most dead letters that one request names.
const REQUEST_MAX: usize = 1_000;

/// The verbs of `punctual dlq`.
#[derive(Subcommand)]
pub enum DlqCommand {
    /// List dead letters: runs whose last attempt failed
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Start dead letters again, as new runs
    Redrive(SettleArgs),
    /// Acknowledge dead letters: they leave the list
    #[command(visible_alias = "ack")]
    Acknowledge(SettleArgs),
}

/// Which dead letters.
#[derive(Args)]
pub struct ListArgs {
    /// Only those of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// Which dead letters.
#[derive(Args)]
pub struct SettleArgs {
    /// Ids of runs
    #[arg(value_name = "RUN", required_unless_present = "all", conflicts_with = "all")]
    runs: Vec<String>,

    /// All of them
    #[arg(long)]
    all: bool,

    /// Only those of this job
    #[arg(long, value_name = "JOB", requires = "all")]
    job: Option<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Runs the verb.
pub fn run(command: DlqCommand) -> Result<(), Failure> {
    match command {
        DlqCommand::List(args) => {
            let client = args.asking.client()?;
            let (runs, is_more) = find(&client, args.job.as_deref(), Some(args.limit))?;
            output::print_list(&args.asking.output, &runs, &SHAPE)?;
            if is_more {
                args.asking.output.say("note: there are more dead letters; see --limit");
            }
            Ok(())
        }
        DlqCommand::Redrive(args) => settle(args, "redrive"),
        DlqCommand::Acknowledge(args) => settle(args, "acknowledge"),
    }
}

/// Asks the server to do something to dead letters, and prints what became of each.
fn settle(args: SettleArgs, verb: &str) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let ids: Vec<String> = if args.all {
        let (runs, _) = find(&client, args.job.as_deref(), None)?;
        runs.iter().map(|run| text(run, "execution_id")).collect()
    } else {
        args.runs.clone()
    };
    if ids.is_empty() {
        args.asking.output.say("there are no dead letters");
        return Ok(());
    }
    if args.all {
        let (verb, count) = (if verb == "redrive" { "Start" } else { "Settle" }, ids.len());
        confirm(args.yes, &format!("{verb} {count} dead letters?"))?;
    }
    let mut items = Vec::with_capacity(ids.len());
    for ids in ids.chunks(REQUEST_MAX) {
        let body = json!({"execution_ids": ids});
        let mut answer =
            client.post(&["v1", &format!("dead-letters:{verb}")]).json(&body).send()?;
        match answer["data"].take() {
            Value::Array(more) => items.extend(more),
            _ => return Err(Failure::failed("the server's response has no results")),
        }
    }
    output::print_list(&args.asking.output, &items, &SETTLED)?;
    match items.iter().filter(|item| item["ok"] != true).count() {
        0 => Ok(()),
        n => Err(Failure::Ended(
            Exit::Failed,
            CliError::new(format!("{n} of {} could not be changed", items.len())),
        )),
    }
}

const SETTLED: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |item| text(item, "execution_id") },
        Column {
            title: "DONE",
            cell: |item| if item["ok"] == true { "yes".into() } else { "no".into() },
        },
        Column { title: "NEW ID", cell: |item| text(item, "new_execution_id") },
        Column { title: "MESSAGE", cell: |item| text(item, "message") },
    ],
    wide: &[],
    name: "new_execution_id",
};

fn find(
    client: &Client,
    job: Option<&str>,
    limit: Option<usize>,
) -> Result<(Vec<Value>, bool), Failure> {
    let filters: Vec<_> = job.map(|job| ("job", job.to_owned())).into_iter().collect();
    client.list(&["v1", "dead-letters"], &filters, limit)
}
