//! Promises about time, on a machine that may have other things to do.
//!
//! A test that says "within 15 s" is about an idle machine. On a loaded one the kernel tells for
//! how much of the time tasks waited for a processor or a disk (`/proc/pressure`), and the promise
//! is stretched by that share, up to [`STRETCH_MAX`] times. Where the kernel does not tell, the
//! promise stays as it is.

use std::time::{Duration, Instant};

/// How much longer something may take while tasks wait for a processor all the time.
pub const STRETCH_MAX: u32 = 4;

/// Time since a moment, and how busy the machine was in it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: Instant,
    /// The kernel's count of stalls at the start.
    stalled: Duration,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Stopwatch { start: Instant::now(), stalled: stalled() }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Fails if more time has passed than was promised for an idle machine and this machine's load
    /// excuses.
    ///
    /// # Panics
    ///
    /// If it took too long.
    #[track_caller]
    pub fn assert_within(&self, promised: Duration) {
        let elapsed = self.elapsed();
        let waited = stalled().saturating_sub(self.stalled);
        let allowed = stretch(promised, elapsed, waited);
        assert!(
            elapsed <= allowed,
            "it took {elapsed:?}: {promised:?} were promised, {allowed:?} allowed because tasks \
             waited for a processor or a disk for {waited:?}"
        );
    }
}

/// Extends a promise by the share of the elapsed time that tasks waited for a processor.
fn stretch(promised: Duration, elapsed: Duration, waited: Duration) -> Duration {
    if elapsed.is_zero() {
        return promised;
    }
    let share = (waited.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0);
    promised.mul_f64(1.0 + share * f64::from(STRETCH_MAX - 1))
}

/// How long some task has waited for a processor or a disk since the machine started, whichever
/// is more.
fn stalled() -> Duration {
    let of = |resource: &str| {
        let text = std::fs::read_to_string(format!("/proc/pressure/{resource}"));
        total(&text.unwrap_or_default()).unwrap_or_default()
    };
    of("cpu").max(of("io"))
}

/// The total of the line `some` of a pressure file, which counts microseconds.
fn total(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_is_stretched_by_the_share_of_waiting() {
        for (promised, elapsed, waited, allowed) in [
            (10_000, 8_000, 0, 10_000),
            (10_000, 20_000, 10_000, 25_000),
            (10_000, 20_000, 20_000, 40_000),
            // Two counters that were not read at the same moment.
            (10_000, 20_000, 20_001, 40_000),
            (10_000, 0, 0, 10_000),
        ] {
            let ms = Duration::from_millis;
            let stretched = stretch(ms(promised), ms(elapsed), ms(waited));
            assert_eq!(stretched, ms(allowed), "{promised} {elapsed} {waited}");
        }
    }

    #[test]
    fn total_is_read_from_the_kernels_file() {
        let text = "some avg10=4.08 avg60=5.97 avg300=5.31 total=33397732\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_micros(33_397_732)));
        assert_eq!(total(""), None);
        assert_eq!(total("some avg10=4.08 total=x"), None);
    }
}
