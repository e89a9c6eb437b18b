//! Intervals as in PostgreSQL: months, days and time, which are not converted into each other.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};
use rusqlite::types::Value as Inner;

use super::time::{out_of_range, time};
use super::{Answer, Arguments, FLOAT, INTERVAL, Scalar, TIME, strict, wrong};
use crate::error::QueryError;
use crate::value::show_time;
use crate::vtab::Shared;

pub(crate) const SCALARS: &[Scalar] = &[
    strict("_interval", (1, 2), INTERVAL, |_, arguments| {
        let unit = if arguments.len() == 2 { arguments.text(1) } else { String::new() };
        Ok(read(&format!("{} {unit}", arguments.text(0)))?.to_string().into())
    }),
    strict("_seconds", (1, 1), FLOAT, |_, arguments| {
        Ok(read(&arguments.text(0))?.seconds().into())
    }),
    strict("_time_add", (3, 3), TIME, |shared, arguments| {
        let at = time(shared, arguments, 0)?;
        let length = read(&arguments.text(1))?.times(arguments.float(2)?);
        Ok(show_time(length.after(at).ok_or_else(out_of_range)?).into())
    }),
    strict("_time_sub", (2, 2), INTERVAL, |shared, arguments| {
        let (a, b) = (time(shared, arguments, 0)?, time(shared, arguments, 1)?);
        let us = a.as_microsecond() - b.as_microsecond();
        let day = 86_400_000_000;
        Ok(Interval { months: 0, days: us / day, us: us % day }.to_string().into())
    }),
    strict("_interval_add", (3, 3), INTERVAL, |_, arguments| {
        let b = read(&arguments.text(1))?.times(arguments.float(2)?);
        Ok(read(&arguments.text(0))?.plus(b).to_string().into())
    }),
    strict("_interval_mul", (2, 2), INTERVAL, |_, arguments| {
        Ok(read(&arguments.text(0))?.times(arguments.float(1)?).to_string().into())
    }),
    strict("make_interval", (0, 7), INTERVAL, |_, arguments| {
        let number = |n| if n < arguments.len() { arguments.float(n) } else { Ok(0.0) };
        let days = number(2)? * 7.0 + number(3)?;
        let seconds = number(4)? * 3_600.0 + number(5)? * 60.0 + number(6)?;
        let months = number(0)? * 12.0 + number(1)?;
        let us = (seconds * 1e6) as i64;
        Ok(Interval { months: months as i64, days: days as i64, us }.to_string().into())
    }),
    strict("age", (1, 2), INTERVAL, age),
    strict("justify_hours", (1, 1), INTERVAL, |_, arguments| {
        let length = read(&arguments.text(0))?;
        let day = 86_400_000_000;
        let days = length.days + length.us / day;
        Ok(Interval { days, us: length.us % day, ..length }.to_string().into())
    }),
];

/// An interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    months: i64,
    days: i64,
    us: i64,
}

impl Interval {
    /// The interval in seconds; a month has 30 days.
    pub fn seconds(self) -> f64 {
        (self.months * 30 + self.days) as f64 * 86_400.0 + self.us as f64 / 1e6
    }

    pub fn times(self, factor: f64) -> Self {
        let months = self.months as f64 * factor;
        let days = self.days as f64 * factor + months.fract() * 30.0;
        let us = self.us as f64 * factor + days.fract() * 86_400e6;
        Interval { months: months as i64, days: days as i64, us: us as i64 }
    }

    fn plus(self, other: Self) -> Self {
        Interval {
            months: self.months.saturating_add(other.months),
            days: self.days.saturating_add(other.days),
            us: self.us.saturating_add(other.us),
        }
    }

    /// The time that is so much later.
    pub fn after(self, at: Timestamp) -> Option<Timestamp> {
        let calendar = Span::new().try_months(self.months).ok()?.try_days(self.days).ok()?;
        let at = at.to_zoned(TimeZone::UTC).checked_add(calendar).ok()?;
        at.timestamp().checked_add(SignedDuration::from_micros(self.us)).ok()
    }

