//! One-time schedules: an instant, however it was written.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::{Pieces, PiecesOffset, TimeZoneAnnotationKind};
use jiff::tz::{AmbiguousOffset, Offset};

use super::{Zone, ZoneError, Zones};

/// Why a time was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AtError {
    /// The text is not a time.
    #[error(
        "{text:?} is not a time: write 2026-03-08T02:30:00Z, or 2026-03-08 02:30 for the time of a zone"
    )]
    Unreadable {
        /// The text as it was given.
        text: String,
    },
    /// The local time does not exist, because clocks jump over it.
    #[error("{local} does not exist in {zone}: clocks jump over it; write {earlier} or {later}")]
    Missing {
        /// The local time.
        local: DateTime,
        /// The zone's name.
        zone: String,
        /// The reading with the offset after the jump.
        earlier: String,
        /// The reading with the offset before the jump.
        later: String,
    },
    /// The local time happens twice, because clocks are set back over it.
    #[error("{local} happens twice in {zone}; write {earlier} or {later}")]
    Repeated {
        /// The local time.
        local: DateTime,
        /// The zone's name.
        zone: String,
        /// The first pass.
        earlier: String,
        /// The second pass.
        later: String,
    },
    /// The text names an offset that its zone does not have at that time.
    #[error("{text:?} contradicts itself: {zone} has another offset at that time")]
    WrongOffset {
        /// The text as it was given.
        text: String,
        /// The zone's name.
        zone: String,
    },
    /// The text names a zone that does not exist.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

/// Reads an instant (`2026-03-08T07:00:00Z`, `…-05:00`), or a local time of `zone`
/// (`2026-03-08 02:30`) or of a zone of its own (`2026-03-08T02:30[Europe/Berlin]`) that has
/// exactly one meaning.
///
/// ```
/// use punctual_domain::schedule::{Zones, parse_instant};
///
/// let zones = Zones::bundled();
/// let zone = zones.find("America/New_York")?;
/// assert_eq!(parse_instant("2026-03-08 12:00", &zone, &zones)?.to_string(), "2026-03-08T16:00:00Z");
/// let error = parse_instant("2026-11-01 01:30", &zone, &zones).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "2026-11-01T01:30:00 happens twice in America/New_York; \
///      write 2026-11-01T01:30:00-04:00 or 2026-11-01T01:30:00-05:00",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse_instant(text: &str, zone: &Zone, zones: &Zones) -> Result<Timestamp, AtError> {
    let text = text.trim();
    let unreadable = || AtError::Unreadable { text: text.to_owned() };
    let pieces = Pieces::parse(text).map_err(|_| unreadable())?;
    let local = pieces.date().to_datetime(pieces.time().ok_or_else(unreadable)?);
    let own_zone = match pieces.time_zone_annotation().map(|annotation| annotation.kind()) {
        Some(TimeZoneAnnotationKind::Named(name)) => Some(zones.find(name.as_str())?),
        Some(TimeZoneAnnotationKind::Offset(_)) => return Err(unreadable()),
        Some(_) | None => None,
    };
    if let Some(offset) = pieces.offset() {
        let offset = match offset {
            PiecesOffset::Numeric(offset) => offset.offset(),
            _ => Offset::UTC,
        };
        let instant = offset.to_timestamp(local).map_err(|_| unreadable())?;
        return match own_zone {
            Some(zone) if zone.time_zone().to_offset(instant) != offset => {
                Err(AtError::WrongOffset { text: text.to_owned(), zone: zone.name().to_owned() })
            }
            _ => Ok(instant),
        };
    }
    local_instant(local, own_zone.as_ref().unwrap_or(zone)).ok_or_else(unreadable)?
}

/// The one instant that a local time means; none at the ends of the calendar.
fn local_instant(local: DateTime, zone: &Zone) -> Option<Result<Timestamp, AtError>> {
    let written = |offset: Offset, instant: Timestamp| {
        let local = offset.to_datetime(instant);
        format!("{}{}", local.strftime("%Y-%m-%dT%H:%M:%S"), zone_suffix(offset))
    };
    let readings = |before: Offset, after: Offset| {
        let (first, second) = (before.to_timestamp(local).ok()?, after.to_timestamp(local).ok()?);
        Some((first, second))
    };
    let zone_name = zone.name().to_owned();
    Some(match zone.time_zone().to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(offset.to_timestamp(local).ok()?),
        AmbiguousOffset::Gap { before, after } => {
            let (late, early) = readings(before, after)?;
            let (earlier, later) = (written(before, early), written(after, late));
            Err(AtError::Missing { local, zone: zone_name, earlier, later })
        }
        AmbiguousOffset::Fold { before, after } => {
            let (first, second) = readings(before, after)?;
            let (earlier, later) = (written(before, first), written(after, second));
            Err(AtError::Repeated { local, zone: zone_name, earlier, later })
        }
    })
}

/// An offset as RFC 3339 writes it, with seconds only where a zone of the past had them.
fn zone_suffix(offset: Offset) -> String {
    let text = offset.to_string();
    if text.contains(':') { text } else { format!("{text}:00") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Zones;

    #[test]
    fn every_spelling_of_an_instant() {
        let zones = Zones::bundled();
        let zone = zones.find("America/New_York").unwrap();
        for (text, expected) in [
            ("2026-03-08T07:00:00Z", "2026-03-08T07:00:00Z"),
            ("2026-03-08T02:00:00-05:00", "2026-03-08T07:00:00Z"),
            ("2026-03-08 09:15", "2026-03-08T13:15:00Z"),
            (" 2026-03-08T09:15:30 ", "2026-03-08T13:15:30Z"),
            ("2026-07-01T12:00[Europe/Berlin]", "2026-07-01T10:00:00Z"),
            ("2026-07-01T12:00:00+02:00[Europe/Berlin]", "2026-07-01T10:00:00Z"),
        ] {
            assert_eq!(parse_instant(text, &zone, &zones).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_local_time_with_no_or_two_meanings_names_both_readings() {
        let zones = Zones::bundled();
        let zone = zones.find("America/New_York").unwrap();
        for (text, expected) in [
            (
                "2026-03-08 02:30",
                "2026-03-08T02:30:00 does not exist in America/New_York: clocks jump over it; \
                 write 2026-03-08T01:30:00-05:00 or 2026-03-08T03:30:00-04:00",
            ),
            (
                "2026-11-01 01:30",
                "2026-11-01T01:30:00 happens twice in America/New_York; \
                 write 2026-11-01T01:30:00-04:00 or 2026-11-01T01:30:00-05:00",
            ),
            (
                "2026-11-01T01:30[America/New_York]",
                "2026-11-01T01:30:00 happens twice in America/New_York; \
                 write 2026-11-01T01:30:00-04:00 or 2026-11-01T01:30:00-05:00",
            ),
            (
                "2026-07-01T12:00+05:00[Europe/Berlin]",
                "\"2026-07-01T12:00+05:00[Europe/Berlin]\" contradicts itself: Europe/Berlin has another offset at that time",
            ),
            (
                "2026-07-01T12:00[Europe/Berlim]",
                "\"Europe/Berlim\" is not a time zone; did you mean Europe/Berlin?",
            ),
            (
                "tomorrow",
                "\"tomorrow\" is not a time: write 2026-03-08T02:30:00Z, or 2026-03-08 02:30 for the time of a zone",
            ),
        ] {
            assert_eq!(parse_instant(text, &zone, &zones).unwrap_err().to_string(), expected);
        }
    }
}
