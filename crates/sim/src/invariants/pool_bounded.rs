//! The runs that are under way never weigh more than the size of their pool. An executor whose
//! right has ended does not count: no node can stop a machine that stands still, only refuse its
//! results.

use std::collections::BTreeMap;

use domain::id::{NodeId, TenantId};
use jiff::Timestamp;
use store::Applied;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::jobs::POOL_SIZE;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct PoolBounded {
    leases: BTreeMap<NodeId, Timestamp>,
    /// By fence.
    working: BTreeMap<i64, Working>,
    /// The node that got each fence.
    holders: BTreeMap<i64, NodeId>,
}

struct Working {
    node: NodeId,
    tenant: TenantId,
    weight: u32,
}

impl Invariant for PoolBounded {
    fn name(&self) -> &'static str {
        "pool_bounded"
    }

    fn see(&mut self, event: &SimEvent, _: &Oracle) -> Held {
        match event {
            SimEvent::Leased { node, until } => {
                self.leases.insert(*node, *until);
            }
            SimEvent::Unleased { node } => {
                self.leases.remove(node);
            }
            SimEvent::Claimed { node, run, .. } => {
                self.holders.insert(run.grant.fence, *node);
            }
            SimEvent::Finished { finish, applied, .. } if *applied != Applied::Stale => {
                self.working.remove(&finish.grant.fence);
            }
            SimEvent::Stopped { grant, .. } => {
                self.working.remove(&grant.fence);
            }
            SimEvent::Started { at, started, .. } => {
                let Some(pool) = &started.job.definition.pool else { return Ok(()) };
                let (fence, tenant) = (started.run.grant.fence, started.job.tenant);
                let Some(node) = self.holders.get(&fence).copied() else { return Ok(()) };
                let entitled =
                    |node: &NodeId| self.leases.get(node).is_some_and(|until| until >= at);
                if !entitled(&node) {
                    return Ok(());
                }
                let others = self.working.values();
                let others = others.filter(|it| it.tenant == tenant && entitled(&it.node));
                let used: u32 = others.map(|it| it.weight).sum();
                if used + pool.weight > POOL_SIZE {
                    let run = &started.run;
                    return Err(format!("{run:?} began although {used} of {POOL_SIZE} are taken"));
                }
                self.working.insert(fence, Working { node, tenant, weight: pool.weight });
            }
            _ => {}
        }
        Ok(())
    }
}
