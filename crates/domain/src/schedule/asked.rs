//! The time that a question is about, however a person writes it.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::AmbiguousOffset;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::{AtError, Zone, Zones, parse_duration, parse_instant};

/// A time that a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedTime {
    /// The instant. Of a local time that happens twice it is the first pass, of one that does not
    /// exist the moment at which the clocks jump over it.
    pub at: Timestamp,
    /// How much the text names: a second, a minute or a day from `at` on.
    pub span: SignedDuration,
    /// Irregularity of the local time.
    pub kind: AskedKind,
}

/// How many instants a local time has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedKind {
    /// One instant.
    Once,
    /// None: clocks jump over it.
    Missing {
        /// The local time.
        local: DateTime,
        /// The zone's name.
        zone: String,
        /// The reading with the offset before the jump, as much after it as the local time is.
        shifted: Timestamp,
    },
    /// Two: clocks are set back over it.
    Twice {
        /// The local time.
        local: DateTime,
        /// The zone's name.
        zone: String,
        /// The second pass.
        second: Timestamp,
    },
}

/// A second, the least that a question names.
const SECOND: SignedDuration = SignedDuration::from_secs(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Reads the time of a question: an instant (`2026-03-08T07:00:00Z`), a local time of `zone`
/// (`2026-03-08 02:30`), a day (`2026-03-08`, `yesterday`), a time of a day (`02:30`,
/// `yesterday 02:30`), `now`, or a distance from now (`90m ago`, `-90m`, `+2h`).
///
/// ```
/// use punctual_domain::schedule::{Zones, asked_time};
///
/// let zones = Zones::bundled();
/// let zone = zones.find("Europe/Berlin")?;
/// let now = "2026-03-29T10:00:00Z".parse()?;
/// let asked = asked_time("yesterday 02:30", &zone, &zones, now)?;
/// assert_eq!(asked.at.to_string(), "2026-03-28T01:30:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn asked_time(
    text: &str,
    zone: &Zone,
    zones: &Zones,
    now: Timestamp,
) -> Result<AskedTime, AtError> {
    let text = text.trim();
    if let Some(asked) = relative(text, now) {
        return Ok(asked);
    }
    if let Some((local, span)) = of_day(text, zone, now) {
        let unreadable = || AtError::Unreadable { text: text.to_owned() };
        return of_local(local, zone, span).ok_or_else(unreadable);
    }
    let span = if has_seconds(text) { SECOND } else { MINUTE };
    let kind = AskedKind::Once;
    match parse_instant(text, zone, zones) {
        Ok(at) => Ok(AskedTime { at: whole_second(at), span, kind }),
        Err(AtError::Missing { local, zone: name, .. }) => {
            let own = zones.find(&name)?;
            let unreadable = || AtError::Unreadable { text: text.to_owned() };
            of_local(local, &own, span).ok_or_else(unreadable)
        }
        Err(AtError::Repeated { local, zone: name, .. }) => {
            let own = zones.find(&name)?;
            let unreadable = || AtError::Unreadable { text: text.to_owned() };
            of_local(local, &own, span).ok_or_else(unreadable)
        }
        Err(error) => Err(error),
    }
}

/// `now`, `5m ago`, `-5m`, `+5m`.
fn relative(text: &str, now: Timestamp) -> Option<AskedTime> {
    let lower = text.to_ascii_lowercase();
    let at = match lower.strip_suffix("ago").map(str::trim) {
        Some(length) => now.checked_sub(parse_duration(length).ok()?).ok()?,
        None if lower == "now" => now,
        None => match lower.split_at_checked(1)? {
            ("-", length) => now.checked_sub(parse_duration(length.trim()).ok()?).ok()?,
            ("+", length) => now.checked_add(parse_duration(length.trim()).ok()?).ok()?,
            _ => return None,
        },
    };
    Some(AskedTime { at: whole_second(at), span: SECOND, kind: AskedKind::Once })
}

/// A day, or a time of a day that is named by a word or not at all.
fn of_day(text: &str, zone: &Zone, now: Timestamp) -> Option<(DateTime, SignedDuration)> {
    let today = now.to_zoned(zone.time_zone().clone()).date();
    let lower = text.to_ascii_lowercase();
    if lower.is_empty() {
        return None;
    }
    let (word, rest) = lower.split_once(char::is_whitespace).unwrap_or((&lower, ""));
    let date = match word {
        "today" => Some(today),
        "yesterday" => today.checked_sub(1.day()).ok(),
        "tomorrow" => today.checked_add(1.day()).ok(),
        _ => None,
    };
    let (date, time) = match date {
        Some(date) => (date, rest.trim()),
        None => match text.parse::<Date>() {
            Ok(date) if text.len() == 10 => (date, ""),
            _ => (today, lower.as_str()),
        },
    };
    if time.is_empty() {
        return Some((date.at(0, 0, 0, 0), SignedDuration::from_hours(24)));
    }
    if !time.contains(':') || time.len() > 12 || time.contains(['-', '+', 'z', 't']) {
        return None;
    }
    let span = if has_seconds(time) { SECOND } else { MINUTE };
    let time = if time.len() == 4 { format!("0{time}") } else { time.to_owned() };
    Some((date.to_datetime(time.parse::<Time>().ok()?), span))
}

