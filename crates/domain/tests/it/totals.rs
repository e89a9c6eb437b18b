//! Long stretches: counts match enumerations, and no local time gets lost.

use domain::schedule::{DstPolicy, Zones};
use jiff::civil::date;
use jiff::{SignedDuration, Timestamp};

use crate::generate::policy;
use crate::{instant, schedule, zone};

/// Over 130 years in every zone, each local time that the expression names fires exactly once or is
/// reported as skipped: together they match the count of a calendar without zones.
#[test]
fn every_local_time_fires_or_is_reported() {
    let zones = Zones::bundled();
    let (first, last) = (date(1970, 6, 15), date(2100, 6, 15));
    let days = last.duration_since(first).as_hours() as u64 / 24;
    let tick = SignedDuration::from_nanos(1);
    let mut reported = 0;
    for name in zones.names() {
        let zone = crate::zone(&name);
        let at = |day: jiff::civil::Date| -> Timestamp {
            let midnight = zone.time_zone().to_timestamp(day.at(0, 0, 0, 0));
            midnight.expect("the tests stay in range")
        };
        let (after, until) = (at(first) - tick, at(last) - tick);
        for (expr, a_day) in [("*/20 0-6,23 * * *", 24), ("7 0-22 * * *", 23)] {
            let engine = schedule(expr, &zone, DstPolicy::default());
            let skipped = engine.skipped(after, until);
            let missing: u64 = skipped.iter().map(|range| range.count).sum();
            let total = engine.count(after, until) + missing;
            assert_eq!(total, days * a_day, "`{expr}` in {name}");
            let sorted = skipped.is_sorted_by(|one, next| one.transition < next.transition);
            assert!(sorted, "`{expr}` in {name}: {skipped:?}");
            reported += missing;
        }
    }
    assert!(reported > 10_000, "only {reported} local times were missing");
}

/// `count` does not enumerate; enumerating must give the same.
#[test]
fn counts_equal_enumeration_over_years() {
    let (after, until) = (instant("2010-12-30T12:34:56Z"), instant("2012-06-30T10:00:00Z"));
    for name in ["America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"] {
        let zone = zone(name);
        for expr in ["15 * * * *", "*/30 0-3 * * *", "0 0 L * MON#1", "45 1-2,23 */3 * *"] {
            for number in [0, 6, 11, 13] {
                let engine = schedule(expr, &zone, policy(number));
                let mut last = after;
                let mut enumerated = 0;
                while let Some(next) = engine.next(last).filter(|next| *next <= until) {
                    assert!(next > last, "`{expr}` in {name}, policy {number}: {next}");
                    last = next;
                    enumerated += 1;
                }
                let counted = engine.count(after, until);
                assert_eq!(counted, enumerated, "`{expr}` in {name}, policy {number}");
            }
        }
    }
}
