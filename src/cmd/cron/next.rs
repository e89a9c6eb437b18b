//! `punctual cron next`: when an expression fires.

use std::io::{self, Write};

use clap::Args;
use jiff::Timestamp;

use super::{
    COUNT_DEFAULT, COUNT_MAX, CronFormat, FormatArgs, Utc, print_json, runs_after, stdin, table,
};
use crate::cli_error::CliError;
use crate::clock;
use crate::exit::Failure;
use crate::times;

/// `EXPR` or `--stdin`, and where to begin.
#[derive(Args)]
#[command(
    override_usage = "\
punctual cron next [OPTIONS] <EXPR>
       punctual cron next [OPTIONS] --stdin",
    after_help = "\
Examples:
  punctual cron next '30 2 * * MON-FRI' --tz America/New_York
  punctual cron next @monthly --after 2026-01-01T00:00:00Z --count 12 -o json

With --stdin each line is a request, and each request gets one line of response, in order:
  {\"expr\": \"0 2 * * *\", \"tz\": \"Asia/Tokyo\", \"after\": \"2026-01-01T00:00:00Z\", \"count\": 1}
  {\"next\":[\"2026-01-01T17:00:00Z\"]}
  {\"expr\": \"61 * * * *\"}
  {\"error\":{\"code\":\"INVALID_CRON\",\"message\":\"minute: 61 is out of range 0-59\",\"span\":[0,2]}}
Only expr is required; --tz, --after and --count hold for lines that leave them out. The other
codes are INVALID_TIMEZONE and INVALID_REQUEST; span counts bytes of expr or tz. A line with an
error does not stop the rest, nor change the exit code."
)]
pub struct NextArgs {
    /// Cron expression in quotes, or a macro such as @daily
    #[arg(required_unless_present = "stdin")]
    expr: Option<String>,

    /// The rest of an expression whose quotes were forgotten.
    #[arg(hide = true)]
    unquoted: Vec<String>,

    /// Time zone of the expression
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,

    /// Start strictly after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    after: Option<Timestamp>,

    /// How many runs to print, up to 10000
    #[arg(
        long,
        value_name = "N",
        default_value_t = COUNT_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)),
    )]
    count: u32,

    /// Read requests from stdin, one JSON object per line
    #[arg(long, conflicts_with_all = ["expr", "output", "json"])]
    stdin: bool,

    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: NextArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let zones = clock::zones();
    let Some(expr) = &args.expr else {
        let zone = zones.find(&args.tz).map_err(CliError::about_zone)?;
        let defaults = stdin::Defaults { zone, after: args.after, count: args.count };
        return Ok(stdin::answer_all(io::stdin().lock(), out, zones, &defaults)?);
    };
    super::refuse_unquoted(expr, &args.unquoted)?;
    let schedule = super::schedule(expr, &args.tz, &zones)?;
    let after = args.after.unwrap_or_else(clock::now);
    let runs: Vec<Timestamp> = runs_after(&schedule, after, args.count).collect();
    match args.format.format() {
        CronFormat::Json => print_json(out, &runs.iter().copied().map(Utc).collect::<Vec<_>>())?,
        CronFormat::Table => table::print_runs(out, &schedule, after, &runs)?,
    }
    if runs.len() < args.count as usize {
        out.flush()?;
        eprintln!("note: there is no further run before the calendar ends in the year 9999");
    }
    Ok(())
}
