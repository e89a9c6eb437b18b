//! `punctual cron lint`: warns about expressions that may not mean what their author intended.

use std::io::Write;

use clap::Args;
use jiff::Timestamp;

use super::{CronFormat, FormatArgs, print_json, warnings};
use crate::clock;
use crate::exit::Failure;
use crate::times;

/// The expressions to check, and the present to assume.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual cron lint '30 2 * * *' --tz America/New_York
  punctual cron lint '0 0 */2 * MON' --tz Europe/Berlin -o json

Warnings go to stdout and leave the exit code at 0.")]
pub struct LintArgs {
    /// Cron expression in quotes, or a macro such as @daily
    expr: String,

    /// The rest of an expression whose quotes were forgotten.
    #[arg(hide = true)]
    unquoted: Vec<String>,

    /// Time zone of the expression, whose clock changes are looked at
    #[arg(long, value_name = "ZONE")]
    tz: String,

    /// Check the two years after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::future)]
    after: Option<Timestamp>,

    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: LintArgs, out: &mut dyn Write) -> Result<(), Failure> {
    super::refuse_unquoted(&args.expr, &args.unquoted)?;
    let schedule = super::schedule(&args.expr, &args.tz, &clock::zones())?;
    let found = schedule.lint(args.after.unwrap_or_else(clock::now));
    match args.format.format() {
        CronFormat::Json => {
            print_json(out, &found.iter().map(warnings::to_json).collect::<Vec<_>>())?
        }
        CronFormat::Table if found.is_empty() => eprintln!("no warnings"),
        CronFormat::Table => warnings::print(out, &schedule, &found)?,
    }
    Ok(())
}
