//! `punctual run show`: one run and its attempts.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{newest, resolve};
use crate::cmd::job::Asking;
use crate::exit::Failure;
use crate::output::{self, duration, instant, text};
use crate::table;

/// Which run.
#[derive(Args)]
pub struct ShowArgs {
    /// Id of the run or the begin of it, or the name of a job: its newest run
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    run: Option<String>,

    /// The newest run of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: ShowArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let id = match (&args.run, &args.job) {
        (Some(text), _) => resolve(&client, text)?,
        (None, job) => newest(&client, job.as_deref().unwrap_or_default())?,
    };
    let run = client.get(&["v1", "executions", &id])?;
    output::print_one(&args.asking.output, &run, "execution_id", rows)?;
    let attempts = run["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if args.asking.output.is_table() && !attempts.is_empty() {
        let header = ["ATTEMPT", "STATUS", "STARTED", "DURATION", "ERROR", "MESSAGE"];
        let row = |attempt: &Value| {
            let cells = [
                text(attempt, "attempt_number"),
                text(attempt, "status"),
                instant(attempt, "started_at"),
                duration(attempt, "duration_ms"),
                text(attempt, "error_name"),
                text(attempt, "message"),
            ];
            cells.iter().map(|cell| crate::cli_error::visible(cell)).collect()
        };
        let mut out = io::stdout().lock();
        writeln!(out)?;
        table::print(&mut out, "", &header, attempts.iter().map(row))?;
    }
    Ok(())
}

/// How far the parts of a run have come.
fn parts(run: &Value) -> String {
    let parts = &run["parts"];
    match parts["failed"].as_u64() {
        None => String::new(),
        Some(0) => format!("{} of {} done", parts["completed"], parts["total"]),
        Some(failed) => {
            format!("{} of {} done, {failed} failed", parts["completed"], parts["total"])
        }
    }
}

/// The fields of a run for display.
fn rows(run: &Value) -> Vec<(String, String)> {
    output::rows([
        ("run", text(run, "execution_id")),
        ("job", text(run, "job_name")),
        ("status", text(run, "status")),
        ("reason", text(run, "reason")),
        ("because", text(run, "reason_message")),
        ("error", text(run, "error_name")),
        ("message", format!("{}{}", text(run, "error_message"), text(run, "message"))),
        ("shard", text(run, "shard")),
        ("part of", text(run, "parent_id")),
        ("parts", parts(run)),
        ("origin", text(run, "origin").to_ascii_lowercase().replace('_', " ")),
        ("requested by", text(run, "requested_by")),
        ("scheduled", instant(run, "scheduled_time")),
        ("started", instant(run, "started_at")),
        ("ended", instant(run, "completed_at")),
        ("duration", duration(run, "duration_ms")),
        ("result", text(run, "result")),
        ("rows", text(run, "rows_affected")),
        ("exactly once", if run["exactly_once"] == true { "yes".into() } else { String::new() }),
        ("backfill concurrency", text(run, "backfill_concurrency")),
        ("parameters", text(run, "parameters")),
        ("node", super::node(run)),
    ])
}
