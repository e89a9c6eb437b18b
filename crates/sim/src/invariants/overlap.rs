//! A job whose runs must not overlap never has more running than it allows, and no run is ever
//! worked on twice at a time. An executor whose claim has ended does not count: a machine that
//! stands still cannot be stopped, only its results can be rejected.

use std::collections::BTreeMap;

use domain::id::{JobId, NodeId, RunId};
use domain::job::{Definition, Overlap as Policy};
use domain::run::ClaimedRun;
use jiff::Timestamp;
use store::Applied;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct Overlap {
    leases: BTreeMap<NodeId, Timestamp>,
    /// By fence.
    working: BTreeMap<i64, Working>,
    /// The node that got each fence.
    holders: BTreeMap<i64, NodeId>,
}

struct Working {
    run: RunId,
    job: JobId,
    node: NodeId,
    /// It began before its time by the store's clock, and so can be planned anew.
    early: bool,
    /// How many its job allowed when it began.
    allowed: usize,
}

/// Whether a run may have begun under another policy: it goes on under this one.
fn began_before(run: &ClaimedRun, oracle: &Oracle) -> bool {
    let changed = oracle.job(run.run.job).is_none_or(|it| it.definitions.len() > 1);
    changed && run.attempts + run.lost > 0
}

/// How many runs of a job may be at work.
fn allowed(definition: &Definition) -> usize {
    match definition.overlap {
        Policy::Allow => usize::MAX,
        _ => definition.most_running(u32::MAX) as usize,
    }
}

impl Invariant for Overlap {
    fn name(&self) -> &'static str {
        "overlap"
    }

    fn see(&mut self, event: &SimEvent, oracle: &Oracle) -> Held {
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
                let run = &started.run;
                let held = self.judge(*at, started, oracle);
                let node = self.holders.get(&run.grant.fence).copied();
                let working = Working {
                    run: run.grant.run,
                    job: run.run.job,
                    node: node.unwrap_or(NodeId(uuid::Uuid::nil())),
                    early: *at < run.run.due_at,
                    // The run that was split stands for its parts.
                    allowed: if began_before(run, oracle) || run.run.id.is_part() {
                        usize::MAX
                    } else {
                        allowed(&started.job.definition)
                    },
                };
                self.working.insert(run.grant.fence, working);
                return held;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Overlap {
    fn judge(&self, at: Timestamp, started: &engine::Started, oracle: &Oracle) -> Held {
        let run = &started.run;
        let entitled = |node: &NodeId| self.leases.get(node).is_some_and(|until| *until >= at);
        // A start of a machine whose own right has ended is not worth a word either.
        if !self.holders.get(&run.grant.fence).is_some_and(&entitled) {
            return Ok(());
        }
        let others: Vec<(&i64, &Working)> = self
            .working
            .iter()
            .filter(|(_, it)| it.job == run.run.job && entitled(&it.node) && !it.early)
            .collect();
        if let Some((fence, _)) = others.iter().find(|(_, it)| it.run == run.grant.run) {
            return Err(format!("{run:?} is worked on under fence {fence} already"));
        }
        let definition = &started.job.definition;
        let allowed = allowed(definition);
        if began_before(run, oracle) || run.run.id.is_part() {
            return Ok(());
        }
        let others: Vec<_> = others.iter().filter(|(_, it)| it.allowed <= allowed).collect();
        if others.len() >= allowed {
            let fences: Vec<&i64> = others.iter().map(|(fence, _)| *fence).collect();
            return Err(format!(
                "{:?} {} started {run:?} while these work: {fences:?}",
                definition.overlap,
                definition.most_running(u32::MAX)
            ));
        }
        Ok(())
    }
}
