//! What this machine knows about time: the present moment and the time zones.
//!
//! Nothing else in the binary asks the machine for either, so that every answer below the
//! command line follows from its arguments.

use domain::schedule::Zones;
use jiff::Timestamp;

/// The present moment, to the microsecond: a store keeps no more.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// The machine's time zones, with the compiled-in ones for names that it does not have.
#[expect(clippy::disallowed_methods, reason = "the one place that opens the machine's time zones")]
pub fn zones() -> Zones {
    Zones::preferring(jiff::tz::db().clone())
}
