//! Trigger rules: which outcomes of its parents let a step run.

use serde::{Deserialize, Serialize};

use crate::run::Outcome;

/// Which outcomes of its parents let a step run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TriggerRule {
    /// All succeeded.
    #[default]
    AllSuccess,
    /// All ended, in any way.
    AllDone,
    /// At least one succeeded.
    OneSuccess,
    /// At least one failed.
    OneFailed,
    /// All ended, and none failed.
    NoneFailed,
    /// All ended, and none was skipped.
    NoneSkipped,
}

/// The outcomes of the parents of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Parents that have not ended.
    pub pending: u32,
    /// Parents that succeeded.
    pub succeeded: u32,
    /// Parents that failed, timed out or were cancelled.
    pub failed: u32,
    /// Parents that failed and are allowed to: every rule takes them for successful ones.
    pub tolerated: u32,
    /// Parents that were skipped.
    pub skipped: u32,
}

/// Judgement of a trigger rule about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Undecided: the outcomes that are missing can change it.
    Undecided,
    /// The step runs.
    Run,
    /// The step is skipped.
    Skip,
}

impl Tally {
    /// The tally of a step before any of its parents has ended.
    pub fn of_parents(parents: usize) -> Self {
        Tally { pending: parents as u32, ..Tally::default() }
    }

    /// Counts a parent that has ended.
    pub fn count(&mut self, outcome: Outcome, allow_failure: bool) {
        self.pending = self.pending.saturating_sub(1);
        *match outcome {
            Outcome::Completed => &mut self.succeeded,
            Outcome::Skipped => &mut self.skipped,
            _ if allow_failure => &mut self.tolerated,
            Outcome::Failed | Outcome::Timeout | Outcome::Cancelled | Outcome::Missed => {
                &mut self.failed
            }
        } += 1;
    }

    /// The number of parents.
    pub fn parents(&self) -> u32 {
        self.pending + self.succeeded + self.failed + self.tolerated + self.skipped
    }
}

impl TriggerRule {
    /// Every rule.
    pub const ALL: [TriggerRule; 6] = [
        TriggerRule::AllSuccess,
        TriggerRule::AllDone,
        TriggerRule::OneSuccess,
        TriggerRule::OneFailed,
        TriggerRule::NoneFailed,
        TriggerRule::NoneSkipped,
    ];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            TriggerRule::AllSuccess => "ALL_SUCCESS",
            TriggerRule::AllDone => "ALL_DONE",
            TriggerRule::OneSuccess => "ONE_SUCCESS",
            TriggerRule::OneFailed => "ONE_FAILED",
            TriggerRule::NoneFailed => "NONE_FAILED",
            TriggerRule::NoneSkipped => "NONE_SKIPPED",
        }
    }

    /// The rule with a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        TriggerRule::ALL.into_iter().find(|rule| rule.name().eq_ignore_ascii_case(name))
    }

    pub(super) fn is_default(&self) -> bool {
        *self == TriggerRule::AllSuccess
    }

    /// Applies the rule. The result is final only when no outcome of the pending parents can change
    /// it. A step without parents runs.
    pub fn judge(self, tally: Tally) -> Judgement {
        if tally.parents() == 0 {
            return Judgement::Run;
        }
        let is_over = tally.pending == 0;
        let any = |yes: bool, no: bool| match (yes, no) {
            (true, _) => Judgement::Run,
            (_, true) => Judgement::Skip,
            _ => Judgement::Undecided,
        };
        match self {
            TriggerRule::AllSuccess => {
                any(is_over && tally.failed + tally.skipped == 0, tally.failed + tally.skipped > 0)
            }
            TriggerRule::AllDone => any(is_over, false),
            TriggerRule::OneSuccess => any(tally.succeeded + tally.tolerated > 0, is_over),
            TriggerRule::OneFailed => any(tally.failed > 0, is_over),
            TriggerRule::NoneFailed => any(is_over && tally.failed == 0, tally.failed > 0),
            TriggerRule::NoneSkipped => any(is_over && tally.skipped == 0, tally.skipped > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [(Outcome, bool); 4] = [
        (Outcome::Completed, false),
        (Outcome::Failed, false),
        (Outcome::Failed, true),
        (Outcome::Skipped, false),
    ];

    /// Every multiset of outcomes of up to so many parents, as tallies with nothing pending.
    fn finals(tally: Tally) -> Vec<Tally> {
        if tally.pending == 0 {
            return vec![tally];
        }
        let next = |(outcome, allowed): (Outcome, bool)| {
            let mut next = tally;
            next.count(outcome, allowed);
            finals(next)
        };
        CLASSES.into_iter().flat_map(next).collect()
    }

    #[test]
    fn an_early_answer_is_that_of_every_end() {
        for rule in TriggerRule::ALL {
            let mut open = vec![Tally::of_parents(3)];
            while let Some(tally) = open.pop() {
                let answers: Vec<Judgement> =
                    finals(tally).into_iter().map(|end| rule.judge(end)).collect();
                assert!(!answers.contains(&Judgement::Undecided), "{rule:?} {tally:?}");
                let is_certain = answers.iter().all(|answer| *answer == answers[0]);
                let expected = if is_certain { answers[0] } else { Judgement::Undecided };
                // A rule that could never answer otherwise waits for all its parents all the same.
                if rule == TriggerRule::AllDone && tally.pending > 0 {
                    assert_eq!(rule.judge(tally), Judgement::Undecided, "{tally:?}");
                } else {
                    assert_eq!(rule.judge(tally), expected, "{rule:?} {tally:?}");
                }
                if tally.pending > 0 {
                    open.extend(CLASSES.into_iter().map(|(outcome, allowed)| {
                        let mut next = tally;
                        next.count(outcome, allowed);
                        next
                    }));
                }
            }
        }
    }

    #[test]
    fn rules_read_outcomes_as_their_names_say() {
        let tally = |succeeded, failed, tolerated, skipped| Tally {
            pending: 0,
            succeeded,
            failed,
            tolerated,
            skipped,
        };
        // all_success, all_done, one_success, one_failed, none_failed, none_skipped
        for (tally, expected) in [
            (tally(0, 0, 0, 0), "RRRRRR"),
            (tally(2, 0, 0, 0), "RRRSRR"),
            (tally(1, 1, 0, 0), "SRRRSR"),
            (tally(1, 0, 1, 0), "RRRSRR"),
            (tally(0, 0, 2, 0), "RRRSRR"),
            (tally(0, 1, 1, 0), "SRRRSR"),
            (tally(0, 0, 1, 1), "SRRSRS"),
            (tally(1, 0, 0, 1), "SRRSRS"),
            (tally(0, 0, 0, 2), "SRSSRS"),
            (tally(0, 2, 0, 0), "SRSRSR"),
        ] {
            let answers: String = TriggerRule::ALL
                .into_iter()
                .map(|rule| if rule.judge(tally) == Judgement::Run { 'R' } else { 'S' })
                .collect();
            assert_eq!(answers, expected, "{tally:?}");
        }
    }
}
