//! An epoch has one leader, epochs grow, and only the leader does the work that is reserved for it.

use std::collections::BTreeMap;

use domain::cluster::{Class, Lead};
use domain::id::{JobId, NodeId};
use store::{Applied, Verdict};

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct OneLeader {
    lead: Lead,
    leaders: BTreeMap<i64, NodeId>,
    /// Grants that only a leader is given, by fence, and the jobs that they are for.
    grants: BTreeMap<i64, JobId>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one leader"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Led { lead, .. } => {
                if lead.epoch < self.lead.epoch {
                    return Err(format!("{lead:?} after {:?}", self.lead));
                }
                if let Some(node) = lead.node {
                    let leader = *self.leaders.entry(lead.epoch).or_insert(node);
                    if leader != node {
                        return Err(format!("{lead:?}, whose epoch is {leader}'s"));
                    }
                }
                self.lead = *lead;
            }
            SimEvent::Resigned { node } | SimEvent::Unleased { node }
                if self.lead.node == Some(*node) =>
            {
                self.lead.node = None;
            }
            SimEvent::Claimed { node, run, .. } if run.run.place.is_leader() => {
                if self.lead.node != Some(*node) {
                    return Err(format!("{run:?} was given to {node} under {:?}", self.lead));
                }
                self.grants.insert(run.grant.fence, run.run.job);
            }
            // The job was changed, so that any node may run it.
            SimEvent::Defined { job, .. } if job.definition.class != Class::LeaderOnly => {
                self.grants.retain(|_, of| *of != job.id);
            }
            // Only the run's own node ends it like this; other nodes end it as lost.
            SimEvent::Finished { node, finish, applied: Applied::Ended(_) }
                if finish.attempt.is_some() && matches!(finish.verdict, Verdict::End { .. }) =>
            {
                let lost = finish
                    .attempt
                    .iter()
                    .any(|attempt| attempt.result.end == domain::run::AttemptEnd::Lost);
                let of_leader = self.grants.remove(&finish.grant.fence).is_some();
                if of_leader && !lost && self.lead.node != Some(*node) {
                    return Err(format!("{node} ended {finish:?} under {:?}", self.lead));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
