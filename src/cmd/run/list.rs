//! `punctual run list`: what ran, what runs, what waits.

use clap::Args;

use super::until_now;
use crate::cmd::job::Asking;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, duration, instant, text};

/// How many runs are listed when nobody says how many.
const LIMIT_DEFAULT: usize = 50;

/// Which runs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual run list nightly-report
  punctual run list --status failed --limit 10 -o name")]
pub struct ListArgs {
    /// Name or id of a job [default: all jobs]
    job: Option<String>,

    /// Only runs of this status
    #[arg(long, value_name = "STATUS", value_parser = [
        "pending", "queued", "running", "completed", "failed", "cancelled", "timeout", "skipped",
        "missed",
    ])]
    status: Option<String>,

    /// Only runs for this time and later
    #[arg(long, value_name = "RFC3339")]
    since: Option<jiff::Timestamp>,

    /// List what is planned for later, too
    #[arg(long)]
    planned: bool,

    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT)]
    limit: usize,

    #[command(flatten)]
    asking: Asking,
}

/// How runs are shown.
pub const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "ID", cell: |run| text(run, "execution_id") },
        Column { title: "JOB", cell: |run| text(run, "job_name") },
        Column { title: "STATUS", cell: |run| text(run, "status") },
        Column { title: "SCHEDULED", cell: |run| instant(run, "scheduled_time") },
        Column { title: "STARTED", cell: |run| instant(run, "started_at") },
        Column { title: "TOOK", cell: |run| duration(run, "duration_ms") },
        Column { title: "TRIES", cell: |run| text(run, "attempt_number") },
    ],
    name: "execution_id",
};

pub(super) fn run(args: ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut filters = Vec::new();
    if let Some(status) = &args.status {
        filters.push(("status", status.to_ascii_uppercase()));
    }
    if let Some(since) = args.since {
        filters.push(("since", since.to_string()));
    }
    if !args.planned && args.status.is_none() {
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