/// The instants of a local time; none at the ends of the calendar.
fn of_local(local: DateTime, zone: &Zone, span: SignedDuration) -> Option<AskedTime> {
    let (name, zone) = (zone.name().to_owned(), zone.time_zone());
    Some(match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => {
            AskedTime { at: offset.to_timestamp(local).ok()?, span, kind: AskedKind::Once }
        }
        AmbiguousOffset::Gap { before, .. } => {
            // The reading with the offset before the jump lies behind the jump.
            let late = before.to_timestamp(local).ok()?;
            let after = late.checked_add(SECOND).ok()?;
            let jump = zone.preceding(after).next()?.timestamp();
            AskedTime {
                at: jump,
                span,
                kind: AskedKind::Missing { local, zone: name, shifted: late },
            }
        }
        AmbiguousOffset::Fold { before, after } => AskedTime {
            at: before.to_timestamp(local).ok()?,
            span,
            kind: AskedKind::Twice { local, zone: name, second: after.to_timestamp(local).ok()? },
        },
    })
}

/// Whether a time of day in a text names seconds: `02:30:00`, not `02:30`.
fn has_seconds(text: &str) -> bool {
    let time = text.split(['T', 't', ' ']).next_back().unwrap_or(text);
    let time = time.split(['Z', 'z', '+', '[']).next().unwrap_or(time);
    let time = time.split_once('-').map_or(time, |(time, _)| time);
    time.matches(':').count() != 1
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_question() {
        let zones = Zones::bundled();
        let zone = zones.find("America/New_York").unwrap();
        let now: Timestamp = "2026-03-10T12:00:30.5Z".parse().unwrap();
        for (text, expected) in [
            ("2026-03-08T07:00:00Z", "2026-03-08T07:00:00Z 1s once"),
            ("2026-03-08T07:00:00.7Z", "2026-03-08T07:00:00Z 1s once"),
            ("2026-03-08T07:00Z", "2026-03-08T07:00:00Z 1m once"),
            ("2026-03-08 09:15", "2026-03-08T13:15:00Z 1m once"),
            ("2026-03-08T02:00:00-05:00", "2026-03-08T07:00:00Z 1s once"),
            ("2026-03-08 09:15:30", "2026-03-08T13:15:30Z 1s once"),
            ("2026-03-09", "2026-03-09T04:00:00Z 24h once"),
            ("yesterday", "2026-03-09T04:00:00Z 24h once"),
            ("yesterday 02:30", "2026-03-09T06:30:00Z 1m once"),
            ("today 2:30", "2026-03-10T06:30:00Z 1m once"),
            ("tomorrow 02:30:10", "2026-03-11T06:30:10Z 1s once"),
            ("02:30", "2026-03-10T06:30:00Z 1m once"),
            ("now", "2026-03-10T12:00:30Z 1s once"),
            ("90m ago", "2026-03-10T10:30:30Z 1s once"),
            ("-90m", "2026-03-10T10:30:30Z 1s once"),
            ("+1h", "2026-03-10T13:00:30Z 1s once"),
            ("2026-07-01T12:00[Europe/Berlin]", "2026-07-01T10:00:00Z 1m once"),
            // Clocks jump from 02:00 to 03:00, and back from 02:00 to 01:00.
            ("2026-03-08 02:30", "2026-03-08T07:00:00Z 1m missing 2026-03-08T02:30:00"),
            ("2026-11-01 01:30", "2026-11-01T05:30:00Z 1m twice 2026-11-01T06:30:00Z"),
            (
                "2026-03-29T02:30[Europe/Berlin]",
                "2026-03-29T01:00:00Z 1m missing 2026-03-29T02:30:00",
            ),
        ] {
            let asked = asked_time(text, &zone, &zones, now).unwrap_or_else(|it| panic!("{it}"));
            let kind = match &asked.kind {
                AskedKind::Once => "once".to_owned(),
                AskedKind::Missing { local, .. } => format!("missing {local}"),
                AskedKind::Twice { second, .. } => format!("twice {second}"),
            };
            assert_eq!(format!("{} {:#} {kind}", asked.at, asked.span), expected, "{text}");
        }
        for text in ["", "whenever", "25:00", "ago", "- 3", "2026-13-01", "12:00 tomorrow"] {
            assert!(asked_time(text, &zone, &zones, now).is_err(), "{text}");
        }
    }
}
