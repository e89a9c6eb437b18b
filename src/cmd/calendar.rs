//! `punctual calendar`: named sets of days that jobs include or exclude.

use std::fs;

use clap::{Args, Subcommand};
use jiff::ToSpan;
use serde_json::{Map, Value};

use domain::calendar::{Calendar, read_ics};

use super::named::{CreateArgs, DeleteArgs, EditArgs, ListArgs, Noun, NounFields, OneArgs, fields};
use crate::cli_error::CliError;
use crate::clock;
use crate::exit::Failure;
use crate::output::{self, Column, Shape, instant, text};

/// The verbs of `punctual calendar`.
#[derive(Subcommand)]
pub enum CalendarCommand {
    /// List calendars
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a calendar, its next days and the jobs that use it
    Show(OneArgs),
    /// Create a calendar
    #[command(after_help = "\
Examples:
  punctual calendar create weekends --day SAT,SUN
  punctual calendar create holidays --day 12-25 --day EASTER+1 --day '* 5 MONL'
  punctual calendar create bavaria --ics holidays.ics")]
    Create(CreateArgs<Days>),
    /// Change a calendar: the jobs that use it are planned again
    Edit(EditArgs<Days>),
    /// Delete calendars that no job uses
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// Print the days of a calendar file, without a server
    Days(DaysArgs),
}

/// The days of a calendar.
#[derive(Args)]
pub struct Days {
    /// Rule of its days, such as 2026-12-25, 12-25, SAT,SUN, EASTER+1 or '* 1 MON#3'; may be given
    /// several times
    #[arg(long = "day", value_name = "RULE")]
    days: Vec<String>,

    /// Add the events of an iCalendar file
    #[arg(long, value_name = "FILE")]
    ics: Option<String>,

    /// Zone of its days for intervals and single times, which have none [default: UTC]
    #[arg(long, alias = "timezone", value_name = "ZONE")]
    tz: Option<String>,

    /// Description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl NounFields for Days {
    fn fields(self) -> Result<Map<String, Value>, Failure> {
        let ics = self.ics.as_deref().map(read_text).transpose()?;
        // The days of the file replace those of the calendar.
        let has_days = !self.days.is_empty() || ics.is_some();
        Ok(fields([
            ("days", has_days.then(|| self.days.into())),
            ("ics", ics.map(Value::String)),
            ("timezone", self.tz.map(Value::String)),
            ("description", self.description.map(Value::String)),
        ]))
    }
}

/// Which days are printed.
#[derive(Args)]
pub struct DaysArgs {
    /// File with rules, one on a line, or an iCalendar file
    file: String,

    /// First date [default: today in UTC]
    #[arg(long, value_name = "DATE")]
    from: Option<jiff::civil::Date>,

    /// How many days to print
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    count: u32,
}

const CALENDAR: Noun = Noun {
    path: "calendars",
    word: "calendar",
    name: "name",
    id: "calendar_id",
    shape: Shape {
        columns: &[
            Column { title: "NAME", cell: |it| text(it, "name") },
            Column { title: "DAYS", cell: |it| list(it, "days", 4) },
            Column { title: "NEXT", cell: |it| list(it, "next_days", 1) },
            Column { title: "DESCRIPTION", cell: |it| text(it, "description") },
        ],
        wide: &[Column { title: "ID", cell: |it| text(it, "calendar_id") }],
        name: "name",
    },
    rows,
};

/// The first texts of a list.
fn list(it: &Value, field: &str, most: usize) -> String {
    let items: Vec<&str> =
        it[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shown = items.iter().take(most).copied().collect::<Vec<_>>().join("; ");
    match items.len() {
        0 => "-".to_owned(),
        n if n > most && most > 1 => format!("{shown} and {} more", n - most),
        _ => shown,
    }
}

fn rows(it: &Value) -> Vec<(String, String)> {
    output::rows([
        ("name", text(it, "name")),
        ("description", text(it, "description")),
        ("days", list(it, "days", usize::MAX)),
        ("timezone", text(it, "timezone")),
        ("next days", list(it, "next_days", usize::MAX)),
        ("jobs", list(it, "jobs", usize::MAX)),
        ("created", instant(it, "created_at")),
        ("changed", instant(it, "updated_at")),
        ("version", text(it, "version")),
        ("id", text(it, "calendar_id")),
    ])
}

/// Runs the verb.
pub fn run(command: CalendarCommand) -> Result<(), Failure> {
    match command {
        CalendarCommand::List(args) => CALENDAR.list(&args),
        CalendarCommand::Show(args) => CALENDAR.show(&args),
        CalendarCommand::Create(args) => CALENDAR.create_from(args),
        CalendarCommand::Edit(args) => CALENDAR.edit_from(args),
        CalendarCommand::Delete(args) => CALENDAR.delete(&args),
        CalendarCommand::Days(args) => print_days(&args),
    }
}

fn read_text(file: &str) -> Result<String, Failure> {
    fs::read_to_string(file)
        .map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))
}

/// The calendar of a file: events if it is an iCalendar file, otherwise a rule on each line. Empty
/// lines and those that begin with # mean nothing.
pub fn read_calendar(file: &str) -> Result<Calendar, Failure> {
    let content = read_text(file)?;
    let refuse = |problem: String| CliError::new(format!("{file}: {problem}"));
    if content.trim_start().to_ascii_uppercase().starts_with("BEGIN:VCALENDAR") {
        return read_ics(&content).map_err(|error| refuse(error.to_string()).into());
    }
    let mut calendar = Calendar::default();
    for (i, line) in content.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rule = line.parse();
        calendar.days.push(rule.map_err(|error| refuse(format!("line {}: {error}", i + 1)))?);
    }
    Ok(calendar)
}

fn print_days(args: &DaysArgs) -> Result<(), Failure> {
    let calendar = read_calendar(&args.file)?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(clock::now()).date();
    let from = args.from.unwrap_or(today);
    let until = from.saturating_add(10.years());
    for day in calendar.days_between(from, until, args.count as usize) {
        anstream::println!("{day} {}", day.strftime("%a"));
    }
    Ok(())
}
