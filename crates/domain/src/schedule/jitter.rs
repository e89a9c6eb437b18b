//! A deterministic delay that spreads jobs of the same instant.

use jiff::{SignedDuration, Timestamp};

/// How much later than its nominal time a run of this job starts: at least nothing, less than
/// `bound`, in whole milliseconds. The same job and time give the same answer everywhere and in
/// every release, so that a run that is planned again keeps its time.
///
/// ```
/// use punctual_domain::schedule::jitter;
/// use jiff::{SignedDuration, Timestamp};
///
/// let bound = SignedDuration::from_secs(60);
/// let once = jitter([7; 16], Timestamp::UNIX_EPOCH, bound);
/// assert_eq!(once, jitter([7; 16], Timestamp::UNIX_EPOCH, bound));
/// assert!(once < bound);
/// ```
pub fn jitter(job_id: [u8; 16], nominal: Timestamp, bound: SignedDuration) -> SignedDuration {
    let Ok(bound_ms) = u64::try_from(bound.as_millis()) else {
        return SignedDuration::ZERO;
    };
    let (high, low) = job_id.split_at(8);
    let word = |bytes: &[u8]| bytes.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let hash = mix(mix(mix(word(high)) ^ word(low)) ^ nominal.as_millisecond() as u64);
    // The high half of hash × bound is evenly spread over 0..bound.
    let ms = (u128::from(hash) * u128::from(bound_ms)) >> 64;
    SignedDuration::from_millis(ms as i64)
}

/// One round of SplitMix64: every input bit reaches every output bit.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_evenly_below_the_bound() {
        let bound = SignedDuration::from_secs(10);
        let mut buckets = [0_u32; 10];
        for job in 0..10_000_u128 {
            let offset = jitter(job.to_be_bytes(), Timestamp::UNIX_EPOCH, bound);
            buckets[offset.as_secs() as usize] += 1;
        }
        assert!(buckets.iter().all(|n| (850..1150).contains(n)), "{buckets:?}");
    }

    #[test]
    fn no_bound_means_no_delay() {
        for bound in [SignedDuration::ZERO, SignedDuration::from_secs(-1)] {
            assert_eq!(jitter([1; 16], Timestamp::UNIX_EPOCH, bound), SignedDuration::ZERO);
        }
    }

    #[test]
    fn the_answer_is_fixed_for_all_releases() {
        let bound = SignedDuration::from_hours(1);
        let offsets = [0_u128, 1, u128::MAX]
            .map(|job| jitter(job.to_be_bytes(), Timestamp::UNIX_EPOCH, bound).as_millis());
        assert_eq!(offsets, [499_353, 968_869, 3_393_137]);
    }
}
