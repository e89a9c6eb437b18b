//! The start log of a machine: it outlives its processes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::NodeId;
use domain::run::Grant;
use engine::{BegunRun, BegunRuns, Predecessor, StartLog};
use jiff::Timestamp;

/// The log as one process uses it.
#[derive(Default)]
pub struct SimLog {
    predecessor: Option<Predecessor>,
    content: Mutex<Content>,
}

#[derive(Clone, Default)]
struct Content {
    /// None while no node has used the log.
    node: Option<NodeId>,
    begun: BegunRuns,
    /// When its node last decided about starts.
    acted_at: Option<Timestamp>,
    /// Whether the machine was started again since.
    is_void: bool,
}

impl SimLog {
    /// The log as the next process finds it.
    pub fn reopen(&self) -> Self {
        let content = self.content().clone();
        let Content { node, begun, acted_at, is_void } = &content;
        let begun = (!is_void).then(|| begun.clone());
        let acted_at = acted_at.filter(|_| !is_void);
        let predecessor = node.map(|node| Predecessor { node, begun, acted_at });
        SimLog { predecessor, content: Mutex::new(content) }
    }

    /// The machine was rebooted: earlier records prove nothing any more.
    pub fn reboot(&self) {
        self.content().is_void = true;
    }

    /// The data folder is gone.
    pub fn lose(&self) {
        *self.content() = Content::default();
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StartLog for SimLog {
    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    fn restart(&self, node: NodeId) {
        *self.content() = Content { node: Some(node), ..Content::default() };
    }

    fn begin(&self, grant: Grant, begun: BegunRun) {
        self.content().begun.insert(grant, begun);
    }

    fn act(&self, at: Timestamp) {
        self.content().acted_at = Some(at);
    }

    fn retract(&self, grant: Grant) {
        self.content().begun.remove(&grant);
    }

    fn end(&self, grant: Grant) {
        self.content().begun.remove(&grant);
    }
}
