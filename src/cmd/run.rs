//! `punctual run`: runs of jobs.

mod cancel;
mod explain;
mod list;
mod logs;
mod retry;
mod show;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use uuid::Uuid;

use crate::client::Client;
use crate::complaint::CliError;
use crate::exit::{Exit, Failure};
use crate::{clock, output};

pub use list::{SHAPE, node, short_id};
pub use logs::follow;

/// The verbs of `punctual run`.
#[derive(Subcommand)]
pub enum RunCommand {
    /// List runs, newest first
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show a run and its attempts
    #[command(aliases = ["describe", "get"])]
    Show(show::ShowArgs),
    /// Say why a run is in its state: what it waits for, or what it came to
    Explain(explain::ExplainArgs),
    /// Print what a run wrote
    #[command(aliases = ["log", "output"])]
    Logs(logs::LogsArgs),
    /// Stop runs, or keep them from starting
    #[command(aliases = ["stop", "kill"])]
    Cancel(cancel::CancelArgs),
    /// Start ended runs once more
    #[command(alias = "rerun")]
    Retry(retry::RetryArgs),
}

/// Runs the verb.
pub fn run(command: RunCommand) -> Result<(), Failure> {
    match command {
        RunCommand::List(args) => list::run(args),
        RunCommand::Show(args) => show::run(args),
        RunCommand::Explain(args) => explain::run(args),
        RunCommand::Logs(args) => logs::run(args),
        RunCommand::Cancel(args) => cancel::run(args),
        RunCommand::Retry(args) => retry::run(args),
    }
}

/// Whether nothing more happens to a run.
pub fn is_ended(run: &Value) -> bool {
    !matches!(run["status"].as_str(), Some("PENDING" | "QUEUED" | "RUNNING"))
}

/// The filter that leaves out what is planned for later. The server's clock may be a little ahead
/// of this machine's.
fn until_now() -> (&'static str, String) {
    let slack = SignedDuration::from_secs(2);
    ("until", clock::now().saturating_add(slack).unwrap_or(Timestamp::MAX).to_string())
}

/// The id of the newest run of a job whose time has come.
fn newest(client: &Client, job: &str) -> Result<String, Failure> {
    let (runs, _) = client.list(&["v1", "jobs", job, "executions"], &[until_now()], Some(1))?;
    match runs.first().and_then(|run| run["execution_id"].as_str()) {
        Some(id) => Ok(id.to_owned()),
        None => Err(Failure::Ended(
            Exit::NotFound,
            CliError::new(format!("{job} has not run yet"))
                .hint(format!("start a run with: punctual job run {job}")),
        )),
    }
}

/// The id of the run that a text means: an id, the begin of one, or the name of a job, whose newest
/// run is meant.
fn resolve(client: &Client, text: &str) -> Result<String, Failure> {
    if text.parse::<Uuid>().is_ok() {
        return Ok(text.to_owned());
    }
    let no_job = match newest(client, text) {
        Err(Failure::Ended(Exit::NotFound, complaint)) if !complaint.has_hint() => complaint,
        found => return found,
    };
    match client.get(&["v1", "executions", text]) {
        Ok(run) => Ok(output::text(&run, "execution_id")),
        Err(Failure::Ended(Exit::NotFound, _)) => {
            let message =
                format!("there is no run whose id begins with {text:?}, and {}", no_job.message());
            Err(Failure::Ended(Exit::NotFound, CliError::new(message)))
        }
        Err(failure) => Err(failure),
    }
}
