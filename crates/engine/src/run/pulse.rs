//! The pulse of the loops: when each of those that scheduling needs last had an answer.
//!
//! A loop that met an error tries again and logs it, and one that waits for a reply that does not
//! come logs nothing. Both look the same here: no beat.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A loop without which this node does not do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vital {
    /// Plans jobs that are due.
    Plan,
    /// Claims runs and records results.
    Claim,
    /// Renews the lease of the node.
    Renew,
    /// Takes over the runs of nodes that are dead.
    Reap,
    /// Elects the leader, acknowledges quorums, places runs.
    Attend,
}

impl Vital {
    const ALL: [Vital; 5] = [Vital::Plan, Vital::Claim, Vital::Renew, Vital::Reap, Vital::Attend];

    fn name(self) -> &'static str {
        match self {
            Vital::Plan => "plan",
            Vital::Claim => "claim",
            Vital::Renew => "renew",
            Vital::Reap => "reap",
            Vital::Attend => "attend",
        }
    }
}

/// A loop that has had no answer for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The loop.
    pub step: &'static str,
    /// How long it has had no answer.
    pub silent: Duration,
}

/// When each loop last had an answer.
pub(super) struct Pulse {
    start: Instant,
    /// Milliseconds from the start to the last beat; none of a loop that does not run here.
    beats: [AtomicU64; Vital::ALL.len()],
}

/// A loop that does not run on this node.
const NOT_HERE: u64 = u64::MAX;

impl Default for Pulse {
    fn default() -> Self {
        let beats = std::array::from_fn(|_| AtomicU64::new(NOT_HERE));
        Pulse { start: Instant::now(), beats }
    }
}

impl Pulse {
    /// These loops run here, from now on.
    pub fn begin(&self, loops: &[Vital]) {
        loops.iter().for_each(|of| self.beat(*of));
    }

    /// A loop had an answer.
    pub fn beat(&self, of: Vital) {
        self.beat_at(of, self.start.elapsed());
    }

    /// The loop that has had no answer for longest, if that is longer than `limit`.
    pub fn stalled(&self, limit: Duration) -> Option<Stalled> {
        self.stalled_at(self.start.elapsed(), limit)
    }

    fn beat_at(&self, of: Vital, since_start: Duration) {
        self.beats[of as usize].store(since_start.as_millis() as u64, Ordering::Relaxed);
    }

    fn stalled_at(&self, since_start: Duration, limit: Duration) -> Option<Stalled> {
        let silent = Vital::ALL.into_iter().filter_map(|of| {
            let beat = self.beats[of as usize].load(Ordering::Relaxed);
            let silent = since_start.saturating_sub(Duration::from_millis(beat));
            (beat != NOT_HERE && silent > limit).then_some(Stalled { step: of.name(), silent })
        });
        silent.max_by_key(|stalled| stalled.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_loop_that_is_silent_for_longest_is_named() {
        let seconds = Duration::from_secs;
        let pulse = Pulse::default();
        let stalled = |now| pulse.stalled_at(seconds(now), seconds(15)).map(|it| it.step);
        assert_eq!(stalled(100), None, "no loop runs here");
        pulse.beat_at(Vital::Renew, seconds(0));
        pulse.beat_at(Vital::Claim, seconds(10));
        assert_eq!(stalled(15), None);
        assert_eq!(stalled(16), Some("renew"));
        assert_eq!(stalled(30), Some("renew"));
        pulse.beat_at(Vital::Renew, seconds(26));
        assert_eq!(stalled(26), Some("claim"));
        pulse.beat_at(Vital::Claim, seconds(27));
        assert_eq!(stalled(41), None);
    }
}
