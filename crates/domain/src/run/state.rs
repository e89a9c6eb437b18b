//! The states of a run and all transitions between them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Wait;

/// The states of a run. The first four are derived from a live row; the others are outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// Its time has not come, or it waits for runs of other jobs or for a quorum.
    Pending,
    /// Its time has come, and it waits for a node, for earlier runs of its job or for a place in
    /// a pool.
    Queued,
    /// Its time has come, and a node has claimed it.
    Running,
    /// Its node was lost, and it waits for a decision of a user.
    Held,
    /// It ended.
    Ended(Outcome),
}

/// The events that change a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Its time comes, or its wait condition is met.
    Ready,
    /// A node claims it.
    Claim,
    /// The node releases its claim without starting the run.
    Release,
    /// The node finds that the run must wait: for other runs, for a quorum, for its child runs.
    Wait,
    /// An attempt ended (failed, timed out or lost), and another will follow.
    Retry,
    /// An attempt was lost, and the job asks a user to decide about the run.
    Hold,
    /// The last attempt ended, or there will be none.
    End(Outcome),
}

/// The outcome of a run. Every tick has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Outcome {
    /// The action succeeded.
    Completed = 1,
    /// The last attempt failed.
    Failed = 2,
    /// It was cancelled.
    Cancelled = 3,
    /// Its last attempt took too long.
    Timeout = 4,
    /// It was decided that it does not run.
    Skipped = 5,
    /// It could not run in time.
    Missed = 6,
}

impl Outcome {
    /// Every outcome, in the order of their numbers.
    pub const ALL: [Outcome; 6] = [
        Outcome::Completed,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Timeout,
        Outcome::Skipped,
        Outcome::Missed,
    ];

    /// The outcome with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        Outcome::ALL.into_iter().find(|outcome| *outcome as i64 == number)
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Completed => "COMPLETED",
            Outcome::Failed => "FAILED",
            Outcome::Cancelled => "CANCELLED",
            Outcome::Timeout => "TIMEOUT",
            Outcome::Skipped => "SKIPPED",
            Outcome::Missed => "MISSED",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunState::Pending => f.write_str("PENDING"),
            RunState::Queued => f.write_str("QUEUED"),
            RunState::Running => f.write_str("RUNNING"),
            RunState::Held => f.write_str("HELD"),
            RunState::Ended(outcome) => outcome.fmt(f),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ready => f.write_str("it becomes due, or its wait condition is met"),
            Event::Claim => f.write_str("a node claims it"),
            Event::Release => f.write_str("the node releases it without a start"),
            Event::Wait => f.write_str("it must wait for other runs, a quorum or its child runs"),
            Event::Retry => {
                f.write_str("an attempt failed, timed out or was lost; another follows")
            }
            Event::Hold => f.write_str("an attempt was lost, and the job asks what becomes of it"),
            Event::End(Outcome::Completed) => f.write_str("the work is done"),
            Event::End(Outcome::Failed) => f.write_str("the last attempt failed or was lost"),
            Event::End(Outcome::Cancelled) => f.write_str("it is cancelled"),
            Event::End(Outcome::Timeout) => f.write_str("the last attempt took too long"),
            Event::End(Outcome::Skipped) => {
                f.write_str("overlap, upstream, catch-up or daylight saving")
            }
            Event::End(Outcome::Missed) => f.write_str("the start deadline passed"),
        }
    }
}

