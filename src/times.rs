//! Times as people type them: an instant, a local time, a word, or how long ago or from now.

use domain::schedule::{Zone, Zones, parse_duration, parse_instant};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::clock;

/// The accepted forms of a time, for the help of options.
pub const FORMS: &str = "write 2026-11-17T10:00:00Z, '2026-11-17 10:00' (local time), 10:00, today, \
                         yesterday, tomorrow, 1h (or '1h ago', 'in 1h')";

/// Which way a duration without a word counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Back,
    Ahead,
}

/// A time in an option about the past: `1h` is an hour ago.
pub fn past(text: &str) -> Result<Timestamp, String> {
    read_now(text, Direction::Back)
}

/// A time in an option about the future: `1h` is in an hour.
pub fn future(text: &str) -> Result<Timestamp, String> {
    read_now(text, Direction::Ahead)
}

/// The same with local times of a zone, or of this machine if none is named. A zone that is not
/// known here is left to the server, which names those that it knows.
pub fn future_in(zone: Option<&str>, text: &str) -> Result<String, String> {
    let zones = clock::zones();
    let Some(name) = zone else { return future(text).map(|at| at.to_string()) };
    let Ok(zone) = zones.find(name) else { return Ok(text.to_owned()) };
    read(text, Direction::Ahead, clock::now(), &zone, &zones).map(|at| at.to_string())
}

fn read_now(text: &str, bare: Direction) -> Result<Timestamp, String> {
    let zones = clock::zones();
    let zone = zones.find(&clock::zone_name()).unwrap_or(Zone::UTC);
    read(text, bare, clock::now(), &zone, &zones)
}

fn read(
    text: &str,
    bare: Direction,
    now: Timestamp,
    zone: &Zone,
    zones: &Zones,
) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Some(time) = word(text, now, zone.time_zone()) {
        return Ok(time);
    }
    // Before durations, which can be written with colons, too.
    if let Ok(time) = Time::strptime("%H:%M:%S", text).or_else(|_| Time::strptime("%H:%M", text)) {
        let today = zone.time_zone().to_datetime(now).date();
        let text = today.to_datetime(time).to_string();
        return parse_instant(&text, zone, zones).map_err(|error| error.to_string());
    }
    if let Some(time) = relative(text, bare, now) {
        return time;
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == "2026-11-17".len()
    {
        return start_of_day(date, zone.time_zone()).ok_or_else(|| FORMS.to_owned());
    }
    parse_instant(text, zone, zones).map_err(|error| match error {
        domain::schedule::AtError::Unreadable { .. } => FORMS.to_owned(),
        error => error.to_string(),
    })
}

/// `now`, and the starts of days.
fn word(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = zone.to_datetime(now).date();
    let day = match text.to_ascii_lowercase().as_str() {
        "now" => return Some(now),
        "today" => today,
        "yesterday" => today.checked_sub(1.day()).ok()?,
        "tomorrow" => today.checked_add(1.day()).ok()?,
        _ => return None,
    };
    start_of_day(day, zone)
}

fn start_of_day(day: jiff::civil::Date, zone: &TimeZone) -> Option<Timestamp> {
    Some(day.to_zoned(zone.clone()).ok()?.timestamp())
}

/// A duration before or after the present; none when the text is no duration.
fn relative(text: &str, bare: Direction, now: Timestamp) -> Option<Result<Timestamp, String>> {
    let lower = text.to_ascii_lowercase();
    let (length, direction) = if let Some(length) = lower.strip_suffix("ago") {
        (length, Direction::Back)
    } else if let Some(length) = lower.strip_prefix("in ") {
        (length, Direction::Ahead)
    } else if let Some(length) = lower.strip_prefix('-') {
        (length, Direction::Back)
    } else if let Some(length) = lower.strip_prefix('+') {
        (length, Direction::Ahead)
    } else {
        (lower.as_str(), bare)
    };
    // A number alone is no time; a text with a date is none of these.
    let length: SignedDuration = parse_duration(length.trim()).ok()?;
    let moved = match direction {
        Direction::Back => now.checked_sub(length),
        Direction::Ahead => now.checked_add(length),
    };
    Some(moved.map_err(|_| "it is too far away".to_owned()))
}

