//! `punctual cron next`: when an expression fires.

use std::io::{self, Write};
use std::sync::Arc;

use clap::Args;
use domain::calendar::{CalendarMode, CalendarUse, ResolvedCalendar, Shift};
use domain::schedule::{CronSchedule, Filter, FilteredSchedule, Schedule};
use jiff::Timestamp;

use super::{
    COUNT_DEFAULT, COUNT_MAX, CronFormat, FormatArgs, Utc, print_json, runs_after, stdin, table,
};
use crate::cli_error::CliError;
use crate::clock;
use crate::cmd::calendar::read_calendar;
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

    /// Leave out the days of a calendar file: rules, one on a line, or iCalendar
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    calendar: Vec<String>,

    /// Leave out all other days than those of a calendar file
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    include_calendar: Vec<String>,

    /// Move times of days that are left out to the next or previous day that is not
    #[arg(long, value_name = "WHERE", value_parser = ["next", "previous"])]
    shift: Option<String>,

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
    let runs: Vec<Timestamp> = match filtered(&args, &schedule)? {
        None => runs_after(&schedule, after, args.count).collect(),
        Some(filtered) => {
            let times = std::iter::successors(filtered.next(after), |at| filtered.next(*at));
            times.take(args.count as usize).collect()
        }
    };
    match args.format.format() {
        CronFormat::Json => print_json(out, &runs.iter().copied().map(Utc).collect::<Vec<_>>())?,
        CronFormat::Table => table::print_runs(out, &schedule, after, &runs)?,
    }
    if runs.len() < args.count as usize {
        out.flush()?;
        let end = match args.calendar.is_empty() && args.include_calendar.is_empty() {
            true => "before the calendar ends in the year 9999",
            false => "on a day that the calendars let through",
        };
        eprintln!("note: there is no further run {end}");
    }
    Ok(())
}

/// The schedule under the calendar files that were named; none if there are none.
fn filtered(args: &NextArgs, schedule: &CronSchedule) -> Result<Option<FilteredSchedule>, Failure> {
    let shift = match args.shift.as_deref() {
        Some("next") => Shift::Next,
        Some(_) => Shift::Previous,
        None => Shift::Skip,
    };
    let mut uses = Vec::new();
    let files =
        [(CalendarMode::Exclude, &args.calendar), (CalendarMode::Include, &args.include_calendar)];
    for (mode, files) in files {
        for file in files {
            let calendar = read_calendar(file)?;
            let resolved = Some(ResolvedCalendar { version: 1, calendar });
            uses.push(CalendarUse { name: file.clone(), mode, shift, resolved });
        }
    }
    let base = Schedule::Cron(schedule.clone());
    let filter = Filter::new(&uses, schedule.zone(), &Arc::from([]));
    Ok(filter.map(|filter| FilteredSchedule::new(base, filter)))
}
