//! The table of an expression's runs.

use std::io::{self, Write};

use domain::schedule::{CronSchedule, SkippedRange};
use jiff::Timestamp;
use jiff::civil::DateTime;

pub(super) use crate::table::print;

/// Prints runs in UTC and in the schedule's own time, and between them the local times that
/// clocks jump over.
pub(super) fn print_runs(
    out: &mut dyn Write,
    schedule: &CronSchedule,
    after: Timestamp,
    runs: &[Timestamp],
) -> io::Result<()> {
    let Some(last) = runs.last() else { return Ok(()) };
    let skipped = schedule.skipped(after, *last);
    let mut rows: Vec<(Timestamp, Vec<String>)> = Vec::with_capacity(runs.len() + skipped.len());
    rows.extend(skipped.iter().map(|range| (range.transition, skipped_row(range))));
    rows.extend(runs.iter().map(|at| (*at, run_row(schedule, *at))));
    // Stable: what the clocks jump over comes before the run at the very moment of the jump.
    rows.sort_by_key(|(at, _)| *at);
    let local = format!("LOCAL ({})", schedule.zone().name());
    print(out, "", &["UTC", &local], rows.into_iter().map(|(_, row)| row))
}

fn run_row(schedule: &CronSchedule, at: Timestamp) -> Vec<String> {
    vec![at.to_string(), local_time(schedule, at)]
}

fn skipped_row(range: &SkippedRange) -> Vec<String> {
    let first = wall_time(range.first);
    let note = match range.count {
        1 => format!("{first} does not exist"),
        // Most gaps are an hour long; one that is longer names both days.
        n if range.first.date() == range.last.date() => {
            format!("{first} to {}, {n} times: none exists", range.last.strftime("%H:%M"))
        }
        n => format!("{first} to {}, {n} times: none exists", wall_time(range.last)),
    };
    vec!["skipped".to_owned(), note]
}

/// An instant in the schedule's own time: "Sun 2026-03-08 03:30 EDT".
pub(super) fn local_time(schedule: &CronSchedule, at: Timestamp) -> String {
    let zoned = at.to_zoned(schedule.zone().time_zone().clone());
    format!("{} {}", wall_time(zoned.datetime()), zoned.strftime("%Z"))
}

fn wall_time(local: DateTime) -> String {
    let format = if local.second() == 0 { "%a %Y-%m-%d %H:%M" } else { "%a %Y-%m-%d %H:%M:%S" };
    local.strftime(format).to_string()
}
