//! The engine against the oracle: random expressions, every zone, instants around transitions.
//!
//! A normal run visits every zone of the database and a sample of its transitions. With
//! `PUNCTUAL_EXHAUSTIVE=1` it visits every transition of every zone from 1970 to 2100 under
//! every policy; build that with `--release`.

use domain::schedule::{Cron, CronSchedule, DstPolicy, Zone, Zones};
use jiff::civil::{DateTime, date};
use jiff::{SignedDuration, Timestamp};

use crate::generate::{Random, expression, policy};
use crate::instant;
use crate::oracle::{Expr, Missed, Walk};

/// The samples that every run visits; a failure prints the seed of its own case.
const SEED: u64 = 0x5eed_0f0c_c0de_2026;

/// How much of the space one run visits.
struct Effort {
    transitions_a_zone: usize,
    expressions_a_transition: usize,
    policies_an_expression: u64,
}

const SAMPLED: Effort =
    Effort { transitions_a_zone: 2, expressions_a_transition: 1, policies_an_expression: 3 };

const EXHAUSTIVE: Effort = Effort {
    transitions_a_zone: usize::MAX,
    expressions_a_transition: 3,
    policies_an_expression: 16,
};

#[expect(
    clippy::disallowed_methods,
    reason = "a test may be asked for its long form; the crates themselves read no environment"
)]
fn effort() -> Effort {
    match std::env::var("PUNCTUAL_EXHAUSTIVE").as_deref() {
        Ok("1") => EXHAUSTIVE,
        _ => SAMPLED,
    }
}

#[test]
fn every_zone_around_its_transitions() {
    let effort = effort();
    let zones = Zones::bundled();
    let names = zones.names();
    assert!(names.len() > 400, "the database has {} zones", names.len());
    for seed in testbed::this_test!("every_zone_around_its_transitions").seeds(&[SEED], 1) {
        check_every_zone(&zones, &names, seed.value, &effort);
    }
}

