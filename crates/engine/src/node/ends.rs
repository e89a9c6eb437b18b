//! How many runs this node saw end, by outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::run::Outcome;
use store::{Applied, Finish, RecordPlan, Verdict};

/// Counts of ended runs. Adding to one is a single atomic addition.
#[derive(Default)]
pub(crate) struct Ends {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    dead_letters: AtomicU64,
}

impl Ends {
    /// Counts runs that ended like this.
    pub fn add(&self, outcome: Outcome, count: u64) {
        self.outcomes[outcome as usize - 1].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts the result of a finish.
    pub fn applied(&self, finish: &Finish, applied: Applied) {
        let Applied::Ended(outcome) = applied else { return };
        self.add(outcome, 1);
        if matches!(finish.verdict, Verdict::End { outcome: meant, dead_letter: true, .. } if meant == outcome)
        {
            self.dead_letters.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Times that a recorded plan ended without a run.
    pub fn fired(&self, fire: &RecordPlan) {
        for entry in &fire.ledger {
            self.add(entry.outcome, entry.count);
        }
    }

    /// In the order of [`Outcome::ALL`].
    pub fn outcomes(&self) -> [u64; Outcome::ALL.len()] {
        std::array::from_fn(|i| self.outcomes[i].load(Ordering::Relaxed))
    }

    pub fn dead_letters(&self) -> u64 {
        self.dead_letters.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_outcome_is_its_place() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place + 1);
        }
    }
}
