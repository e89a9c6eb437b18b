//! An epoch has one leader, epochs grow, and only the leader does the work that is reserved for it.

use std::collections::BTreeMap;

use domain::cluster::{Class, Leadership};
use domain::id::{JobId, NodeId};
use store::{Applied, Verdict};

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct OneLeader {
    leadership: Leadership,
    leaders: BTreeMap<i64, NodeId>,
    /// Claims that only a leader gets, by fence, and their jobs.
    grants: BTreeMap<i64, JobId>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one leader"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Led { leadership, .. } => {
                if leadership.epoch < self.leadership.epoch {
                    return Err(format!("{leadership:?} after {:?}", self.leadership));
                }
                if let Some(node) = leadership.node {
                    let leader = *self.leaders.entry(leadership.epoch).or_insert(node);
                    if leader != node {
                        return Err(format!("{leadership:?}, whose epoch is {leader}'s"));
                    }
                }
                self.leadership = *leadership;
            }
            SimEvent::Resigned { node } | SimEvent::Unleased { node }
                if self.leadership.node == Some(*node) =>
            {
                self.leadership.node = None;
            }
            SimEvent::Claimed { node, run, .. } if run.run.place.is_leader() => {
                if self.leadership.node != Some(*node) {
                    return Err(format!("{run:?} was given to {node} under {:?}", self.leadership));
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
                if of_leader && !lost && self.leadership.node != Some(*node) {
                    return Err(format!("{node} ended {finish:?} under {:?}", self.leadership));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
