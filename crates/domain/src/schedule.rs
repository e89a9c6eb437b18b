//! When a job is due: cron expressions in a time zone, fixed intervals and single instants.
//!
//! Everything here is arithmetic on values. Occurrences are strictly increasing instants; the
//! next one is computed from the nominal time of the last, never from when it ran.

use jiff::Timestamp;

mod asked;
mod at;
mod catch_up;
mod cron;
mod dst;
mod duration;
mod every;
mod filter;
mod filtered;
mod jitter;
mod lint;
mod wall;
mod zone;

pub use asked::{AskedKind, AskedTime, asked_time};
pub use at::{AtError, parse_instant};
pub use catch_up::{CatchUp, CatchUpPolicy, CatchUpRules, Fate, OccurrenceRange, Outage, catch_up};
pub use cron::{Cron, CronError, Field};
pub use dst::{DstPolicy, GapRule, OverlapRule};
pub use duration::{DurationError, parse_duration};
pub use every::{Every, EveryError};
pub use filter::{Closing, Filter, SHIFT_DAYS_MAX};
pub use filtered::{ExcludedRange, FilteredSchedule};
pub use jitter::jitter;
pub use lint::Warning;
pub use wall::{CronSchedule, SkippedRange};
pub use zone::{Zone, ZoneError, Zones};

/// When a job is due.
///
/// A delay is an instant too: the creation time plus the delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At the local times that a cron expression names.
    Cron(CronSchedule),
    /// At a fixed interval.
    Every(Every),
    /// A single time.
    At(Timestamp),
    /// At some of the times of another one.
    Filtered(Box<FilteredSchedule>),
}

impl Schedule {
    /// The first occurrence strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Cron(cron) => cron.next(after),
            Schedule::Every(every) => every.next(after),
            Schedule::At(at) => Some(*at).filter(|at| *at > after),
            Schedule::Filtered(filtered) => filtered.next(after),
        }
    }

    /// The last occurrence strictly before an instant.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Cron(cron) => cron.prev(before),
            Schedule::Every(every) => every.prev(before),
            Schedule::At(at) => Some(*at).filter(|at| *at < before),
            Schedule::Filtered(filtered) => filtered.prev(before),
        }
    }

    /// How many occurrences lie in `(after, until]`.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        match self {
            Schedule::Cron(cron) => cron.count(after, until),
            Schedule::Every(every) => every.count(after, until),
            Schedule::At(at) => u64::from(*at > after && *at <= until),
            Schedule::Filtered(filtered) => filtered.count(after, until),
        }
    }

    /// The local times that do not happen because their gap lies in `(after, until]`.
    pub fn skipped(&self, after: Timestamp, until: Timestamp) -> Vec<SkippedRange> {
        match self {
            Schedule::Cron(cron) => cron.skipped(after, until),
            Schedule::Every(_) | Schedule::At(_) => Vec::new(),
            Schedule::Filtered(filtered) => filtered.base().skipped(after, until),
        }
    }

    /// The schedule without calendars and blackouts.
    pub fn base(&self) -> &Schedule {
        match self {
            Schedule::Filtered(filtered) => filtered.base(),
            schedule => schedule,
        }
    }

    /// The first nominal time strictly after an instant: an occurrence, or a time that a calendar
    /// or a blackout excludes.
    pub fn next_nominal(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Filtered(filtered) => filtered.next_nominal(after),
            schedule => schedule.next(after),
        }
    }

    /// The times in `(after, until]` that calendars or blackouts exclude.
    pub fn excluded(&self, after: Timestamp, until: Timestamp) -> Vec<ExcludedRange> {
        match self {
            Schedule::Filtered(filtered) => filtered.excluded(after, until),
            _ => Vec::new(),
        }
    }

    /// Why a nominal time does not run, and when it runs instead; none if it runs.
    pub fn exclusion(&self, at: Timestamp) -> Option<(Closing, Option<Timestamp>)> {
        match self {
            Schedule::Filtered(filtered) => filtered.exclusion(at),
            _ => None,
        }
    }

    /// The calendar that closes the day of local times that clocks jump over, and when the first of
    /// them runs instead; none if they do not move.
    pub fn gap_exclusion(&self, gap: &SkippedRange) -> Option<(Closing, Timestamp)> {
        match self {
            Schedule::Filtered(filtered) => filtered.gap_exclusion(gap),
            _ => None,
        }
    }
}
