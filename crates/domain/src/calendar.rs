//! Calendars: named sets of days, which the schedule of a job includes or excludes.
//!
//! A calendar is a list of rules. Each rule is a short text, and the same text is used in REST,
//! SQL, files and on the command line:
//!
//! | rule | days |
//! |---|---|
//! | `2026-12-25` | one date |
//! | `2026-12-24..2026-12-31` | all dates from the first to the last |
//! | `12-25` | this day of every year |
//! | `SAT,SUN`, `MON-FRI` | these days of every week |
//! | `EASTER`, `EASTER+1`, `EASTER-2` | Easter Sunday (western), or so many days from it |
//! | `* 1 MON#3` | day of month, month and day of week, as in a cron expression |
//!
//! A rule may end with `FROM 2027-01-01`, `UNTIL 2030-12-31` or both. A rule that begins with `NOT`
//! removes its days, whatever other rules include.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde::{Deserialize, Serialize};

use crate::schedule::Cron;

mod ics;

pub use ics::{IcsError, read_ics};

/// The most rules of a calendar.
pub const RULES_MAX: usize = 2_000;

/// The longest text of a rule, in bytes.
const RULE_BYTES_MAX: usize = 120;

/// A set of days.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Calendar {
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The rules of its days.
    pub days: Vec<DayRule>,
    /// The zone of its days for schedules that have none of their own: intervals and single times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

impl Calendar {
    /// A calendar of these rules.
    pub fn from_rules<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, RuleError> {
        let days = rules.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Calendar { days, ..Calendar::default() })
    }

    /// Reads the body of the stored resource.
    pub fn from_body(body: &str) -> Result<Self, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    /// Whether a day belongs to it.
    pub fn contains(&self, day: Date) -> bool {
        let (mut is_in, mut is_out) = (false, false);
        for rule in &self.days {
            match rule.is_negated {
                false => is_in = is_in || rule.matches(day),
                true => is_out = is_out || rule.matches(day),
            }
        }
        is_in && !is_out
    }

    /// The days of it in a range, at most `max`.
    pub fn days_between(&self, first: Date, last: Date, max: usize) -> Vec<Date> {
        let days = first.series(1.day()).take_while(|day| *day <= last);
        days.filter(|day| self.contains(*day)).take(max).collect()
    }
}

/// One rule of a calendar: a pattern of days, bounded or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DayRule {
    text: String,
    pattern: Pattern,
    is_negated: bool,
    from: Option<Date>,
    until: Option<Date>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Dates(Date, Date),
    /// Days from Easter Sunday.
    Easter(i32),
    /// Day of month, month and day of week.
    Days(Box<Cron>),
}

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a rule of days: {problem}")]
pub struct RuleError {
    /// The rule as it was given.
    pub text: String,
    /// The problem, and a hint.
    pub problem: String,
}

impl DayRule {
    /// The rule as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn matches(&self, day: Date) -> bool {
        if self.from.is_some_and(|from| day < from) || self.until.is_some_and(|until| day > until) {
            return false;
        }
        match &self.pattern {
            Pattern::Dates(first, last) => *first <= day && day <= *last,
            Pattern::Easter(offset) => {
                // With an offset, the Easter of a neighbouring year may be meant.
                let years = [day.year() - 1, day.year(), day.year() + 1];
                let is_it = |year| {
                    easter(year).and_then(|sunday| sunday.checked_add(offset.days()).ok())
                        == Some(day)
                };
                years.into_iter().any(is_it)
            }
            Pattern::Days(cron) => cron.matches_day(day),
        }
    }
}

/// Easter Sunday of the Gregorian calendar, by the algorithm of Meeus, Jones and Butcher; none
/// before that calendar.
fn easter(year: i16) -> Option<Date> {
    if !(1583..=9998).contains(&year) {
        return None;
    }
    let year_number = i32::from(year);
    let (a, b, c) = (year_number % 19, year_number / 100, year_number % 100);
    let (d, e, f) = (b / 4, b % 4, (b + 8) / 25);
    let g = (b - f + 1) / 3;
    let h = (19 * a + b - d - g + 15) % 30;
    let (i, k) = (c / 4, c % 4);
    let l = (32 + 2 * e + 2 * i - h - k) % 7;
    let m = (a + 11 * h + 22 * l) / 451;
    let sum = h + l - 7 * m + 114;
    Some(date(year, (sum / 31) as i8, (sum % 31 + 1) as i8))
}

impl FromStr for DayRule {
    type Err = RuleError;

