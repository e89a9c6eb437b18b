//! Date and time functions.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit, Zoned};
use rusqlite::types::{Value as Inner, ValueRef};

use super::{Answer, Arguments, DATE, FLOAT, INT, Scalar, TEXT, TIME, wrong};
use crate::error::{QueryError, State};
use crate::value::show_time;
use crate::vtab::Shared;

macro_rules! scalar {
    ($name:literal, $least:literal..=$most:literal, $answers:expr, $call:expr) => {
        Scalar {
            name: $name,
            arguments: ($least, $most),
            strict: true,
            answers: $answers,
            call: $call,
        }
    };
}

pub(crate) const SCALARS: &[Scalar] = &[
    scalar!("now", 0..=0, TIME, |shared, _| Ok(show_time(shared.budget.now()).into())),
    scalar!("transaction_timestamp", 0..=0, TIME, |shared, _| Ok(
        show_time(shared.budget.now()).into()
    )),
    scalar!("statement_timestamp", 0..=0, TIME, |shared, _| Ok(
        show_time(shared.budget.now()).into()
    )),
    scalar!("clock_timestamp", 0..=0, TIME, |shared, _| Ok(show_time(shared.budget.now()).into())),
    scalar!("_today", 0..=0, DATE, |shared, _| Ok(day(shared.budget.now()).into())),
    scalar!("_time", 1..=1, TIME, |shared, arguments| Ok(
        show_time(time(shared, arguments, 0)?).into()
    )),
    scalar!("_date", 1..=1, DATE, |shared, arguments| {
        // A date with an offset is that date, also where it begins earlier or later.
        if let ValueRef::Text(_) = arguments.raw(0)
            && let Some((stated, _)) = day_with_offset(&arguments.text(0))
        {
            return Ok(stated.to_string().into());
        }
        Ok(day(time(shared, arguments, 0)?).into())
    }),
    scalar!("_ms", 1..=1, INT, |shared, arguments| {
        Ok(time(shared, arguments, 0)?.as_millisecond().into())
    }),
    scalar!("to_timestamp", 1..=2, TIME, to_timestamp),
    scalar!(
        "to_date",
        1..=2,
        DATE,
        |shared, arguments| Ok(day(time(shared, arguments, 0)?).into())
    ),
    scalar!("date", 1..=1, DATE, |shared, arguments| Ok(day(time(shared, arguments, 0)?).into())),
    scalar!("date_trunc", 2..=3, TIME, date_trunc),
    scalar!("date_part", 2..=2, FLOAT, date_part),
    scalar!("date_bin", 3..=3, TIME, date_bin),
    scalar!("to_char", 2..=2, TEXT, to_char),
    scalar!("_at_zone", 2..=2, TEXT, at_zone),
    scalar!("timezone", 2..=2, TEXT, |shared, arguments| {
        let zone = zone(shared, &arguments.text(0))?;
        Ok(local(&time(shared, arguments, 1)?.to_zoned(zone)).into())
    }),
];

/// The parts of `2026-11-15 +01`, JDBC's form of a date.
fn day_with_offset(text: &str) -> Option<(Date, &str)> {
    let (day, offset) = text.trim().split_once(' ')?;
    offset.starts_with(['+', '-']).then(|| day.parse().ok().zip(Some(offset))).flatten()
}

/// Parses a timestamp: RFC 3339, ISO 8601, with a space instead of `T`, with `+00` or without a
/// zone, or a date alone or with an offset.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Some((day, offset)) = day_with_offset(text) {
        return read(&format!("{day}T00:00:00{offset}"));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    // PostgreSQL writes offsets with hours only.
    let hours_only = text.len() > 13
        && matches!(text.as_bytes().get(text.len().wrapping_sub(3)), Some(b'+' | b'-'))
        && text[text.len() - 2..].bytes().all(|byte| byte.is_ascii_digit());
    if hours_only && let Ok(at) = format!("{text}:00").parse::<Timestamp>() {
        return Some(at);
    }
    let utc = |at: DateTime| at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    if let Ok(at) = text.parse::<DateTime>() {
        return utc(at);
    }
    text.parse::<Date>().ok().and_then(|day| utc(day.at(0, 0, 0, 0)))
}

fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
}

fn local(at: &Zoned) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// An argument as a timestamp.
pub(crate) fn time(
    shared: &Shared,
    arguments: &Arguments<'_>,
    n: usize,
) -> Result<Timestamp, QueryError> {
    match arguments.raw(n) {
        // A column of milliseconds.
        ValueRef::Integer(ms) => Timestamp::from_millisecond(ms).map_err(|_| out_of_range()),
        ValueRef::Real(ms) => Timestamp::from_millisecond(ms as i64).map_err(|_| out_of_range()),
        _ => {
            let text = arguments.text(n);
            let now = shared.budget.now();
            let midnight = now.to_zoned(TimeZone::UTC).start_of_day().ok();
            let days = |days: i64| {
                let at = midnight.as_ref()?.checked_add(days.days()).ok()?;
                Some(at.timestamp())
            };
            let found = match text.trim() {
                "now" => Some(now),
                "today" => days(0),
                "yesterday" => days(-1),
                "tomorrow" => days(1),
                "epoch" => Some(Timestamp::UNIX_EPOCH),
                text => read(text),
            };
            found.ok_or_else(|| wrong(&text, "a time such as 2026-11-15 10:00:00+00"))
        }
    }
}

pub(crate) fn out_of_range() -> QueryError {
    QueryError::new(State::InvalidValue, "the time is out of range")
}

fn zone(shared: &Shared, name: &str) -> Result<TimeZone, QueryError> {
    shared.source.zone(name).ok_or_else(|| {
        QueryError::new(State::InvalidValue, format!("there is no time zone {name:?}"))
    })
}

fn to_timestamp(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    if let ValueRef::Integer(_) | ValueRef::Real(_) = arguments.raw(0) {
        let us = arguments.float(0)? * 1e6;
        let at = Timestamp::from_microsecond(us.round() as i64).map_err(|_| out_of_range())?;
        return Ok(show_time(at).into());
    }
    Ok(show_time(time(shared, arguments, 0)?).into())
}

fn date_trunc(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let unit = arguments.text(0).to_lowercase();
    let name = if arguments.len() == 3 { arguments.text(2) } else { "UTC".into() };
    let at = time(shared, arguments, 1)?.to_zoned(zone(shared, &name)?);
    let start = |date: Date| date.to_zoned(at.time_zone().clone()).ok();
    let first = |month: i8| Date::new(at.year(), month, 1).ok();
    let cut = match unit.as_str() {
        "microseconds" | "microsecond" => at.round(Unit::Microsecond).ok(),
        "milliseconds" | "millisecond" => trunc(&at, Unit::Millisecond),
        "second" => trunc(&at, Unit::Second),
        "minute" => trunc(&at, Unit::Minute),
        "hour" => trunc(&at, Unit::Hour),
        "day" => start(at.date()),
        "week" => {
            let back = i64::from(at.weekday().to_monday_zero_offset());
            at.date().checked_sub(back.days()).ok().and_then(start)
        }
        "month" => start(at.date().first_of_month()),
        "quarter" => first((at.month() - 1) / 3 * 3 + 1).and_then(start),
        "year" => first(1).and_then(start),
        "decade" => Date::new(at.year() / 10 * 10, 1, 1).ok().and_then(start),
        _ => {
            let text = format!("{unit:?} is no unit; hour, day, week, month, quarter and year are");
            return Err(QueryError::new(State::InvalidValue, text));
        }
    };
    Ok(show_time(cut.ok_or_else(out_of_range)?.timestamp()).into())
}

fn trunc(at: &Zoned, unit: Unit) -> Option<Zoned> {
    at.round(jiff::ZonedRound::new().smallest(unit).mode(jiff::RoundMode::Trunc)).ok()
}

