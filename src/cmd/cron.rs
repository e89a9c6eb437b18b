//! `punctual cron`: questions about cron expressions that need no server.

mod explain;
mod lines;
mod lint;
mod next;
mod stdin;
pub mod table;
mod warnings;

use std::io::{self, BufWriter, Write};

use clap::{Args, Subcommand, ValueEnum};
use domain::schedule::{Cron, CronSchedule, DstPolicy, Zones};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::cli_error::CliError;
use crate::exit::Failure;

/// The default number of runs shown.
const COUNT_DEFAULT: u32 = 5;

/// The most runs that one question may ask for.
const COUNT_MAX: u32 = 10_000;

/// The language, in the few lines that a person looks up.
pub const GRAMMAR: &str = "\
An expression has five fields with blanks between them:
  minute        0-59
  hour          0-23
  day of month  1-31, L (last day), LW (last weekday), 15W (weekday nearest day 15)
  month         1-12 or JAN-DEC
  day of week   0-7 or SUN-SAT (0 and 7 are Sunday), 5#2 (second Friday), 5L (last Friday)
Each takes * and lists (1,15), ranges (9-17) and steps (*/15, 10-50/20, 5/15).
When a day field begins with *, both must match a day; otherwise either one suffices.
Macros: @yearly @annually @monthly @weekly @daily @midnight @hourly";

/// The verbs of `punctual cron`.
#[derive(Subcommand)]
pub enum CronCommand {
    /// Print the next runs of an expression
    Next(next::NextArgs),
    /// Explain an expression field by field and show its next runs
    Explain(explain::ExplainArgs),
    /// Warn about what may surprise: clock changes, other dialects, far-away runs
    Lint(lint::LintArgs),
}

/// Answers the question on stdout.
pub fn run(command: CronCommand) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match command {
        CronCommand::Next(args) => next::run(args, &mut out)?,
        CronCommand::Explain(args) => explain::run(args, &mut out)?,
        CronCommand::Lint(args) => lint::run(args, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// The form of the answer.
#[derive(Args)]
struct FormatArgs {
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = CronFormat::Table)]
    output: CronFormat,

    /// Short for --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl FormatArgs {
    fn format(&self) -> CronFormat {
        if self.json { CronFormat::Json } else { self.output }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CronFormat {
    Table,
    Json,
}

/// The value of `--after`.
fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        "not an RFC 3339 time with an offset, \
         such as 2026-03-08T07:00:00Z or 2026-03-08T02:00:00-05:00"
            .to_owned()
    })
}

/// Words that follow `EXPR` are the rest of an expression that the shell took apart.
fn refuse_unquoted(expr: &str, rest: &[String]) -> Result<(), CliError> {
    if rest.is_empty() {
        return Ok(());
    }
    let words = rest.len() + 1;
    let hint = if words == 5 && !expr.contains(' ') {
        format!("put it in quotes: '{expr} {}'", rest.join(" "))
    } else {
        "put it in quotes: '0 2 * * *'".to_owned()
    };
    Err(CliError::new(format!("the expression must be one argument, found {words}")).hint(hint))
}

/// The schedule that `EXPR` and `--tz` name.
fn schedule(expr: &str, tz: &str, zones: &Zones) -> Result<CronSchedule, CliError> {
    let cron: Cron = expr.parse().map_err(|error| CliError::about_cron(expr, error))?;
    let zone = zones.find(tz).map_err(CliError::about_zone)?;
    Ok(CronSchedule::new(cron, zone, DstPolicy::default()))
}

/// The next runs after an instant, as many as there are up to `count`.
fn runs_after(
    schedule: &CronSchedule,
    after: Timestamp,
    count: u32,
) -> impl Iterator<Item = Timestamp> {
    let mut last = after;
    (0..count).map_while(move |_| {
        last = schedule.next(last)?;
        Some(last)
    })
}

/// An instant as JSON shows it: `"2026-03-08T07:00:00Z"`.
#[derive(Clone, Copy)]
struct Utc(Timestamp);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

fn print_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
