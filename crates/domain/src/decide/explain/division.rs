//! The progress of a parent run.

use std::fmt;

use jiff::Timestamp;

use crate::id::{NodeId, RunId};
use crate::partition::Progress;
use crate::run::{Outcome, RunState};

/// A parent run and the progress of its child runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The id of the parent run.
    pub run: RunId,
    /// The scheduled time of the parent run.
    pub scheduled_for: Timestamp,
    /// The counts of its child runs.
    pub progress: Progress,
    /// Child runs that did not complete, ended ones first. A few of each kind are enough.
    pub parts: Vec<PartFacts>,
}

/// A child run that did not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFacts {
    /// The id of the child run.
    pub run: RunId,
    /// The name of its shard, if it has one.
    pub shard: Option<String>,
    /// Whether a node owns that shard.
    pub is_owned: bool,
    /// Its state or outcome.
    pub state: RunState,
    /// The node that has claimed it.
    pub node: Option<NodeId>,
    /// The number of ended attempts.
    pub attempts: u32,
    /// When it may start.
    pub due_at: Timestamp,
    /// The reason of its end, or the message of its last attempt.
    pub said: Option<String>,
}

impl Division {
    /// Sentences: the progress, then some child runs, then the number of the others.
    pub fn sentences(&self) -> Vec<String> {
        let Progress { parts, completed, failed } = self.progress;
        let live = parts - completed - failed;
        let ended = |part: &&PartFacts| matches!(part.state, RunState::Ended(_));
        let told = self.parts.iter().filter(ended).count();
        let mut sentences = vec![self.to_string()];
        sentences.extend(self.parts.iter().map(ToString::to_string));
        for (all, told, what) in [
            (failed, told, "that did not complete"),
            (live, self.parts.len() - told, "that have not ended"),
        ] {
            if all > told {
                sentences.push(format!("and {} more {what}", all - told));
            }
        }
        sentences
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { parts, completed, failed } = self.progress;
        write!(f, "{completed} of {parts} parts of run {} completed", self.run)?;
        if failed > 0 {
            write!(f, ", {failed} did not")?;
        }
        match parts - completed - failed {
            0 => Ok(()),
            1 => f.write_str(", 1 has not ended"),
            live => write!(f, ", {live} have not ended"),
        }
    }
}

impl fmt::Display for PartFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shard {
            Some(shard) => write!(f, "shard {shard} ")?,
            None => write!(f, "part {} ", self.run)?,
        }
        let said = |f: &mut fmt::Formatter<'_>| match &self.said {
            Some(said) => write!(f, ": {said}"),
            None => Ok(()),
        };
        match (self.state, self.node) {
            (RunState::Ended(Outcome::Completed), _) => f.write_str("completed"),
            (RunState::Ended(outcome), _) => {
                write!(f, "ended as {outcome}")?;
                said(f)
            }
            (RunState::Running, Some(node)) => write!(f, "runs on node {node}"),
            (RunState::Running, None) => f.write_str("runs"),
            (RunState::Pending, _) if self.attempts > 0 => {
                write!(f, "is retried at {}", self.due_at)?;
                said(f)
            }
            _ if self.shard.is_some() && !self.is_owned => {
                f.write_str("waits for an eligible node: there is none")
            }
            _ if self.shard.is_some() => f.write_str("waits for the node that owns it"),
            _ => f.write_str("waits for a node with a free slot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn part(shard: Option<&str>, state: RunState) -> PartFacts {
        PartFacts {
            run: RunId(Uuid::nil()),
            shard: shard.map(str::to_owned),
            is_owned: true,
            state,
            node: None,
            attempts: 0,
            due_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            said: None,
        }
    }

    #[test]
    fn a_part_says_what_it_waits_for() {
        let failed = RunState::Ended(Outcome::Failed);
        let node = Some(NodeId(Uuid::nil()));
        let said = Some("no disk".to_owned());
        let cases = [
            (part(Some("s1"), failed), "shard s1 ended as FAILED"),
            (
                PartFacts { said: said.clone(), ..part(Some("s1"), failed) },
                "shard s1 ended as FAILED: no disk",
            ),
            (
                PartFacts { node, ..part(Some("s2"), RunState::Running) },
                "shard s2 runs on node 00000000-0000-0000-0000-000000000000",
            ),
            (
                PartFacts { attempts: 1, said, ..part(Some("s3"), RunState::Pending) },
                "shard s3 is retried at 2026-01-01T00:00:00Z: no disk",
            ),
            (
                PartFacts { is_owned: false, ..part(Some("s4"), RunState::Queued) },
                "shard s4 waits for an eligible node: there is none",
            ),
            (part(Some("s5"), RunState::Queued), "shard s5 waits for the node that owns it"),
            (
                part(None, RunState::Queued),
                "part 00000000-0000-0000-0000-000000000000 waits for a node with a free slot",
            ),
        ];
        for (part, sentence) in cases {
            assert_eq!(part.to_string(), sentence);
        }
    }

    #[test]
    fn those_that_are_not_named_are_counted() {
        let division = Division {
            run: RunId(Uuid::nil()),
            scheduled_for: Timestamp::UNIX_EPOCH,
            progress: Progress { parts: 16, completed: 3, failed: 2 },
            parts: vec![
                part(Some("s1"), RunState::Ended(Outcome::Timeout)),
                part(Some("s2"), RunState::Queued),
            ],
        };
        assert_eq!(
            division.sentences(),
            [
                "3 of 16 parts of run 00000000-0000-0000-0000-000000000000 completed, 2 did not, \
                 11 have not ended",
                "shard s1 ended as TIMEOUT",
                "shard s2 waits for the node that owns it",
                "and 1 more that did not complete",
                "and 10 more that have not ended",
            ]
        );
        let progress = Progress { parts: 2, completed: 2, failed: 0 };
        let whole = Division { progress, parts: Vec::new(), ..division };
        assert_eq!(whole.sentences().len(), 1);
        assert!(whole.to_string().starts_with("2 of 2 parts of run"), "{whole}");
    }
}
