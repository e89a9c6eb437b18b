//! The clock of this machine: the present moment and the time zones.
//!
//! Nothing else in the binary reads either from the machine, so that every result below the command
//! line follows from its arguments.

use std::time::Instant;

use domain::schedule::Zones;
use jiff::{SignedDuration, Timestamp};

/// The present moment, to the microsecond: a store keeps no more.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// A clock that cannot be set: the wall clock at its creation plus the monotonic time since.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn steady() -> impl Fn() -> Timestamp + Send + Sync {
    let (begun, at) = (Instant::now(), now());
    move || {
        let passed = i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX);
        at.saturating_add(SignedDuration::from_micros(passed)).unwrap_or(at)
    }
}

/// The machine's time zones, with the compiled-in ones for names that it does not have.
#[expect(clippy::disallowed_methods, reason = "the one place that opens the machine's time zones")]
pub fn zones() -> Zones {
    Zones::preferring(jiff::tz::db().clone(), machine_version())
}

/// The version of the machine's time-zone database, if its files name one.
fn machine_version() -> Option<String> {
    let folders = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];
    folders.iter().find_map(|folder| {
        let table = || std::fs::read_to_string(format!("{folder}/tzdata.zi")).ok();
        let first = || table()?.lines().next()?.strip_prefix("# version ").map(str::to_owned);
        let own = std::fs::read_to_string(format!("{folder}/+VERSION")).ok();
        own.or_else(first).map(|version| version.trim().to_owned())
    })
}

/// The time zone of this machine; UTC if it is unknown.
#[expect(clippy::disallowed_methods, reason = "the one place that asks for the machine's zone")]
pub fn zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::system()
}

/// The name of the time zone of this machine; UTC if it is unknown.
#[expect(clippy::disallowed_methods, reason = "the one place that asks for the machine's zone")]
pub fn zone_name() -> String {
    let zone = jiff::tz::TimeZone::system();
    zone.iana_name().filter(|name| *name != "Etc/Unknown").unwrap_or("UTC").to_owned()
}
