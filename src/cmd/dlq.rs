//! `punctual dlq`: runs that failed for good and wait for somebody to look at them.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::job::{Asking, print_accepted};
use super::run::SHAPE;
use crate::client::Client;
use crate::complaint::Complaint;
use crate::exit::Failure;
use crate::output::{self, confirm, text};

/// The verbs of `punctual dlq`.
#[derive(Subcommand)]
pub enum DlqCommand {
    /// List dead letters: runs whose last attempt failed
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Start dead letters once more
    Redrive(RedriveArgs),
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
pub struct RedriveArgs {
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
        DlqCommand::Redrive(args) => redrive(args),
    }
}

fn redrive(args: RedriveArgs) -> Result<(), Failure> {
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
        confirm(args.yes, &format!("Start {} dead letters once more?", ids.len()))?;
    }
    let mut failed = 0;
    for id in &ids {
        match client.post(&["v1", "executions", id, "retry"]).send() {
            Ok(accepted) => {
                print_accepted(&args.asking, &accepted, &text(&accepted, "execution_id"))?;
            }
            // One that cannot be started does not keep the others.
            Err(Failure::Ended(_, complaint)) if ids.len() > 1 => {
                complaint.print()?;
                failed += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Ended(
            crate::exit::Exit::Failed,
            Complaint::new(format!("{failed} of {} could not be started", ids.len())),
        )),
    }
}

fn find(
    client: &Client,
    job: Option<&str>,
    limit: Option<usize>,
) -> Result<(Vec<Value>, bool), Failure> {
    let filters: Vec<_> = job.map(|job| ("job", job.to_owned())).into_iter().collect();
    client.list(&["v1", "dead-letters"], &filters, limit)
}