fn check_every_zone(zones: &Zones, names: &[String], seed: u64, effort: &Effort) {
    // A zone's cases follow from its place in the list, whichever thread draws it.
    let places: Vec<(usize, &String)> = names.iter().enumerate().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = names.len().div_ceil(threads);
    let compared = std::thread::scope(|scope| {
        let workers: Vec<_> = places
            .chunks(share)
            .map(|places| scope.spawn(move || check_zones(zones, places, seed, effort)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a thread found a disagreement, see above"))
            .fold(Tally::default(), |sum, tally| Tally {
                fires: sum.fires + tally.fires,
                missed: sum.missed + tally.missed,
            })
    });
    // A comparison of nothing with nothing proves nothing.
    assert!(compared.fires > 10_000, "only {} fires", compared.fires);
    assert!(compared.missed > 50, "only {} skips", compared.missed);
}

fn check_zones(zones: &Zones, places: &[(usize, &String)], seed: u64, effort: &Effort) -> Tally {
    let mut tally = Tally::default();
    for (place, name) in places {
        let Ok(zone) = zones.find(name) else {
            panic!("`{name}` is listed, but not found");
        };
        let mut random = Random::new(seed ^ (*place as u64).wrapping_mul(0x1_0000_0001));
        for center in centers(&zone, &mut random, effort.transitions_a_zone) {
            check_around(&zone, center, random.next_u64(), effort, &mut tally);
        }
    }
    tally
}

/// Number of comparisons, so that a test that compared nothing fails.
#[derive(Default)]
struct Tally {
    fires: usize,
    missed: usize,
}

/// Instants to look around: transitions of the clock, or any instant where there are none.
fn centers(zone: &Zone, random: &mut Random, wanted: usize) -> Vec<Timestamp> {
    let (low, high) = (instant("1970-01-01T00:00:00Z"), instant("2100-12-31T00:00:00Z"));
    let tz = zone.time_zone();
    let mut all: Vec<Timestamp> = tz
        .following(low)
        .map(|transition| transition.timestamp())
        .take_while(|at| *at < high)
        .filter(|at| tz.to_offset(*at - SignedDuration::from_nanos(1)) != tz.to_offset(*at))
        .collect();
    if all.is_empty() {
        all.push(random.instant(low, high));
    }
    while all.len() > wanted {
        let index = random.between(0, all.len() as i64 - 1) as usize;
        all.swap_remove(index);
    }
    all
}

/// One transition: a walk of three days around it, and expressions that lean towards it.
fn check_around(zone: &Zone, center: Timestamp, seed: u64, effort: &Effort, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let half = SignedDuration::from_mins(random.between(26 * 60, 40 * 60));
    let walk = Walk::new(zone.time_zone(), center - half, center + half);
    let near: DateTime = zone.time_zone().to_datetime(center);
    for _ in 0..effort.expressions_a_transition {
        let text = expression(&mut random, near);
        let expr = Expr::read(&text);
        let fires_ever = expr.first_date(date(2000, 1, 1)).is_some();
        let cron = match text.parse::<Cron>() {
            Ok(cron) if fires_ever => cron,
            Err(_) if !fires_ever => continue,
            Ok(_) => panic!("seed {seed:#x}: `{text}` never fires, but was accepted"),
            Err(error) => panic!("seed {seed:#x}: `{text}` was refused: {error:?}"),
        };
        let shift = random.next_u64();
        for number in 0..effort.policies_an_expression {
            // The default policy always, then the others from a random one on.
            let number = match number {
                0 => 0,
                _ => 1 + (shift % 15 + number) % 15,
            };
            let dst = policy(number);
            let case = Case {
                about: format!("seed {seed:#x}: `{text}` in {}, policy {number}", zone.name()),
                engine: CronSchedule::new(cron.clone(), zone.clone(), policy(number)),
                fires: walk.fires(&expr, &dst),
                walk: &walk,
                expr: &expr,
                dst,
            };
            case.check(&mut random, center);
            tally.fires += case.fires.len();
            tally.missed += walk.missed(&expr, &case.dst, walk.from, walk.until).len();
        }
    }
}

/// One schedule in one stretch of time, with the observations of the oracle.
struct Case<'a> {
    about: String,
    engine: CronSchedule,
    fires: Vec<Timestamp>,
    walk: &'a Walk,
    expr: &'a Expr,
    dst: DstPolicy,
}

impl Case<'_> {
    fn check(&self, random: &mut Random, center: Timestamp) {
        let points = self.points(random, center);
        for point in &points {
            self.check_next(*point);
            self.check_prev(*point);
        }
        self.check_chains();
        for pair in points.chunks_exact(2) {
            let (after, until) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            self.check_count(after, until);
            self.check_skipped(after, until);
        }
        self.check_count(self.walk.from, self.walk.until);
        let tick = SignedDuration::from_nanos(1);
        for (after, until) in [
            (self.walk.from, self.walk.until),
            (center - tick, center),
            (center, self.walk.until),
            (self.walk.from, center - tick),
        ] {
            self.check_skipped(after, until);
        }
    }

    /// Instants inside the walk worth asking about.
    fn points(&self, random: &mut Random, center: Timestamp) -> Vec<Timestamp> {
        let tick = SignedDuration::from_nanos(1);
        let mut points = vec![center, center - tick, center + tick];
        for minutes in [1, 30, 60, 180] {
            points.push(center - SignedDuration::from_mins(minutes));
            points.push(center + SignedDuration::from_mins(minutes));
        }
        for _ in 0..6 {
            points.push(random.instant(self.walk.from, self.walk.until));
        }
        for _ in 0..3 {
            if !self.fires.is_empty() {
                let fire = *random.pick(&self.fires);
                points.extend([fire, fire - tick, fire + tick]);
            }
        }
        points.retain(|point| (self.walk.from..=self.walk.until).contains(point));
        points
    }

    fn check_next(&self, after: Timestamp) {
        let got = self.engine.next(after);
        let wanted = self.fires.iter().find(|fire| **fire > after).copied();
        let agree = match wanted {
            Some(_) => got == wanted,
            // The walk ends before the next occurrence: the engine's must lie beyond it.
            None => got.is_none_or(|got| got > self.walk.until),
        };
        assert!(agree, "{}: next after {after} is {got:?}, the oracle says {wanted:?}", self.about);
    }

    fn check_prev(&self, before: Timestamp) {
        let got = self.engine.prev(before);
        let wanted = self.fires.iter().rfind(|fire| **fire < before).copied();
        let agree = match wanted {
            Some(_) => got == wanted,
            None => got.is_none_or(|got| got < self.walk.from),
        };
        assert!(
            agree,
            "{}: prev before {before} is {got:?}, the oracle says {wanted:?}",
            self.about
        );
    }

    /// Following `next` gives the oracle's list, and following `prev` gives it backwards. Long
    /// lists are followed through their middle, where the transition is.
    fn check_chains(&self) {
        const LONGEST: usize = 100;
        let skip = self.fires.len().saturating_sub(LONGEST) / 2;
        let wanted: Vec<Timestamp> = self.fires.iter().skip(skip).take(LONGEST).copied().collect();
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
            return;
        };
        let forward: Vec<Timestamp> =
            std::iter::successors(Some(*first), |at| self.engine.next(*at))
                .take(wanted.len())
                .collect();
        assert_eq!(forward, wanted, "{}: following next", self.about);
        let mut backward: Vec<Timestamp> =
            std::iter::successors(Some(*last), |at| self.engine.prev(*at))
                .take(wanted.len())
                .collect();
        backward.reverse();
        assert_eq!(backward, wanted, "{}: following prev", self.about);
    }

    fn check_count(&self, after: Timestamp, until: Timestamp) {
        let wanted =
            self.fires.iter().filter(|fire| **fire > after && **fire <= until).count() as u64;
        let got = self.engine.count(after, until);
        assert_eq!(got, wanted, "{}: count in ({after}, {until}]", self.about);
    }

    fn check_skipped(&self, after: Timestamp, until: Timestamp) {
        let wanted = self.walk.missed(self.expr, &self.dst, after, until);
        let got = missed(&self.engine, after, until);
        assert_eq!(got, wanted, "{}: skipped in ({after}, {until}]", self.about);
    }
}

