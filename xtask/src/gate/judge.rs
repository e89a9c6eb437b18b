//! Whether one side is slower than the other, or only looks so.
//!
//! Both sides were measured once a round, one right after the other, so that a machine that slows
//! down slows both. A round's *ratio* is the speed of the candidate divided by that of the base; of
//! times, the other way round: above 1 is always better. The *noise* is the median distance of the
//! ratios from their median. A metric has fallen when all of this is true:
//!
//! 1. the median ratio is more than [`LIMIT`] below 1;
//! 2. the candidate was the slower one in four of five rounds ([`AGREEING`]);
//! 3. the loss is more than twice the noise ([`NOISES`]).
//!
//! A loss that meets only the first is [`Verdict::Unclear`]: use more rounds, or a quieter machine.
//! The second rule excludes a few disturbed rounds, the third a metric that varies more than it
//! lost.

use super::metrics::Better;

/// The part of the speed that may be lost.
pub const LIMIT: f64 = 0.10;

/// The part of the rounds in which the candidate must be slower.
const AGREEING: f64 = 0.8;

/// How many times the noise a loss must be.
const NOISES: f64 = 2.0;

/// The result of comparing a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Slower by more than the limit, outside the noise. The gate fails.
    Fall,
    /// Slower by more than the limit, but within the noise.
    Unclear,
    /// Neither slower nor faster by more than the limit.
    Same,
    /// Faster by more than the limit.
    Rise,
}

/// The comparison of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The median ratio of the rounds; above 1 the candidate is better.
    pub ratio: f64,
    /// The median distance of the ratios from it.
    pub noise: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares the values of the same rounds. There is at least one.
pub fn compare(better: Better, base: &[f64], candidate: &[f64]) -> Comparison {
    let ratios: Vec<f64> = base
        .iter()
        .zip(candidate)
        .map(|(base, candidate)| match better {
            Better::Higher => candidate / base,
            Better::Lower => base / candidate,
        })
        .collect();
    let ratio = median(&ratios);
    let distances: Vec<f64> = ratios.iter().map(|one| (one - ratio).abs()).collect();
    let noise = median(&distances);
    let slower = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let agree = slower as f64 >= AGREEING * ratios.len() as f64;
    let verdict = if ratio < 1.0 - LIMIT {
        if agree && 1.0 - ratio > NOISES * noise { Verdict::Fall } else { Verdict::Unclear }
    } else if ratio > 1.0 + LIMIT {
        Verdict::Rise
    } else {
        Verdict::Same
    };
    Comparison { ratio, noise, verdict }
}

/// The middle value; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The spread of the values: the range divided by the median.
pub fn spread(values: &[f64]) -> f64 {
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    (high - low) / median(values)
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Fall, Rise, Same, Unclear};
    use super::*;

    #[test]
    fn falls_are_told_from_noise() {
        use Better::{Higher, Lower};
        /// The metric, which way is better, base, candidate, verdict.
        type Case = (&'static str, Better, &'static [f64], &'static [f64], Verdict);
        let table: &[Case] = &[
            ("nothing changed", Higher, &[100.0; 5], &[100.0; 5], Same),
            ("within the limit", Higher, &[100.0; 5], &[91.0, 92.0, 91.0, 93.0, 91.0], Same),
            ("a clear fall", Higher, &[100.0; 5], &[85.0, 86.0, 84.0, 85.0, 85.0], Fall),
            ("a clear fall of a time", Lower, &[10.0; 5], &[12.0, 11.9, 12.1, 12.0, 12.0], Fall),
            ("a clear rise", Higher, &[100.0; 5], &[120.0, 119.0, 121.0, 120.0, 120.0], Rise),
            ("a clear rise of a time", Lower, &[12.0; 5], &[10.0; 5], Rise),
            (
                "the machine slowed down, and both with it",
                Higher,
                &[100.0, 90.0, 70.0, 50.0, 50.0],
                &[99.0, 91.0, 69.0, 50.0, 51.0],
                Same,
            ),
            (
                "the machine slowed down, and the candidate fell",
                Higher,
                &[100.0, 90.0, 70.0, 50.0, 50.0],
                &[80.0, 73.0, 56.0, 40.0, 41.0],
                Fall,
            ),
            (
                "two of five rounds were disturbed",
                Higher,
                &[100.0; 5],
                &[100.0, 60.0, 99.0, 55.0, 101.0],
                Same,
            ),
            (
                "three of five rounds were disturbed",
                Higher,
                &[100.0; 5],
                &[101.0, 60.0, 85.0, 55.0, 101.0],
                Unclear,
            ),
            (
                "it swings more than it lost",
                Higher,
                &[100.0; 5],
                &[88.0, 70.0, 99.0, 60.0, 98.0],
                Unclear,
            ),
            ("one round is taken at its word", Higher, &[100.0], &[80.0], Fall),
            ("two rounds that disagree", Higher, &[100.0; 2], &[70.0, 101.0], Unclear),
        ];
        for (about, better, base, candidate, verdict) in table {
            let compared = compare(*better, base, candidate);
            assert_eq!(compared.verdict, *verdict, "{about}: {compared:?}");
        }
    }

    #[test]
    fn limit_is_a_tenth() {
        let judge =
            |candidate: f64| compare(Better::Higher, &[1_000.0; 3], &[candidate; 3]).verdict;
        for (candidate, verdict) in [(899.0, Fall), (901.0, Same), (1_099.0, Same), (1_101.0, Rise)]
        {
            assert_eq!(judge(candidate), verdict, "{candidate}");
        }
    }

    #[test]
    fn middle_and_spread() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[100.0, 90.0, 110.0]), 0.2);
    }
}
