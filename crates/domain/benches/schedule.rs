//! The time of `next` and of parsing, compared with croner in the same process.
//!
//! `cargo xtask bench schedule` prints one JSON line per metric. Both implementations take turns,
//! round by round, on the same instants, so that a busy machine slows both; a metric is the median
//! of its rounds.

extern crate punctual_domain as domain;

use std::hint::black_box;
use std::time::Instant;

use croner::Cron as Croner;
use croner::parser::{CronParser, Seconds, Year};
use domain::schedule::{Cron, CronSchedule, DstPolicy, Zone, Zones};
use jiff::{SignedDuration, Timestamp, Zoned};

/// The expressions of the comparison, from every minute to every four years.
const COMPARED: [&str; 6] =
    ["* * * * *", "*/15 * * * *", "0 2 * * *", "30 9 * * MON-FRI", "0 0 1 * *", "0 0 29 2 *"];

/// Expressions that make a search go far or look closely.
const AWKWARD: [&str; 14] = [
    "0 0 29 2 */7",
    "* * 29 2 *",
    "0 0 LW 2 *",
    "0 12 ? * MON#5",
    "59 23 31 12 *",
    "0 0 * 2 MON#5",
    "0 0 29W 2 *",
    "0 0 31W * *",
    "0 0 L 2 5L",
    "0 0 */31 1 TUE#1",
    "0 0 31 */2 */5",
    "30 2 8-14 3 */7",
    "*/7 2 * * SUN",
    "30 2 * 3 SUN#2",
];

/// Typical expressions.
const TYPICAL: [&str; 6] = [
    "*/15 * * * *",
    "0 2 * * *",
    "30 9 * * MON-FRI",
    "0 0 1,15 * *",
    "5,10-20/3,30 1/4 1W,L JAN-MAR,dec SUN#1,5L",
    "@daily",
];

/// Expressions that never fire, which the parser refuses.
const NEVER: [&str; 8] = [
    "0 0 30 2 *",
    "0 0 31 2 *",
    "0 0 31 4,6,9,11 *",
    "0 0 30W 2 *",
    "0 0 */31 * MON#2",
    "0 0 */31 * 1L",
    "0 0 */30 2 MON#5",
    "0 0 30 2 */2",
];

const AWKWARD_ZONES: [&str; 5] =
    ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"];

const ZONE: &str = "America/New_York";
const ROUNDS: usize = 31;
const INSTANTS: usize = 1_000;
const CRONER: &str = "croner";
const PUNCTUAL: &str = "punctual";

fn main() {
    let zone = zone(ZONE);
    for expr in COMPARED {
        compare(expr, &zone, "chained", &chained(expr, &zone));
        compare(expr, &zone, "scattered", &scattered(0x5eed));
    }
    awkward();
    parse();
}

