//! The start log: begun runs of a process, for its successor.
//!
//! Nothing is written to the store when a run begins. If its process is killed, the next one in the
//! same data folder reads the begun runs here: these were lost, and all other prepared runs go on
//! untouched. A record is in the file before the action begins. It need not survive the machine:
//! after a reboot, every due run may have begun.

use std::collections::HashMap;

use domain::id::NodeId;
use domain::run::Grant;
use jiff::Timestamp;

/// A run that had begun: when, and with which fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRun {
    /// When it began.
    pub started_at: Timestamp,
    /// The fencing token that it was given.
    pub token: i64,
}

/// All runs that a node had begun when it ended. A run that is not listed had not begun.
pub type BegunRuns = HashMap<Grant, BegunRun>;

/// The node that the process before this one was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The node.
    pub node: NodeId,
    /// Runs that it had begun; none when the log cannot be read.
    pub begun: Option<BegunRuns>,
    /// When it last decided about starts, by the clock of the store; none when that is not known.
    pub acted_at: Option<Timestamp>,
}

/// A log of starts.
pub trait StartLog: Send + Sync {
    /// The node that the process before this one was, if there was one.
    fn predecessor(&self) -> Option<&Predecessor>;

    /// From now on, the log is that of this node; earlier records are void.
    fn restart(&self, node: NodeId);

    /// A run begins under a claim.
    fn begin(&self, grant: Grant, begun: BegunRun);

    /// The node decided about starts under its lease at this time, by the clock of the store.
    fn act(&self, at: Timestamp);

    /// A run whose start is in the log has not begun after all.
    fn retract(&self, grant: Grant);

    /// The store has recorded that the run of a claim has ended or goes on without it.
    fn end(&self, grant: Grant);
}