    /// A part of it, as `date_part` names them.
    pub fn part(self, field: &str) -> Option<f64> {
        let seconds = self.us as f64 / 1e6;
        Some(match field {
            "epoch" => self.seconds(),
            "year" => (self.months / 12) as f64,
            "month" => (self.months % 12) as f64,
            "day" => self.days as f64,
            "hour" => (seconds / 3_600.0).trunc(),
            "minute" => (seconds / 60.0).trunc() % 60.0,
            "second" => seconds % 60.0,
            "milliseconds" => seconds % 60.0 * 1e3,
            "microseconds" => seconds % 60.0 * 1e6,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        for (amount, unit) in
            [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")]
        {
            match amount {
                0 => {}
                1 => parts.push(format!("1 {unit}")),
                _ => parts.push(format!("{amount} {unit}s")),
            }
        }
        if self.us != 0 || parts.is_empty() {
            let (sign, us) = (if self.us < 0 { "-" } else { "" }, self.us.unsigned_abs());
            let (seconds, part) = (us / 1_000_000, us % 1_000_000);
            let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
            let part = if part == 0 { String::new() } else { format!(".{part:06}") };
            parts.push(format!("{sign}{h:02}:{m:02}:{s:02}{}", part.trim_end_matches('0')));
        }
        f.write_str(&parts.join(" "))
    }
}

/// Parses `1 day 02:03:04`, `90 minutes`, `1h 30m`, `-1 week`, `3 days ago`.
pub(crate) fn read(text: &str) -> Result<Interval, QueryError> {
    let bad = || wrong(text.trim(), "an interval such as 1 day 02:30:00 or 90 minutes");
    let lower = text.trim().to_lowercase();
    let (words, sign) = match lower.strip_suffix("ago") {
        Some(words) => (words, -1.0),
        None => (lower.as_str(), 1.0),
    };
    let mut total = Interval::default();
    let mut number: Option<f64> = None;
    for word in split(words) {
        if word.contains(':') {
            total = total.plus(clock(word).ok_or_else(bad)?);
        } else if let Ok(read) = word.parse::<f64>() {
            if number.replace(read).is_some() {
                return Err(bad());
            }
        } else {
            let amount = number.take().ok_or_else(bad)?;
            total = total.plus(unit(word).ok_or_else(bad)?.times(amount));
        }
    }
    if let Some(seconds) = number {
        total = total.plus(Interval { us: (seconds * 1e6) as i64, ..Interval::default() });
    }
    if words.trim().is_empty() { Err(bad()) } else { Ok(total.times(sign)) }
}

/// Splits a text into words, also between a number and a unit without a space.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '@', ',']).filter(|word| !word.is_empty()).flat_map(|word| {
        let unit = word.find(|c: char| c.is_ascii_alphabetic());
        let cut = unit.filter(|_| !word.contains(':')).unwrap_or(word.len());
        [&word[..cut], &word[cut..]].into_iter().filter(|word| !word.is_empty())
    })
}

fn unit(word: &str) -> Option<Interval> {
    let us = |us: i64| Interval { us, ..Interval::default() };
    let days = |days: i64| Interval { days, ..Interval::default() };
    let months = |months: i64| Interval { months, ..Interval::default() };
    Some(match word {
        "us" | "microsecond" | "microseconds" => us(1),
        "ms" | "millisecond" | "milliseconds" => us(1_000),
        "s" | "sec" | "secs" | "second" | "seconds" => us(1_000_000),
        "m" | "min" | "mins" | "minute" | "minutes" => us(60_000_000),
        "h" | "hr" | "hrs" | "hour" | "hours" => us(3_600_000_000),
        "d" | "day" | "days" => days(1),
        "w" | "week" | "weeks" => days(7),
        "mon" | "mons" | "month" | "months" => months(1),
        "y" | "year" | "years" => months(12),
        _ => return None,
    })
}

fn clock(word: &str) -> Option<Interval> {
    let (sign, word) = match word.strip_prefix('-') {
        Some(word) => (-1, word),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = word.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let us = (hours * 3_600 + minutes * 60) * 1_000_000 + (seconds * 1e6).round() as i64;
    Some(Interval { us: sign * us, ..Interval::default() })
}

fn age(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (later, earlier) = if arguments.len() == 2 {
        (time(shared, arguments, 0)?, time(shared, arguments, 1)?)
    } else {
        let today = shared.budget.now().to_zoned(TimeZone::UTC).start_of_day();
        (today.map_err(|_| out_of_range())?.timestamp(), time(shared, arguments, 0)?)
    };
    let (from, to) = (earlier.to_zoned(TimeZone::UTC), later.to_zoned(TimeZone::UTC));
    let span = from.until((jiff::Unit::Year, &to)).map_err(|_| out_of_range())?;
    let seconds =
        i64::from(span.get_hours()) * 3_600 + span.get_minutes() * 60 + span.get_seconds();
    let us = seconds * 1_000_000 + span.get_milliseconds() * 1_000 + span.get_microseconds();
    let months = i64::from(span.get_years()) * 12 + i64::from(span.get_months());
    let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
    Ok(Inner::Text(Interval { months, days, us }.to_string()))
}
