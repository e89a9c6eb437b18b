//! The outcome of a DAG run.

use serde::{Deserialize, Serialize};

use super::{DagState, Graph, StepKey, StepState, is_bad};
use crate::run::{Outcome, Reason, ReasonCode};

/// The steps of a DAG run by their states. A fan-out counts as one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// All steps.
    pub steps: u32,
    /// Steps whose parents have not ended.
    pub pending: u32,
    /// Steps whose runs have not ended, or that wait for `max_parallel`.
    pub open: u32,
    /// Completed steps.
    pub completed: u32,
    /// Failed, timed out or cancelled steps.
    pub failed: u32,
    /// Skipped steps.
    pub skipped: u32,
}

impl StepCounts {
    /// Counts a step.
    pub fn count(&mut self, state: StepState) {
        self.steps += 1;
        *match state {
            StepState::Pending => &mut self.pending,
            StepState::Ready | StepState::Open => &mut self.open,
            StepState::Ended(Outcome::Completed) => &mut self.completed,
            StepState::Ended(Outcome::Skipped) => &mut self.skipped,
            StepState::Ended(_) => &mut self.failed,
        } += 1;
    }
}

impl DagState {
    /// The steps by their states.
    pub fn counts(&self) -> StepCounts {
        let mut counts = StepCounts::default();
        self.slots.iter().for_each(|slot| counts.count(slot.state));
        counts
    }
}

/// The outcome of a DAG run; none while a step has no outcome. It is cancelled if a cancellation
/// kept a step from its end. Otherwise it completes if no step without ALLOW FAILURE ended badly.
/// Leaves have no special meaning.
pub fn dag_outcome(graph: &Graph, state: &DagState) -> Option<(Outcome, Option<Reason>)> {
    const SHOWN: usize = 5;
    if !state.is_over() {
        return None;
    }
    if state.is_cancelled() {
        let text = "the DAG run was cancelled".to_owned();
        return Some((
            Outcome::Cancelled,
            Some(Reason { code: ReasonCode::CancelRequested, text }),
        ));
    }
    let bad: Vec<String> = (0..graph.len() as u32)
        .filter(|step| !graph.step(*step).step.allow_failure)
        .filter_map(|step| match state.state(StepKey::of_step(step)) {
            StepState::Ended(outcome) if is_bad(outcome) => {
                Some(format!("{} {outcome}", graph.name(step)))
            }
            _ => None,
        })
        .collect();
    if bad.is_empty() {
        return Some((Outcome::Completed, None));
    }
    let more = bad.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    let names: Vec<String> = bad.iter().take(SHOWN).cloned().collect();
    let text = format!(
        "{} of {} steps did not complete: {}{more}",
        bad.len(),
        graph.len(),
        names.join(", ")
    );
    Some((Outcome::Failed, Some(Reason { code: ReasonCode::StepsFailed, text })))
}
