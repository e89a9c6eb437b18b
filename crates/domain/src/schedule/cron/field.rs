//! The five fields, their allowed values, and the error that points at one.

use std::fmt;
use std::ops::Range;

pub(super) const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Why an expression is invalid: the position, the problem, and the correct form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// The offending bytes of the input.
    pub span: Range<usize>,
    /// The field that the bytes belong to, when they belong to one.
    pub field: Option<Field>,
    /// The problem.
    pub problem: String,
    /// The correct form, if there is one.
    pub hint: Option<String>,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "{field}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for CronError {}

/// One of the five fields, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0–59
    Minute,
    /// 0–23
    Hour,
    /// 1–31
    DayOfMonth,
    /// 1–12 or JAN–DEC
    Month,
    /// 0–7 or SUN–SAT, where both 0 and 7 are Sunday
    DayOfWeek,
}

impl Field {
    /// The fields in the order in which they are written.
    pub const ALL: [Field; 5] =
        [Field::Minute, Field::Hour, Field::DayOfMonth, Field::Month, Field::DayOfWeek];

    /// The name that errors use.
    pub fn name(self) -> &'static str {
        match self {
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day of month",
            Field::Month => "month",
            Field::DayOfWeek => "day of week",
        }
    }

    pub(super) fn min(self) -> u32 {
        match self {
            Field::DayOfMonth | Field::Month => 1,
            _ => 0,
        }
    }

    /// The end of `*` and of an open `a/n`.
    pub(super) fn max(self) -> u32 {
        match self {
            Field::Minute => 59,
            Field::Hour => 23,
            Field::DayOfMonth => 31,
            Field::Month => 12,
            Field::DayOfWeek => 6,
        }
    }

    /// The largest number that may be written: a second spelling of Sunday exists.
    pub(super) fn written_max(self) -> u32 {
        if self == Field::DayOfWeek { 7 } else { self.max() }
    }

    /// How many values the field has, which bounds a step.
    pub(super) fn size(self) -> u32 {
        self.max() - self.min() + 1
    }

    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Field::Month => &MONTHS,
            Field::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    pub(super) fn is_day(self) -> bool {
        matches!(self, Field::DayOfMonth | Field::DayOfWeek)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
