//! The fencing token of a start is larger than those of all attempts of its job that had ended or
//! were lost when it was decided.
//!
//! Clocks of machines differ, so attempts are compared by time only on one node. A run that needs no
//! look is decided with its claim, a moment before its start.

use std::collections::BTreeMap;

use domain::id::{JobId, NodeId, RunId};
use jiff::{SignedDuration, Timestamp};
use store::Applied;

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;

/// How long a decision is good.
const DECIDED_FOR: SignedDuration = SignedDuration::from_millis(50);

#[derive(Default)]
pub struct Tokens {
    /// The largest token of each run.
    runs: BTreeMap<RunId, i64>,
    /// The largest token of the attempts of a job that have ended on a node, and their last end.
    ended: BTreeMap<(JobId, NodeId), (i64, Timestamp)>,
    /// The job of each grant that has begun, and the node that has it, by fence.
    working: BTreeMap<i64, (JobId, NodeId)>,
    holders: BTreeMap<i64, NodeId>,
}

impl Invariant for Tokens {
    fn name(&self) -> &'static str {
        "tokens in order"
    }

    fn see(&mut self, event: &Event, _oracle: &Oracle) -> Held {
        match event {
            Event::Claimed { node, run, .. } => {
                self.holders.insert(run.grant.fence, *node);
            }
            Event::Started { started, .. } => {
                let (run, token) = (&started.run, started.token);
                let newest = self.runs.entry(run.run.id).or_default();
                if token <= *newest {
                    return Err(format!("token {token} of {run:?} after {newest}"));
                }
                *newest = token;
                let Some(node) = self.holders.get(&run.grant.fence).copied() else { return Ok(()) };
                self.working.insert(run.grant.fence, (run.run.job, node));
                if let Some((before, ended_at)) = self.ended.get(&(run.run.job, node))
                    && *ended_at + DECIDED_FOR < started.started_at
                    && token <= *before
                {
                    return Err(format!("token {token} of {run:?} after {before}"));
                }
            }
            Event::Finished { finish, applied, .. } if *applied != Applied::Stale => {
                let Some((job, node)) = self.working.remove(&finish.grant.fence) else {
                    return Ok(());
                };
                let Some(attempt) = finish.attempt.as_ref().filter(|it| it.node == node) else {
                    return Ok(());
                };
                let ended = self.ended.entry((job, node)).or_insert((0, Timestamp::MIN));
                if let Some(token) = attempt.fence {
                    *ended = (ended.0.max(token), ended.1.max(attempt.finished_at));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