    fn from_str(given: &str) -> Result<Self, RuleError> {
        let refuse =
            |problem: String| RuleError { text: given.chars().take(60).collect(), problem };
        if given.len() > RULE_BYTES_MAX {
            return Err(refuse(format!("it is longer than {RULE_BYTES_MAX} bytes")));
        }
        let words: Vec<String> =
            given.split_ascii_whitespace().map(str::to_ascii_uppercase).collect();
        let mut words: &[String] = &words;
        let text = words.join(" ");
        let is_negated = words.first().is_some_and(|word| word == "NOT");
        if is_negated {
            words = &words[1..];
        }
        let (mut from, mut until) = (None, None);
        while let [rest @ .., keyword, day] = words
            && matches!(keyword.as_str(), "FROM" | "UNTIL")
        {
            let bound = if keyword == "FROM" { &mut from } else { &mut until };
            if bound.replace(parse_date(day).map_err(&refuse)?).is_some() {
                return Err(refuse(format!("{keyword} is there twice")));
            }
            words = rest;
        }
        if from.zip(until).is_some_and(|(from, until)| from > until) {
            return Err(refuse("it ends before it begins".to_owned()));
        }
        let pattern = pattern(words).map_err(refuse)?;
        Ok(DayRule { text, pattern, is_negated, from, until })
    }
}

/// Examples of all forms of rules, for a hint.
const EXAMPLES: &str = "write 2026-12-25, 2026-12-24..2026-12-31, 12-25, SAT,SUN, EASTER+1 or \
                        * 1 MON#3 (day of month, month, day of week)";

fn pattern(words: &[String]) -> Result<Pattern, String> {
    match words {
        [word] => {
            if let Some(offset) = word.strip_prefix("EASTER") {
                return easter_offset(offset).map(Pattern::Easter);
            }
            if let Some((first, last)) = word.split_once("..") {
                let (first, last) = (parse_date(first)?, parse_date(last)?);
                if first > last {
                    return Err("its last day is before its first".to_owned());
                }
                return Ok(Pattern::Dates(first, last));
            }
            let digits = word.starts_with(|c: char| c.is_ascii_digit());
            match word.split_once('-') {
                Some((month, day)) if digits && !day.contains('-') => days(&format!(
                    "0 0 {} {} *",
                    day.trim_start_matches('0'),
                    month.trim_start_matches('0')
                )),
                _ if digits => parse_date(word).map(|day| Pattern::Dates(day, day)),
                _ => days(&format!("0 0 * * {word}")),
            }
        }
        [day, month, weekday] => days(&format!("0 0 {day} {month} {weekday}")),
        _ => Err(EXAMPLES.to_owned()),
    }
}

fn days(expression: &str) -> Result<Pattern, String> {
    match expression.parse::<Cron>() {
        Ok(cron) => Ok(Pattern::Days(Box::new(cron))),
        Err(error) => Err(format!("{error}; {EXAMPLES}")),
    }
}

fn easter_offset(text: &str) -> Result<i32, String> {
    let offset = if text.is_empty() { Some(0) } else { text.parse::<i32>().ok() };
    let has_sign = text.is_empty() || text.starts_with(['+', '-']);
    offset
        .filter(|offset| has_sign && (-200..=200).contains(offset))
        .ok_or_else(|| "write EASTER, EASTER+39 or EASTER-2, at most 200 days away".to_owned())
}

fn parse_date(text: &str) -> Result<Date, String> {
    match text.parse::<Date>() {
        Ok(day) if text.len() == 10 => Ok(day),
        _ => Err(format!("{text:?} is not a date; {EXAMPLES}")),
    }
}

impl fmt::Display for DayRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for DayRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<DayRule> for String {
    fn from(rule: DayRule) -> String {
        rule.text
    }
}

/// How a job uses a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarUse {
    /// The calendar's name.
    pub name: String,
    /// Whether the job runs on its days or on other days.
    pub mode: CalendarMode,
    /// Treatment of a time on a day on which the job does not run.
    #[serde(default, skip_serializing_if = "Shift::is_skip")]
    pub shift: Shift,
    /// The calendar as it was when the job was last planned with it. The engine sets it; a use that
    /// an interface writes has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedCalendar>,
}

/// A version of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedCalendar {
    /// The version of the resource.
    pub version: u32,
    /// Its days.
    pub calendar: Calendar,
}

/// Whether a job runs on the days of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CalendarMode {
    /// It does not run on them.
    Exclude,
    /// It runs on no other days.
    Include,
}

/// Treatment of a time on a day on which the job does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Shift {
    /// It is skipped.
    #[default]
    Skip,
    /// It moves to the next day on which the job runs, at the same local time.
    Next,
    /// It moves to the last day before on which the job runs, at the same local time.
    Previous,
}

impl Shift {
    /// Whether a time is skipped.
    pub fn is_skip(&self) -> bool {
        *self == Shift::Skip
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Shift::Skip => "SKIP",
            Shift::Next => "NEXT",
            Shift::Previous => "PREVIOUS",
        }
    }
}

impl CalendarMode {
    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            CalendarMode::Exclude => "EXCLUDE",
            CalendarMode::Include => "INCLUDE",
        }
    }
}

#[cfg(test)]
mod tests;
