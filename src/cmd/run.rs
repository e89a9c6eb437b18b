//! `punctual run`: runs of jobs.

mod cancel;
mod decide;
mod explain;
mod list;
mod logs;
mod retry;
mod show;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use uuid::Uuid;

use crate::cli_error::CliError;
use crate::client::Client;
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
    /// Explain why a run is in its state
    Explain(explain::ExplainArgs),
    /// Print the output of a run
    #[command(aliases = ["log", "output"])]
    Logs(logs::LogsArgs),
    /// Cancel runs, also before they start
    #[command(aliases = ["stop", "kill"])]
    Cancel(cancel::CancelArgs),
    /// Decide what becomes of a run that is HELD because its node was lost
    Decide(decide::DecideArgs),
    /// Start ended runs again
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
        RunCommand::Decide(args) => decide::run(args),
        RunCommand::Retry(args) => retry::run(args),
    }
}

/// Whether nothing more happens to a run.
pub fn is_ended(run: &Value) -> bool {
    !matches!(run["status"].as_str(), Some("PENDING" | "QUEUED" | "RUNNING" | "HELD"))
}

/// The filter that leaves out what is planned for later. The server's clock may be a little ahead
/// of this machine's.
fn until_now() -> (&'static str, String) {
    let slack = SignedDuration::from_secs(2);
    ("until", clock::now().saturating_add(slack).unwrap_or(Timestamp::MAX).to_string())
}

/// So many runs of a job may be planned for the two seconds that clocks may differ.
const PLANNED_MAX: usize = 20;

/// Whether a run is planned for a time to come.
fn is_to_come(run: &Value, now: Timestamp) -> bool {
    let time = run["scheduled_time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    run["status"] == "PENDING" && time.is_some_and(|time| time > now)
}

/// The id of the newest run of a job whose time has come.
fn newest(client: &Client, job: &str) -> Result<String, Failure> {
    let path = ["v1", "jobs", job, "executions"];
    let (runs, _) = client.list(&path, &[until_now()], Some(PLANNED_MAX))?;
    let now = clock::now();
    let due = runs.iter().find(|run| !is_to_come(run, now)).or(runs.first());
    match due.and_then(|run| run["execution_id"].as_str()) {
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
        Err(Failure::Ended(Exit::NotFound, error)) if !error.has_hint() => error,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_planned_run_is_not_the_last_one() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        for (status, time, expected) in [
            ("PENDING", "2026-01-01T00:00:11Z", true),
            ("PENDING", "2026-01-01T00:00:10Z", false),
            ("QUEUED", "2026-01-01T00:00:11Z", false),
            ("COMPLETED", "2026-01-01T00:00:11Z", false),
            ("PENDING", "", false),
        ] {
            let run = json!({"status": status, "scheduled_time": time});
            assert_eq!(is_to_come(&run, now), expected, "{run}");
        }
    }
}
