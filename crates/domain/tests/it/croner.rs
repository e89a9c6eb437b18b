//! The engine against croner, where both have the same rules.
//!
//! They differ, and are not compared, where croner
//! - reads a stepped star in one day field as restricted when the other is restricted too;
//! - lets a step on a single weekday run up to 7, and so to Sunday;
//! - forgets `7L`, and `L` beside `LW`;
//! - knows no star inside a list;
//! - runs a time of a spring gap at the gap's end, and a wildcard job of several hours through
//!   both passes of an autumn hour: so instants are compared in UTC, and in other zones while
//!   the clocks keep their offset;
//! - has no error for expressions that never fire: the oracle knows those.

use ::croner::Cron as Croner;
use ::croner::parser::{CronParser, Seconds, Year};
use domain::schedule::{Cron, CronSchedule, DstPolicy, Zone, Zones};
use jiff::civil::date;
use jiff::{Timestamp, Zoned};

use crate::generate::{Random, expression};
use crate::oracle::Expr;
use crate::{instant, zone};

const SEED: u64 = 0x5eed_c409_e402_0000;

#[test]
fn agrees_in_utc() {
    let utc = zone("UTC");
    for seed in testbed::this_test!("agrees_in_utc").seeds(&[SEED], 1) {
        let compared = compare(seed.value, 1_000, |_| utc.clone());
        assert!(compared > 5_000, "only {compared} instants compared");
    }
}

#[test]
fn agrees_while_clocks_keep_their_offset() {
    let zones = Zones::bundled();
    let names = zones.names();
    let test = testbed::this_test!("agrees_while_clocks_keep_their_offset");
    for seed in test.seeds(&[SEED + 1], 1) {
        let compared = compare(seed.value, 1_000, |random| {
            let name = random.pick(&names);
            match zones.find(name) {
                Ok(zone) => zone,
                Err(error) => panic!("`{name}` is listed, but not found: {error}"),
            }
        });
        assert!(compared > 2_000, "only {compared} instants compared");
    }
}

/// Follows both implementations from random instants; returns how many answers were compared.
fn compare(seed: u64, rounds: usize, mut zone_of: impl FnMut(&mut Random) -> Zone) -> usize {
    let mut random = Random::new(seed);
    let mut compared = 0;
    for round in 0..rounds {
        let zone = zone_of(&mut random);
        let low = instant("1990-01-01T00:00:00Z");
        let start = random.instant(low, instant("2040-01-01T00:00:00Z"));
        // croner counts in seconds.
        let start = Timestamp::from_second(start.as_second()).expect("in range");
        let text = expression(&mut random, zone.time_zone().to_datetime(start));
        if !same_rules(&text) || Expr::read(&text).first_date(date(2000, 1, 1)).is_none() {
            continue;
        }
        let about = format!("seed {seed:#x}, round {round}: `{text}` in {}", zone.name());
        let cron: Cron = text.parse().unwrap_or_else(|error| panic!("{about}: {error:?}"));
        let pair = Pair {
            croner: croner(&text).unwrap_or_else(|error| panic!("{about}: {error}")),
            engine: CronSchedule::new(cron, zone.clone(), DstPolicy::default()),
            zone,
            about,
        };
        compared += pair.follow(start, Direction::Next) + pair.follow(start, Direction::Prev);
    }
    compared
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Next,
    Prev,
}

/// The same schedule in both implementations.
struct Pair {
    croner: Croner,
    engine: CronSchedule,
    zone: Zone,
    about: String,
}

impl Pair {
    fn follow(&self, start: Timestamp, direction: Direction) -> usize {
        let mut from = start;
        for step in 0..8 {
            let zoned = Zoned::new(from, self.zone.time_zone().clone());
            let (got, theirs) = match direction {
                Direction::Next => {
                    (self.engine.next(from), self.croner.find_next_occurrence(&zoned, false))
                }
                Direction::Prev => {
                    (self.engine.prev(from), self.croner.find_previous_occurrence(&zoned, false))
                }
            };
            let Ok(theirs) = theirs.map(|zoned| zoned.timestamp()) else {
                return step;
            };
            if !self.keeps_offset(from, theirs) {
                return step;
            }
            assert_eq!(got, Some(theirs), "{}: {direction:?} from {from}", self.about);
            from = theirs;
        }
        8
    }

    /// Whether no transition lies between the two instants, or within a day of them.
    fn keeps_offset(&self, one: Timestamp, other: Timestamp) -> bool {
        let day = jiff::SignedDuration::from_hours(24);
        let (low, high) = (one.min(other) - day, one.max(other) + day);
        let next = self.zone.time_zone().following(low).next();
        next.is_none_or(|transition| transition.timestamp() > high)
    }
}

fn croner(text: &str) -> Result<Croner, ::croner::errors::CronError> {
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .sloppy_ranges(true)
        .build()
        .parse(text)
}

/// Whether both implementations read the text alike.
fn same_rules(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let (day, weekday) = (fields[2], fields[4]);
    let plain_star = |field: &str| field == "*" || field == "?";
    let stepped_star = |field: &str| field.starts_with('*') && field != "*";
    let star_in_list = fields
        .iter()
        .any(|field| field.contains(',') && field.split(',').any(|element| element == "*"));
    let value_step = |field: &str| {
        field.split(',').any(|element| element.contains('/') && !element.contains(['-', '*']))
    };
    let last_both = day.split(',').any(|element| element == "L")
        && day.split(',').any(|element| element == "LW");
    let dialect =
        (stepped_star(day) && !plain_star(weekday)) || (stepped_star(weekday) && !plain_star(day));
    !(dialect || star_in_list || value_step(weekday) || weekday.contains("7L") || last_both)
}
