//! Two hundred worlds, and some that no run has seen before. Any other number of them:
//! `cargo run -p punctual-sim -- --seeds 0..10000`.

extern crate punctual_sim as sim;

use sim::{Options, QueueStats, Sabotage, SimStats, simulate, simulate_queue};

/// Runs worlds and counts their events. The first one that is not sound is reported with its trace
/// and the command that replays it.
fn sound(seeds: std::ops::Range<u64>) -> SimStats {
    let mut total = SimStats::default();
    for seed in seeds {
        let report = simulate(seed, &Options::default());
        assert!(report.violation.is_none(), "\n{report}");
        total.add(&report.stats);
    }
    total
}

/// Worlds in which something hardly ever happened prove nothing about it.
fn eventful(stats: SimStats) {
    for (name, count) in stats.named() {
        assert!(count >= 10, "{name} happened {count} times: {stats:?}");
    }
}

#[test]
fn the_first_worlds_are_sound() {
    eventful(sound(0..150));
}

#[test]
fn the_next_worlds_are_sound() {
    eventful(sound(150..300));
}

/// A failure prints two commands: the one that runs these worlds again, and the one that lives
/// through the world that failed.
#[test]
fn worlds_of_fresh_seeds_are_sound() {
    for seed in
        // In a world of the second, a run waits for its upstream job for more than 24 hours.
        testbed::this_test!("worlds_of_fresh_seeds_are_sound")
            .seeds(&[46_659_419_694_005, 42_611_263_171_120], 1)
    {
        sound(seed.value..seed.value + 20);
    }
}

#[test]
fn a_seed_is_one_world() {
    for seed in [1, 7, 96] {
        let (once, again) =
            (simulate(seed, &Options::default()), simulate(seed, &Options::default()));
        assert_eq!(once.trace, again.trace);
        assert_eq!(once.hash, again.hash);
        assert_ne!(once.hash, simulate(seed + 1, &Options::default()).hash);
    }
}

/// A wrong store is found out, and by the invariant that is there for it.
#[test]
fn every_sabotage_is_found_out() {
    for (sabotage, invariant) in Sabotage::HARMFUL {
        let options = Options { sabotage: Some(*sabotage), ..Options::default() };
        // In some worlds another invariant is the first to notice.
        let mut found = (0..100).filter_map(|seed| simulate(seed, &options).violation);
        let mut others = std::collections::BTreeMap::<_, u32>::new();
        let is_found = found.any(|found| {
            *others.entry(found.invariant).or_default() += 1;
            found.invariant == *invariant
        });
        assert!(is_found, "{sabotage:?} is not found by {invariant:?}, but by {others:?}");
    }
}

/// Other nodes plan the buckets of an owner that does nothing before a job in them is late.
#[test]
fn a_scheduler_that_does_not_exist_loses_nothing() {
    let options = Options { sabotage: Some(Sabotage::GhostScheduler), ..Options::default() };
    let mut helped = 0;
    for seed in 0..20 {
        let report = simulate(seed, &options);
        assert!(report.violation.is_none(), "\n{report}");
        helped += report.stats.helped;
    }
    assert!(helped >= 10, "{helped}");
}

/// Lives through worlds of queues, and counts what happened in them.
fn sound_queues(seeds: std::ops::Range<u64>) -> QueueStats {
    let mut total = QueueStats::default();
    for seed in seeds {
        match simulate_queue(seed, 300) {
            Ok(stats) => {
                total.sent += stats.sent;
                total.leased += stats.leased;
                total.acknowledged += stats.acknowledged;
                total.stale += stats.stale;
                total.reaped += stats.reaped;
                total.lost_replies += stats.lost_replies;
            }
            Err(violation) => panic!("queue world of seed {seed}: {violation}"),
        }
    }
    total
}

#[test]
fn no_message_is_lost_doubled_or_starved() {
    let QueueStats { sent, leased, acknowledged, stale, reaped, lost_replies } =
        sound_queues(0..60);
    for (name, count) in [
        ("sent", sent),
        ("leased", leased),
        ("acknowledged", acknowledged),
        ("stale", stale),
        ("reaped", reaped),
        ("lost replies", lost_replies),
    ] {
        assert!(count >= 100, "{name} happened {count} times");
    }
}

#[test]
fn queues_of_fresh_seeds_are_sound() {
    for seed in testbed::this_test!("queues_of_fresh_seeds_are_sound").seeds(&[], 1) {
        sound_queues(seed.value..seed.value + 10);
    }
}
