//! The proof of the schedule engine: everything here is written from the specification, and
//! nothing here shares code with the engine.
//!
//! [`oracle`] reads an expression naively and walks every minute; the other modules compare the
//! engine with it (properties, calendar), with itself (totals), with another implementation
//! (croner), with answers worked out by hand (golden, parser) and with noise (fuzz).

extern crate punctual_domain as domain;

mod calendar;
mod croner;
mod fuzz;
mod generate;
mod golden;
mod oracle;
mod parser;
mod properties;
mod totals;

use domain::schedule::{CronSchedule, DstPolicy, Zone, Zones};
use jiff::Timestamp;

/// An instant from its RFC 3339 text.
fn instant(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("`{text}` is no instant: {error}"))
}

/// A zone of the bundled database.
fn zone(name: &str) -> Zone {
    match Zones::bundled().find(name) {
        Ok(zone) => zone,
        Err(error) => panic!("zone `{name}`: {error}"),
    }
}

/// The engine's schedule for an expression that must parse.
fn schedule(expr: &str, zone: &Zone, dst: DstPolicy) -> CronSchedule {
    match expr.parse() {
        Ok(cron) => CronSchedule::new(cron, zone.clone(), dst),
        Err(error) => panic!("`{expr}` was refused: {error:?}"),
    }
}
