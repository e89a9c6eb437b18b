//! Runs of one job that wait in line: how many are released at once.
//!
//! The end of a run releases the next one in line. If runs are much shorter than a commit, one
//! commit for each would dominate. So the end of a short run releases several: the node that claims
//! them starts each one when the one before has ended.

use jiff::SignedDuration;

/// The total duration of the runs that are released together. It is short, because another node
/// cannot start a claimed run meanwhile.
pub const LINE_SPAN: SignedDuration = SignedDuration::from_millis(10);

/// The maximum number of runs of a job that are released together.
pub const LINE_MAX: u32 = 32;

/// How many runs fit into [`LINE_SPAN`], if each takes as long as the last one; at least one.
pub fn followers(took: SignedDuration) -> u32 {
    let took_us = took.as_micros().max(1);
    let count = LINE_SPAN.as_micros() / took_us;
    u32::try_from(count).unwrap_or(LINE_MAX).clamp(1, LINE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_handed_on_together_and_long_ones_one_by_one() {
        for (took_us, expected) in [
            (-5, 32),
            (0, 32),
            (20, 32),
            (312, 32),
            (313, 31),
            (1_000, 10),
            (5_000, 2),
            (5_001, 1),
            (10_000, 1),
            (3_600_000_000, 1),
        ] {
            assert_eq!(followers(SignedDuration::from_micros(took_us)), expected, "{took_us}");
        }
    }
}