fn date_bin(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let width = (super::interval::read(&arguments.text(0))?.seconds() * 1e6) as i64;
    if width <= 0 {
        return Err(QueryError::new(State::InvalidValue, "the width must be more than nothing"));
    }
    let at = time(shared, arguments, 1)?.as_microsecond();
    let origin = time(shared, arguments, 2)?.as_microsecond();
    let bin = origin + (at - origin).div_euclid(width) * width;
    Ok(show_time(Timestamp::from_microsecond(bin).map_err(|_| out_of_range())?).into())
}

fn date_part(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let field = arguments.text(0).to_lowercase();
    let unknown = || {
        let text = format!(
            "{field:?} is no part of a time; epoch, year, month, day, dow, hour, minute and second are"
        );
        QueryError::new(State::InvalidValue, text)
    };
    if let ValueRef::Text(_) = arguments.raw(1)
        && read(&arguments.text(1)).is_none()
        && let Ok(interval) = super::interval::read(&arguments.text(1))
    {
        return interval.part(&field).map(Inner::Real).ok_or_else(unknown);
    }
    let at = time(shared, arguments, 1)?;
    let zoned = at.to_zoned(TimeZone::UTC);
    let part = match field.as_str() {
        "epoch" => at.as_microsecond() as f64 / 1e6,
        "year" | "isoyear" => f64::from(zoned.year()),
        "quarter" => f64::from((zoned.month() - 1) / 3 + 1),
        "month" => f64::from(zoned.month()),
        "week" => f64::from(zoned.date().iso_week_date().week()),
        "day" => f64::from(zoned.day()),
        "doy" => f64::from(zoned.day_of_year()),
        "dow" => f64::from(zoned.weekday().to_sunday_zero_offset()),
        "isodow" => f64::from(zoned.weekday().to_monday_one_offset()),
        "hour" => f64::from(zoned.hour()),
        "minute" => f64::from(zoned.minute()),
        "second" | "seconds" => {
            f64::from(zoned.second()) + f64::from(zoned.subsec_nanosecond()) / 1e9
        }
        "milliseconds" => {
            f64::from(zoned.second()) * 1e3 + f64::from(zoned.subsec_nanosecond()) / 1e6
        }
        "microseconds" => {
            f64::from(zoned.second()) * 1e6 + f64::from(zoned.subsec_nanosecond()) / 1e3
        }
        "timezone" | "timezone_hour" | "timezone_minute" => 0.0,
        _ => return Err(unknown()),
    };
    Ok(part.into())
}

/// The template patterns of `to_char`; a longer pattern comes before its prefixes.
const PATTERN: &[(&str, &str)] = &[
    ("YYYY", "%Y"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("Month", "%B"),
    ("MONTH", "%^B"),
    ("Mon", "%b"),
    ("MON", "%^b"),
    ("Day", "%A"),
    ("DDD", "%j"),
    ("DY", "%^a"),
    ("Dy", "%a"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("IW", "%V"),
    ("IYYY", "%G"),
    ("TZ", "%Z"),
    ("OF", "%z"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("D", "%u"),
];

fn to_char(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (pattern, at) = (arguments.text(1), time(shared, arguments, 0)?.to_zoned(TimeZone::UTC));
    let mut format = String::new();
    let mut rest = pattern.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            format.push_str(&quoted[..end].replace('%', "%%"));
            rest = quoted.get(end + 1..).unwrap_or_default();
        } else if let Some((word, shown)) = PATTERN.iter().find(|(word, _)| rest.starts_with(word))
        {
            format.push_str(shown);
            rest = &rest[word.len()..];
        } else {
            if first == '%' {
                format.push('%');
            }
            format.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    let shown =
        jiff::fmt::strtime::format(&format, &at).map_err(|_| wrong(&pattern, "a pattern"))?;
    Ok(shown.into())
}

fn at_zone(shared: &Shared, arguments: &Arguments<'_>) -> Answer {
    let zone = zone(shared, &arguments.text(1))?;
    Ok(local(&time(shared, arguments, 0)?.to_zoned(zone)).into())
}