/// Every transition that a store makes. The simulation fails on any other, and a test of every
/// store makes each of them happen.
///
/// Nothing is written when the time of a run comes: its state changes because it is derived.
pub const TRANSITIONS: &[(RunState, Event, RunState)] = {
    use Event::{Claim, End, Hold, Ready, Release, Retry, Wait};
    use Outcome::{Cancelled, Completed, Failed, Missed, Skipped, Timeout};
    use RunState::{Ended, Held, Pending, Queued, Running};
    &[
        (Pending, Ready, Queued),
        // The time of a prepared run comes while a node has claimed it.
        (Pending, Ready, Running),
        (Pending, Claim, Pending),
        (Pending, Release, Pending),
        (Pending, End(Cancelled), Ended(Cancelled)),
        // It waited in line for earlier runs of its job or for a place in a pool.
        (Queued, Ready, Queued),
        (Queued, Claim, Running),
        (Queued, End(Cancelled), Ended(Cancelled)),
        // The last child run of a parent run ended.
        (Running, Ready, Queued),
        (Running, Release, Queued),
        (Running, Wait, Pending),
        // It waits in line for earlier runs, or its wait condition was met in the meantime.
        (Running, Wait, Queued),
        // A parent run waits for its child runs.
        (Running, Wait, Running),
        (Running, Retry, Pending),
        (Running, Retry, Queued),
        (Running, Hold, Held),
        // It was decided that the run is attempted again.
        (Held, Ready, Queued),
        (Held, End(Completed), Ended(Completed)),
        (Held, End(Failed), Ended(Failed)),
        (Held, End(Cancelled), Ended(Cancelled)),
        (Running, End(Completed), Ended(Completed)),
        (Running, End(Failed), Ended(Failed)),
        (Running, End(Cancelled), Ended(Cancelled)),
        (Running, End(Timeout), Ended(Timeout)),
        (Running, End(Skipped), Ended(Skipped)),
        (Running, End(Missed), Ended(Missed)),
    ]
};

impl RunState {
    /// Whether an event may lead from this state to another.
    pub fn may_become(self, event: Event, to: RunState) -> bool {
        TRANSITIONS.contains(&(self, event, to))
    }

    /// The state of a live row. A parent run is RUNNING as long as its child runs.
    pub fn of_live(due: bool, held: bool, wait: Option<Wait>) -> RunState {
        match (due, held, wait) {
            (true, true, None) | (_, _, Some(Wait::Parts)) => RunState::Running,
            (_, _, Some(Wait::Decision)) => RunState::Held,
            (true, false, None) | (true, _, Some(Wait::Overlap | Wait::Pool | Wait::Backfill)) => {
                RunState::Queued
            }
            _ => RunState::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The table of `docs/run-states.md`.
    fn table() -> String {
        let mut table = String::from("| from | what happens | to |\n|---|---|---|\n");
        for (from, event, to) in TRANSITIONS {
            writeln!(table, "| {from} | {event} | {to} |").unwrap();
        }
        table
    }

    #[test]
    fn the_documented_table_is_the_one_in_force() {
        let page = include_str!("../../../../docs/run-states.md");
        assert!(page.contains(&table()), "docs/run-states.md must contain:\n\n{}", table());
    }

    #[test]
    fn no_event_leads_out_of_an_outcome() {
        let is_ended = |state: &RunState| matches!(state, RunState::Ended(_));
        assert!(TRANSITIONS.iter().all(|(from, _, _)| !is_ended(from)));
    }

    #[test]
    fn every_outcome_can_be_reached_and_no_row_comes_twice() {
        for outcome in Outcome::ALL {
            assert!(
                RunState::Running.may_become(Event::End(outcome), RunState::Ended(outcome)),
                "{outcome}"
            );
            assert_eq!(Outcome::from_number(outcome as i64), Some(outcome));
        }
        for (i, row) in TRANSITIONS.iter().enumerate() {
            assert!(!TRANSITIONS[i + 1..].contains(row), "{row:?}");
        }
    }

    #[test]
    fn a_live_run_that_waits_for_its_own_job_is_queued() {
        use RunState::{Pending, Queued, Running};
        for (due, held, wait, expected) in [
            (false, false, None, Pending),
            (false, true, None, Pending),
            (true, false, None, Queued),
            (true, true, None, Running),
            (true, false, Some(Wait::Overlap), Queued),
            (false, false, Some(Wait::Overlap), Pending),
            (true, false, Some(Wait::Upstream), Pending),
            (true, false, Some(Wait::Quorum), Pending),
            (true, false, Some(Wait::Parts), Running),
            (true, false, Some(Wait::Pool), Queued),
            (true, false, Some(Wait::Backfill), Queued),
            (true, false, Some(Wait::Decision), RunState::Held),
        ] {
            assert_eq!(RunState::of_live(due, held, wait), expected, "{due} {held} {wait:?}");
        }
    }

    #[test]
    fn a_run_that_never_began_has_no_result() {
        for state in [RunState::Pending, RunState::Queued] {
            for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Timeout] {
                let ended = RunState::Ended(outcome);
                assert!(!state.may_become(Event::End(outcome), ended), "{state} {outcome}");
            }
        }
    }
}