/// One expression, both peers, the same instants.
fn compare(expr: &str, zone: &Zone, instants: &str, afters: &[Timestamp]) {
    let engine = schedule(expr, zone);
    let croner = croner_of(expr);
    // croner works on zoned times: it gets them ready-made.
    let zoned: Vec<Zoned> =
        afters.iter().map(|at| Zoned::new(*at, zone.time_zone().clone())).collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let our_ns = nanoseconds_each(afters, |after| engine.next(*after));
        let their_ns = nanoseconds_each(&zoned, |after| croner.find_next_occurrence(after, false));
        // The first round warms up.
        if round > 0 {
            ours.push(our_ns);
            theirs.push(their_ns);
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let settings =
        format!(r#"{{"expr":{expr:?},"zone":{:?},"instants":{instants:?}}}"#, zone.name());
    measurement(PUNCTUAL, "schedule.next_ns", ours, "ns", &settings);
    measurement(CRONER, "schedule.next_ns", theirs, "ns", &settings);
    measurement(PUNCTUAL, "schedule.next_ratio", theirs / ours, "x", &settings);
}

/// The slowest answer of each awkward expression, over zones and instants.
fn awkward() {
    let mut slowest = 0.0_f64;
    for expr in COMPARED.into_iter().chain(AWKWARD) {
        let (mut worst, mut settings) = (0.0, String::new());
        for name in AWKWARD_ZONES {
            let zone = zone(name);
            let engine = schedule(expr, &zone);
            let mut afters = scattered(0xa3f)[..200].to_vec();
            afters.extend(around_transitions(&zone));
            for (after, ns) in nanoseconds_of_each(&afters, |after| engine.next(*after)) {
                if ns > worst {
                    worst = ns;
                    settings = format!(r#"{{"expr":{expr:?},"zone":{name:?},"after":"{after}"}}"#);
                }
            }
        }
        measurement(PUNCTUAL, "schedule.next_worst_ns", worst, "ns", &settings);
        slowest = slowest.max(worst);
    }
    let settings = format!(r#"{{"expressions":{}}}"#, COMPARED.len() + AWKWARD.len());
    measurement(PUNCTUAL, "schedule.next_slowest_ns", slowest, "ns", &settings);
}

/// Parsing, and refusing.
fn parse() {
    for expr in TYPICAL.into_iter().chain(NEVER) {
        let texts = vec![expr; 200];
        let rounds = (0..ROUNDS).map(|_| nanoseconds_each(&texts, |text| text.parse::<Cron>()));
        let settings = format!(r#"{{"expr":{expr:?}}}"#);
        let ns = median(rounds.collect());
        measurement(PUNCTUAL, "schedule.parse_ns", ns, "ns", &settings);
    }

    let texts = mangled(20_000);
    let times = nanoseconds_of_each(&texts, |text| text.parse::<Cron>());
    let worst = times.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
    if let Some((text, ns)) = worst {
        let settings = format!(r#"{{"inputs":{},"expr":"{text}"}}"#, texts.len());
        measurement(PUNCTUAL, "schedule.parse_slowest_ns", ns, "ns", &settings);
    }
}

/// Occurrences that follow each other; after a century it begins again.
fn chained(expr: &str, zone: &Zone) -> Vec<Timestamp> {
    let engine = schedule(expr, zone);
    let (start, end) = (instant("2026-01-01T00:00:00Z"), instant("2126-01-01T00:00:00Z"));
    let mut at = start;
    (0..INSTANTS)
        .map(|_| {
            at = engine.next(at).filter(|at| *at < end).unwrap_or(start);
            at
        })
        .collect()
}

/// Instants of forty years, in no order.
fn scattered(seed: u64) -> Vec<Timestamp> {
    let low = instant("2010-01-01T00:00:00Z").as_second();
    let high = instant("2050-01-01T00:00:00Z").as_second();
    let mut random = seed;
    (0..INSTANTS)
        .map(|_| {
            random = scramble(random);
            let second = low + (random % (high - low) as u64) as i64;
            Timestamp::from_second(second).expect("in range")
        })
        .collect()
}

/// Instants just before and after the clocks change.
fn around_transitions(zone: &Zone) -> Vec<Timestamp> {
    zone.time_zone()
        .following(instant("2010-01-01T00:00:00Z"))
        .take(40)
        .flat_map(|transition| {
            let at = transition.timestamp();
            [-3600, -1, 0, 1800].map(|seconds| at + SignedDuration::from_secs(seconds))
        })
        .collect()
}

/// Typical expressions with a few characters exchanged for others of the grammar.
fn mangled(count: usize) -> Vec<String> {
    let letters = "0123456789*/-,#?LWMONSUJAFEB @\u{a0}";
    let letters: Vec<char> = letters.chars().collect();
    let mut random = 0x3a_u64;
    let mut draw = |below: usize| {
        random = scramble(random);
        (random % below as u64) as usize
    };
    (0..count)
        .map(|_| {
            let texts = [TYPICAL.as_slice(), &NEVER, &AWKWARD].concat();
            let mut text: Vec<char> = texts[draw(texts.len())].chars().collect();
            for _ in 0..draw(5) {
                let place = draw(text.len());
                text[place] = letters[draw(letters.len())];
            }
            text.into_iter().collect()
        })
        .collect()
}

/// SplitMix64, one step.
fn scramble(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn zone(name: &str) -> Zone {
    Zones::bundled().find(name).expect("a zone of the database")
}

fn schedule(expr: &str, zone: &Zone) -> CronSchedule {
    let cron = expr.parse().expect("a valid expression");
    CronSchedule::new(cron, zone.clone(), DstPolicy::default())
}

fn croner_of(expr: &str) -> Croner {
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
        .parse(expr)
        .expect("a valid expression")
}

fn instant(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// The mean over all inputs, of one pass.
fn nanoseconds_each<I, O>(inputs: &[I], work: impl Fn(&I) -> O) -> f64 {
    let pass = nanoseconds(|| {
        for input in inputs {
            black_box(work(black_box(input)));
        }
    });
    pass / inputs.len() as f64
}

/// The time of every input on its own: the median of some passes, each through all inputs, so
/// that neither a cache nor an interruption decides.
fn nanoseconds_of_each<I, O>(inputs: &[I], work: impl Fn(&I) -> O) -> Vec<(&I, f64)> {
    let mut times = vec![Vec::new(); inputs.len()];
    for _ in 0..9 {
        for (input, times) in inputs.iter().zip(&mut times) {
            times.push(nanoseconds(|| {
                black_box(work(black_box(input)));
            }));
        }
    }
    inputs.iter().zip(times.into_iter().map(median)).collect()
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what a benchmark is for")]
fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measurement(peer: &str, metric: &str, value: f64, unit: &str, settings: &str) {
    let version = version(peer);
    println!(
        r#"{{"peer":"{peer}","version":"{version}","metric":"{metric}","value":{value:.1},"unit":"{unit}","settings":{settings}}}"#
    );
}

/// Our own version, or the one that the lock file names.
fn version(peer: &str) -> &'static str {
    if peer == PUNCTUAL {
        return env!("CARGO_PKG_VERSION");
    }
    let lock = include_str!("../../../Cargo.lock");
    let name = format!("name = \"{peer}\"\nversion = \"");
    let (_, rest) = lock.split_once(&name).expect("the lock file names the peer");
    rest.split('"').next().expect("split gives one part")
}
