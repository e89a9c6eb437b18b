//! `punctual cron explain`: what an expression means.

use std::io::{self, Write};

use clap::Args;
use domain::schedule::{CronSchedule, Field};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{COUNT_DEFAULT, CronFormat, FormatArgs, Utc, print_json, runs_after, table, warnings};
use crate::clock;
use crate::exit::Failure;
use crate::times;

/// The expressions to explain, and the present to assume.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual cron explain '*/15 9-17 * * MON-FRI'
  punctual cron explain '0 12 * * FRI#2' --tz Europe/London -o json")]
pub struct ExplainArgs {
    /// Cron expression in quotes, or a macro such as @daily
    expr: String,

    /// The rest of an expression whose quotes were forgotten.
    #[arg(hide = true)]
    unquoted: Vec<String>,

    /// Time zone of the expression
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,

    /// Show the runs and warnings after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    after: Option<Timestamp>,

    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: ExplainArgs, out: &mut dyn Write) -> Result<(), Failure> {
    super::refuse_unquoted(&args.expr, &args.unquoted)?;
    let schedule = super::schedule(&args.expr, &args.tz, &clock::zones())?;
    let after = args.after.unwrap_or_else(clock::now);
    match args.format.format() {
        CronFormat::Json => print_as_json(out, &schedule, after)?,
        CronFormat::Table => print_as_text(out, &schedule, after)?,
    }
    Ok(())
}

/// The whole explanation, in the order in which it is printed.
#[derive(Serialize)]
struct CronExplanation {
    expr: String,
    tz: String,
    description: String,
    fields: Vec<ExplainedField>,
    next: Vec<Utc>,
    warnings: Vec<Value>,
}

/// One field: its name, its text (a macro has none) and what it matches.
#[derive(Serialize)]
struct ExplainedField {
    field: &'static str,
    text: Option<String>,
    matches: String,
}

fn print_as_text(out: &mut dyn Write, schedule: &CronSchedule, after: Timestamp) -> io::Result<()> {
    writeln!(out, "{}: {}\n", schedule.cron(), schedule.describe())?;

    let is_macro = schedule.cron().as_str().starts_with('@');
    let header: &[&str] =
        if is_macro { &["FIELD", "MATCHES"] } else { &["FIELD", "TEXT", "MATCHES"] };
    let rows = explained_fields(schedule).into_iter().map(|field| {
        let cells = [Some(field.field.to_owned()), field.text, Some(field.matches)];
        cells.into_iter().flatten().collect()
    });
    table::print(out, "", header, rows)?;

    let runs: Vec<Timestamp> = runs_after(schedule, after, COUNT_DEFAULT).collect();
    if !runs.is_empty() {
        writeln!(out)?;
        table::print_runs(out, schedule, after, &runs)?;
    }

    let found = schedule.lint(after);
    if !found.is_empty() {
        writeln!(out)?;
        warnings::print(out, schedule, &found)?;
    }
    Ok(())
}

fn print_as_json(out: &mut dyn Write, schedule: &CronSchedule, after: Timestamp) -> io::Result<()> {
    let explanation = CronExplanation {
        expr: schedule.cron().to_string(),
        tz: schedule.zone().name().to_owned(),
        description: schedule.describe(),
        fields: explained_fields(schedule),
        next: runs_after(schedule, after, COUNT_DEFAULT).map(Utc).collect(),
        warnings: schedule.lint(after).iter().map(warnings::to_json).collect(),
    };
    print_json(out, &explanation)
}

fn explained_fields(schedule: &CronSchedule) -> Vec<ExplainedField> {
    let cron = schedule.cron();
    let mut texts = cron.as_str().split_ascii_whitespace().filter(|text| !text.starts_with('@'));
    let explain = |(field, matches): (Field, String)| ExplainedField {
        field: field.name(),
        text: texts.next().map(str::to_owned),
        matches,
    };
    cron.describe_fields().into_iter().map(explain).collect()
}
