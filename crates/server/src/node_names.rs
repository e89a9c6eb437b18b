//! The names of nodes by their ids, for answers about runs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::NodeId;
use engine::Engine;

/// The most names that are remembered. A node gets a new id with every start.
const KNOWN_MAX: usize = 10_000;

/// The names of nodes. An id never gets another name, so a name is looked up once.
#[derive(Default)]
pub struct NodeNames {
    /// Absent: the store has forgotten the node.
    known: Mutex<HashMap<NodeId, Option<String>>>,
}

impl NodeNames {
    /// The names of these nodes, as far as the store still knows them.
    pub(crate) async fn find(
        &self,
        engine: &Engine,
        nodes: impl Iterator<Item = NodeId>,
    ) -> engine::Result<HashMap<NodeId, String>> {
        let wanted: Vec<NodeId> = nodes.collect();
        let is_new = {
            let known = self.known();
            wanted.iter().any(|node| !known.contains_key(node))
        };
        if is_new {
            let nodes = engine.node().nodes().await?;
            let mut known = self.known();
            if known.len() > KNOWN_MAX {
                known.clear();
            }
            for node in &wanted {
                known.entry(*node).or_insert(None);
            }
            known.extend(nodes.into_iter().map(|node| (node.id, Some(node.info.name))));
        }
        let known = self.known();
        let named = |node: NodeId| Some((node, known.get(&node)?.clone()?));
        Ok(wanted.into_iter().filter_map(named).collect())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<NodeId, Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
