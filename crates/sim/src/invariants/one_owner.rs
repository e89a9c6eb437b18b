//! Only the owner of a shard claims the shard's run, and every move has a larger fencing token.

use std::collections::BTreeMap;

use domain::id::ObjectId;
use domain::shard::Ownership;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct OneOwner {
    owners: BTreeMap<ObjectId, Ownership>,
}

impl Invariant for OneOwner {
    fn name(&self) -> &'static str {
        "one owner"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Owned { shard, owner } => {
                let before = self.owners.insert(*shard, *owner).unwrap_or_default();
                let has_moved = before.node != owner.node;
                if owner.fence < before.fence || has_moved && owner.fence == before.fence {
                    return Err(format!("shard {shard}: {owner:?} after {before:?}"));
                }
            }
            SimEvent::Claimed { node, run, .. } if !run.run.shard.is_empty() => {
                let owner = run.run.shard.parse().ok().and_then(|shard| self.owners.get(&shard));
                if owner.and_then(|owner| owner.node) != Some(*node) {
                    return Err(format!("{run:?} was given to {node}, not to {owner:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
