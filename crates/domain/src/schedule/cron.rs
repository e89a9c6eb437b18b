//! A cron expression after parsing: five sets, and the rule that joins its two day fields.
//!
//! The sets are bit masks, so that "the next hour after 9 that matches" is one shift and one
//! count of trailing zeros. Parsing lives in `cron/parse.rs`, walking the calendar in
//! `cron/civil.rs`, prose in `cron/describe.rs`. Time zones do not appear here: they belong to
//! [`CronSchedule`](super::CronSchedule).

use std::fmt;
use std::str::FromStr;

mod civil;
mod describe;
mod field;
mod parse;

pub use field::{CronError, Field};

/// A parsed five-field cron expression that fires at least once in 400 years.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: Box<str>,
    /// Bit `m` is set when minute `m` (0–59) matches.
    minutes: u64,
    /// Bit `h` is set when hour `h` (0–23) matches.
    hours: u32,
    /// Bit `m` is set when month `m` (1–12) matches.
    months: u16,
    dom: DayOfMonth,
    dow: DayOfWeek,
}

/// The day-of-month field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DayOfMonth {
    /// Bit `d` is set when day `d` (1–31) matches.
    days: u32,
    /// `L`: the last day of the month.
    last: bool,
    /// `LW`: the last Monday-to-Friday day of the month.
    last_weekday: bool,
    /// `nW`: bit `n` is set when the Monday-to-Friday day nearest to day `n` matches.
    nearest: u32,
    /// The text begins with `*` or is `?`: both day fields must match.
    starred: bool,
    /// The text begins with `*/n`, which other dialects count as a restriction.
    stepped: bool,
}

/// The day-of-week field. Sunday is bit 0, Saturday bit 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DayOfWeek {
    /// Bit `w` is set when every weekday `w` matches.
    days: u8,
    /// `w#n`: bit `w` of `nth[n - 1]` is set when the n-th weekday `w` of the month matches.
    nth: [u8; 5],
    /// `wL`: bit `w` is set when the last weekday `w` of the month matches.
    last: u8,
    /// The text begins with `*` or is `?`: both day fields must match.
    starred: bool,
    /// The text begins with `*/n`, which other dialects count as a restriction.
    stepped: bool,
}

impl Cron {
    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every hour of the day matches, so that the schedule follows elapsed time through
    /// a daylight-saving change instead of naming wall-clock hours.
    pub fn matches_every_hour(&self) -> bool {
        self.hours == 0x00ff_ffff
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        parse::parse(text)
    }
}
