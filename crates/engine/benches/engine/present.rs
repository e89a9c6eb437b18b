//! The real time, randomness and zones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::schedule::Zones;
use engine::Env;
use jiff::{SignedDuration, Timestamp};

/// The present.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Environment of a node in a real process.
pub fn parts() -> Env {
    Env {
        clock: Arc::new(now),
        steady: Arc::new(now),
        random: Arc::new(random),
        zones: Zones::bundled(),
        tracer: None,
        start_log: None,
    }
}

/// 128 bits that do not repeat in this process and hardly in another.
pub fn random() -> u128 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let seed = now().as_nanosecond() as u64 ^ u64::from(std::process::id()) << 40;
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    u128::from(scramble(seed ^ scramble(drawn))) << 64 | u128::from(scramble(drawn))
}

/// SplitMix64, one step.
fn scramble(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How many a second, since then.
pub fn rate(count: u32, since: Instant) -> f64 {
    f64::from(count) / since.elapsed().as_secs_f64()
}

/// Milliseconds from one instant to another; negative when it is the earlier one.
pub fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1_000.0
}

/// Waits until something is so, and fails when it takes longer than a few minutes.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !done() {
        tokio::time::sleep(Duration::from_millis(2)).await;
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(300), "gave up waiting: {what}");
    }
    Ok(())
}

/// A time after now.
pub fn after(duration: SignedDuration) -> Timestamp {
    now().saturating_add(duration).unwrap_or(Timestamp::MAX)
}