/// How far a time is from the present, in the largest unit that fits: `in 48s`, `3m ago`.
pub fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs();
    let shown = length(seconds.unsigned_abs());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {shown}"),
        _ => format!("{shown} ago"),
    }
}

fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let zones = Zones::bundled();
        let zone = zones.find("Europe/Berlin").unwrap();
        let now: Timestamp = "2026-11-17T09:30:00Z".parse().unwrap();
        let rows = [
            ("2026-11-17T10:00:00Z", "2026-11-17T10:00:00Z"),
            ("2026-11-17 10:00", "2026-11-17T09:00:00Z"),
            ("2026-11-17", "2026-11-16T23:00:00Z"),
            ("10:00", "2026-11-17T09:00:00Z"),
            ("10:00:30", "2026-11-17T09:00:30Z"),
            ("now", "2026-11-17T09:30:00Z"),
            ("today", "2026-11-16T23:00:00Z"),
            ("Yesterday", "2026-11-15T23:00:00Z"),
            ("tomorrow", "2026-11-17T23:00:00Z"),
            ("1h ago", "2026-11-17T08:30:00Z"),
            ("-90s", "2026-11-17T09:28:30Z"),
            ("in 1h 30m", "2026-11-17T11:00:00Z"),
            ("+2 days", "2026-11-19T09:30:00Z"),
        ];
        for bare in [Direction::Back, Direction::Ahead] {
            for (text, expected) in rows {
                let got = read(text, bare, now, &zone, &zones).map(|at| at.to_string());
                assert_eq!(got.as_deref(), Ok(expected), "{text}");
            }
        }
        let hour = |bare| read("1h", bare, now, &zone, &zones).unwrap().to_string();
        assert_eq!(hour(Direction::Back), "2026-11-17T08:30:00Z");
        assert_eq!(hour(Direction::Ahead), "2026-11-17T10:30:00Z");
    }

    #[test]
    fn local_times_follow_the_named_zone() {
        let read = |zone, text| future_in(zone, text).unwrap();
        assert_eq!(read(Some("Europe/Berlin"), "2026-11-17 10:00"), "2026-11-17T09:00:00Z");
        assert_eq!(read(Some("Asia/Tokyo"), "2026-11-17 10:00"), "2026-11-17T01:00:00Z");
        assert_eq!(read(None, "2026-11-17T10:00:00Z"), "2026-11-17T10:00:00Z");
        assert_eq!(read(Some("Nowhere"), "2026-11-17 10:00"), "2026-11-17 10:00");
        assert!(read(None, "tomorrow").ends_with('Z'));
        assert_eq!(future_in(Some("Europe/Berlin"), "soon"), Err(FORMS.to_owned()));
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_forms() {
        let zones = Zones::bundled();
        let zone = zones.find("Europe/Berlin").unwrap();
        let now: Timestamp = "2026-11-17T09:30:00Z".parse().unwrap();
        for text in ["", "soon", "5", "2026-13-01", "25:00", "2026-11-17T", "1x ago"] {
            let refused = read(text, Direction::Back, now, &zone, &zones);
            assert_eq!(refused.as_ref().map_err(String::as_str), Err(FORMS), "{text}");
        }
        let gap = read("2026-03-29 02:30", Direction::Back, now, &zone, &zones).unwrap_err();
        assert!(gap.contains("Europe/Berlin"), "{gap}");
    }

    #[test]
    fn distances_have_one_unit() {
        let now: Timestamp = "2026-11-17T09:30:00Z".parse().unwrap();
        for (seconds, expected) in [
            (0, "now"),
            (48, "in 48s"),
            (-119, "119s ago"),
            (-180, "3m ago"),
            (7_200, "in 2h"),
            (-200_000, "2d ago"),
        ] {
            let at = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            assert_eq!(distance(at, now), expected);
        }
    }
}
