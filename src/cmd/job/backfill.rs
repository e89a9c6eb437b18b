//! `punctual job backfill`: runs for times that have passed.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Asking;
use super::run::parameters;
use crate::exit::Failure;
use crate::output::{self, Format, confirm};
use crate::progress::ProgressLine;
use crate::times;

/// Which job, and which times.
#[derive(Args)]
#[command(after_help = "\
Example:
  punctual job backfill daily-report --from 2026-01-01T00:00:00Z --until 2026-01-31T23:59:59Z --dry-run")]
pub struct BackfillArgs {
    /// Name or id of the job
    job: String,

    /// The first time, itself included
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    from: Timestamp,

    /// The last time, itself included
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Timestamp,

    /// How many of the runs may be at work at a time; as many as the job allows by default
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,

    /// Newest first instead of oldest first
    #[arg(long)]
    newest_first: bool,

    /// Value for the action, as JSON or as text; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// Only print the times
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: BackfillArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let path = ["v1", "jobs", &args.job, "backfill"];
    let parameters = match args.parameters.is_empty() {
        true => Value::Null,
        false => parameters(&args.parameters)?,
    };
    let body = |dry_run| {
        json!({
            "from": args.from.to_string(), "until": args.until.to_string(),
            "newest_first": args.newest_first, "dry_run": dry_run, "parameters": parameters,
            "concurrency": args.concurrency,
        })
    };
    let mut answer = client.post(&path).json(&body(true)).send()?;
    let count = answer["count"].as_u64().unwrap_or(0);
    if !args.dry_run && count > 0 {
        confirm(args.yes, &format!("Run {} for {count} times that have passed?", args.job))?;
        let progress = ProgressLine::of_work(&args.asking.output, "the server records the runs");
        answer = client.post(&path).json(&body(false)).send_whenever()?;
        drop(progress);
    }
    match args.asking.output.format() {
        Format::Table | Format::Wide => {
            let times = answer["scheduled_times"].as_array().cloned().unwrap_or_default();
            let rows: Vec<_> = times
                .iter()
                .filter_map(|time| Some((time.as_str()?.to_owned(), String::new())))
                .collect();
            output::print_rows(&mut std::io::stdout().lock(), &rows)?;
        }
        _ => output::print_one(&args.asking.output, &answer, "count", |_| Vec::new())?,
    }
    let word = if args.dry_run { "would run" } else { "will run" };
    args.asking.output.say(&format!("{} {word} for {count} times", args.job));
    Ok(())
}
