//! The start log of a machine: it outlives the process, and not always the machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::NodeId;
use domain::run::Grant;
use engine::{BegunRun, BegunRuns, Predecessor, StartLog};

/// What a machine keeps when its process is killed.
#[derive(Default)]
pub struct Folder(Mutex<Written>);

#[derive(Default)]
struct Written {
    node: Option<NodeId>,
    begun: BegunRuns,
}

impl Folder {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The log of one process.
pub struct MemoryLog {
    folder: Arc<Folder>,
    predecessor: Option<Predecessor>,
}

impl MemoryLog {
    /// Reads what the process before left; only its node if the machine was restarted.
    pub fn open(folder: &Arc<Folder>, is_rebooted: bool) -> Self {
        let written = folder.written();
        let begun = || Some(written.begun.clone()).filter(|_| !is_rebooted);
        let predecessor = written.node.map(|node| Predecessor { node, begun: begun() });
        MemoryLog { folder: Arc::clone(folder), predecessor }
    }
}

impl StartLog for MemoryLog {
    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    fn restart(&self, node: NodeId) {
        *self.folder.written() = Written { node: Some(node), begun: BegunRuns::new() };
    }

    fn begin(&self, grant: Grant, begun: BegunRun) {
        self.folder.written().begun.insert(grant, begun);
    }

    fn end(&self, grant: Grant) {
        self.folder.written().begun.remove(&grant);
    }
}
