//! The parameters of the world that a seed makes: how large, how busy, how hostile.

use engine::Settings;
use jiff::{SignedDuration, Timestamp};

use crate::link::Rates;
use crate::random::Random;

/// When worlds begin, at the earliest: a plain day, and the days on which New York's clocks jump and
/// fall back.
pub const DAYS: &[&str] = &["2026-01-15T10:00:00Z", "2026-03-08T06:20:00Z", "2026-11-01T05:20:00Z"];

/// The shape of a world.
#[derive(Clone, Debug)]
pub struct Profile {
    /// When it begins.
    pub start: Timestamp,
    /// How many machines it has.
    pub machines: usize,
    /// How many tenants.
    pub tenants: u64,
    /// How many shards each of them has.
    pub shards: u64,
    /// How many jobs are created at most.
    pub jobs_max: usize,
    /// Number of commands of users, in a hundred steps.
    pub commands: u64,
    /// Whether users only trigger jobs, many at a time, and there are no faults: this tests the
    /// order of runs.
    pub flood: bool,
    /// The settings of every node.
    pub settings: Settings,
    /// How the way to the store is disturbed.
    pub rates: Rates,
    /// How likely each fault is, in ten thousand steps.
    pub faults: Faults,
}

/// How likely each fault is, in ten thousand steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A machine dies and comes back later.
    pub kill: u64,
    /// A machine stands still for longer than a lease, and goes on.
    pub pause: u64,
    /// A machine's clock is set.
    pub skew: u64,
    /// The clock of the store's machine is set.
    pub step_store: u64,
    /// All machines are off for minutes to days.
    pub outage: u64,
    /// A node leaves in good order and comes back as another.
    pub leave: u64,
    /// An administrator drains a node, or resumes it.
    pub drain: u64,
}

impl Profile {
    /// The world of a seed's stream.
    pub fn draw(random: &mut Random) -> Self {
        let start: Timestamp = random.pick(DAYS).parse().unwrap_or(Timestamp::UNIX_EPOCH);
        let jitter = SignedDuration::from_millis(random.between(0, 1_800_000));
        let sometimes = |random: &mut Random, often: u64, high: i64| {
            if random.percent(often) { random.between(1, high) as u64 } else { 0 }
        };
        let flood = random.percent(8);
        let calm = flood || random.percent(15);
        let often = |share: u64| if calm { 0 } else { share };
        Profile {
            start: start + jitter,
            machines: if flood { 1 } else { random.pick(&[1, 2, 3, 3, 4]) },
            tenants: if flood { 2 } else { random.between(1, 3) as u64 },
            shards: if flood { 0 } else { sometimes(random, 50, 4) },
            jobs_max: if flood { 4 } else { random.between(2, 8) as usize },
            commands: random.between(2, 12) as u64 + if flood { 20 } else { 0 },
            flood,
            settings: settings(random),
            rates: Rates {
                park: sometimes(random, 60, 400),
                fail: sometimes(random, often(35), 60),
                lose: sometimes(random, often(35), 60),
            },
            faults: Faults {
                kill: sometimes(random, often(50), 150),
                pause: sometimes(random, often(65), 400),
                skew: sometimes(random, often(30), 100),
                step_store: sometimes(random, often(15), 80),
                outage: sometimes(random, often(40), 80),
                leave: sometimes(random, often(40), 120),
                drain: sometimes(random, often(50), 300),
            },
        }
    }
}

fn settings(random: &mut Random) -> Settings {
    Settings {
        max_concurrent_jobs: random.pick(&[1, 2, 3, 4, 8]),
        max_http_calls: random.pick(&[1, 2, 5]),
        tenant_max_concurrent: random.pick(&[None, None, None, Some(2), Some(5)]),
        look_ahead: SignedDuration::from_secs(random.pick(&[5, 20, 60, 120])),
        planning_buckets_above: random.pick(&[0, 0, 2, 100_000]),
        prepare_ahead: SignedDuration::from_secs(random.pick(&[1, 3, 5])),
        prepare_max: random.pick(&[2, 10, 50, 1_000]),
        batch_max: random.pick(&[1, 2, 5, 100]),
        retention_days: random.pick(&[30, 30, 1]),
        failed_retention_days: 90,
        ..Settings::default()
    }
}