/// The engine's report of skipped local times, in the oracle's words.
pub fn missed(engine: &CronSchedule, after: Timestamp, until: Timestamp) -> Vec<Missed> {
    engine
        .skipped(after, until)
        .into_iter()
        .map(|range| Missed {
            transition: range.transition,
            first: range.first,
            last: range.last,
            count: range.count,
        })
        .collect()
}

/// The ends of the calendar are an answer, not a panic.
#[test]
fn the_ends_of_time_are_quiet() {
    for name in ["UTC", "America/New_York", "Pacific/Apia", "Africa/Monrovia"] {
        let zone = crate::zone(name);
        for expr in ["* * * * *", "0 0 29 2 */7", "30 2 * 3 SUN#2", "59 23 31 12 *"] {
            for number in 0..16 {
                let engine = crate::schedule(expr, &zone, policy(number));
                assert_eq!(engine.next(Timestamp::MAX), None, "`{expr}` in {name}");
                assert_eq!(engine.prev(Timestamp::MIN), None, "`{expr}` in {name}");
                let first = engine.next(Timestamp::MIN);
                assert!(first.is_none_or(|at| at > Timestamp::MIN), "`{expr}` in {name}");
                let last = engine.prev(Timestamp::MAX);
                assert!(last.is_none_or(|at| at < Timestamp::MAX), "`{expr}` in {name}");
                let day = SignedDuration::from_hours(30);
                let late = Timestamp::MAX - day;
                if let Some(at) = engine.next(late) {
                    assert!(at > late, "`{expr}` in {name}");
                }
                assert!(engine.count(late, Timestamp::MAX) <= 30 * 60);
                assert!(engine.skipped(late, Timestamp::MAX).is_empty());
            }
        }
    }
}
