//! Fences grow with every claim, and a write counts only under the newest claim of its run.

use std::collections::BTreeMap;

use domain::id::{NodeId, RunId};
use store::Applied;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct NoStaleWrite {
    newest: i64,
    grants: BTreeMap<RunId, (i64, NodeId)>,
    /// The fence under which a run ended.
    ended: BTreeMap<RunId, i64>,
}

impl Invariant for NoStaleWrite {
    fn name(&self) -> &'static str {
        "no stale write"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Claimed { node, run, .. } => {
                let grant = run.grant;
                if grant.fence <= self.newest {
                    return Err(format!("fence {} after {}", grant.fence, self.newest));
                }
                if let Some(fence) = self.ended.get(&grant.run) {
                    return Err(format!("run {} ended under {fence}: {run:?}", grant.run));
                }
                self.newest = grant.fence;
                self.grants.insert(grant.run, (grant.fence, *node));
            }
            SimEvent::Finished { node, finish, applied } if *applied != Applied::Stale => {
                let grant = finish.grant;
                if self.ended.get(&grant.run) == Some(&grant.fence) {
                    // Nothing was written: the caller only hears how it ended.
                    return Ok(());
                }
                let newest = self.grants.get(&grant.run).copied();
                if newest != Some((grant.fence, *node)) {
                    return Err(format!("{finish:?} of {node} was {applied:?}, not {newest:?}"));
                }
                if let Applied::Ended(_) = applied {
                    self.ended.insert(grant.run, grant.fence);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
