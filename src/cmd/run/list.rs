//! `punctual run list`: what ran, what runs, what waits.

use clap::Args;
use serde_json::Value;

use super::until_now;
use crate::client::Client;
use crate::cmd::job::Asking;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, brief, distance, duration, instant, text};
use crate::times;
use crate::watch::WatchArgs;

/// How many characters of an id a table shows.
const SHORT_ID: usize = "01996c2e-8f5c-7c31".len();

/// The default number of runs listed.
const LIMIT_DEFAULT: usize = 50;

/// Which runs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual run list nightly-report
  punctual run list --status failed --since 1h
  punctual run list --node node-2 --error 'connection refused'
  punctual run list --watch")]
pub struct ListArgs {
    /// Name or id of a job [default: all jobs]
    job: Option<String>,

    /// Only runs of this status
    #[arg(long, value_name = "STATUS", value_parser = [
        "pending", "queued", "running", "completed", "failed", "cancelled", "timeout", "skipped",
        "missed",
        "held",
    ])]
    status: Option<String>,

    /// Only runs for this time and later, such as 1h, yesterday or '2026-11-17 10:00'
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    since: Option<jiff::Timestamp>,

    /// Only runs for earlier times than this
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Option<jiff::Timestamp>,

    /// Only runs whose last attempt this node made, by its name or id
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// Only runs whose error or reason contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,

    /// List what is planned for later, too
    #[arg(long)]
    planned: bool,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT)]
    limit: usize,

    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    asking: Asking,
}

/// How runs are shown.
pub const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |run| short_id(&text(run, "execution_id")) },
        Column { title: "JOB", cell: |run| text(run, "job_name") },
        Column { title: "STATUS", cell: |run| text(run, "status") },
        Column { title: "SCHEDULED", cell: |run| instant(run, "scheduled_time") },
        Column { title: "DURATION", cell: |run| duration(run, "duration_ms") },
        Column { title: "ATTEMPTS", cell: |run| text(run, "attempt_number") },
        Column { title: "NODE", cell: node },
        Column { title: "REASON", cell: |run| brief(&reason(run)) },
    ],
    wide: &[
        Column { title: "STARTED", cell: |run| instant(run, "started_at") },
        Column { title: "ENDED", cell: |run| instant(run, "completed_at") },
        Column { title: "ORIGIN", cell: |run| text(run, "origin") },
        Column { title: "REQUESTED BY", cell: |run| text(run, "requested_by") },
        Column { title: "FULL ID", cell: |run| text(run, "execution_id") },
        Column { title: "WHY", cell: |run| reason(run).replace('\n', " ") },
    ],
    name: "execution_id",
};

/// The begin of an id: its time to the millisecond, and enough of the rest to distinguish runs of
/// the same millisecond.
pub fn short_id(id: &str) -> String {
    id.get(..SHORT_ID).unwrap_or(id).to_owned()
}

/// The node of a run: by its name, or by the begin of its id where the name is not known.
pub fn node(run: &Value) -> String {
    let name = text(run, "node");
    if name.is_empty() { text(run, "worker_id").chars().take(8).collect() } else { name }
}

/// Why a run ended as it did, or what it waits for.
pub fn reason(run: &Value) -> String {
    let fields = ["error_message", "reason_message", "reason", "waiting_reason"];
    let said = fields.iter().map(|field| text(run, field)).find(|said| !said.is_empty());
    let said = said.unwrap_or_default();
    let status = text(run, "status");
    if !matches!(status.as_str(), "PENDING" | "QUEUED") {
        return said;
    }
    let waits = text(run, "waiting_reason");
    if !waits.is_empty() {
        return waits;
    }
    // A server of an earlier release does not report wait reasons.
    let is_retry = run["attempt_number"].as_u64().is_some_and(|ended| ended > 0);
    let at = distance(run, "due_at");
    match (status.as_str(), is_retry, said.is_empty()) {
        ("QUEUED", ..) => "due, waits to start; see punctual job explain".to_owned(),
        (_, true, false) => format!("retry {at}; {said}"),
        (_, true, true) => format!("retry {at}"),
        (_, false, _) => format!("due {at}"),
    }
}

pub(super) fn run(args: ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    args.watch.run(&client, || print(&args, &client))
}

fn print(args: &ListArgs, client: &Client) -> Result<(), Failure> {
    let mut filters = Vec::new();
    if let Some(status) = &args.status {
        filters.push(("status", status.to_ascii_uppercase()));
    }
    let texts = [("node", &args.node), ("error", &args.error)];
    filters.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
    if let Some(since) = args.since {
        filters.push(("since", since.to_string()));
    }
    if let Some(until) = args.until {
        filters.push(("until", until.to_string()));
    } else if !args.planned && args.status.is_none() {
        filters.push(until_now());
    }
    let (runs, is_more) = match &args.job {
        Some(job) => client.list(&["v1", "jobs", job, "executions"], &filters, Some(args.limit))?,
        None => client.list(&["v1", "executions"], &filters, Some(args.limit))?,
    };
    output::print_list(&args.asking.output, &runs, &SHAPE)?;
    if is_more {
        args.asking.output.say("note: there are more runs; see --limit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_tells_why_it_ended_or_what_it_waits_for() {
        let rows = [
            (
                json!({"status": "FAILED", "error_message": "exit code 3", "reason": "X"}),
                "exit code 3",
            ),
            (json!({"status": "SKIPPED", "reason": "OVERLAP"}), "OVERLAP"),
            (json!({"status": "COMPLETED"}), ""),
            (json!({"status": "PENDING", "attempt_number": 0}), "due -"),
            (
                json!({"status": "PENDING", "attempt_number": 2, "error_message": "no route"}),
                "retry -; no route",
            ),
            (
                json!({"status": "QUEUED", "error_message": "x", "waiting_reason": "64 of 64 slots busy"}),
                "64 of 64 slots busy",
            ),
        ];
        for (run, expected) in rows {
            assert_eq!(reason(&run), expected, "{run}");
        }
        assert_eq!(short_id("01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11"), "01996c2e-8f5c-7c31");
        assert_eq!(short_id("x"), "x");
    }
}
