//! Two hundred worlds, and one that is lived through twice.

use sim::{Options, simulate};

/// Two threads, because each world waits for its own store half of the time.
#[test]
fn two_hundred_worlds_keep_every_promise() {
    let half = |from: u64| {
        move || {
            for seed in (from..200).step_by(2) {
                let report = simulate(seed, &Options::default());
                assert!(report.violation.is_none(), "{report}");
            }
        }
    };
    let halves = [0, 1].map(|from| std::thread::spawn(half(from)));
    for half in halves {
        if let Err(panic) = half.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_world() {
    for seed in [1, 77, 4_711] {
        let [first, second] = [(); 2].map(|()| simulate(seed, &Options::default()).hash);
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(simulate(1, &Options::default()).hash, simulate(2, &Options::default()).hash);
}
