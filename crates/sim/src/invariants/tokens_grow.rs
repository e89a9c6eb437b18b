//! A start that is decided after an earlier run of its job ended has a larger fencing token.

use std::collections::BTreeMap;

use domain::id::JobId;
use domain::run::Grant;
use jiff::Timestamp;

use super::{DECISION_AGE, Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct TokensGrow {
    /// The job and the token of attempts under way, by claim.
    working: BTreeMap<i64, (JobId, i64)>,
    /// Ends that are too young to count, oldest first: the time, the job and the token.
    young: Vec<(Timestamp, JobId, i64)>,
    /// The largest token of the runs that have ended.
    largest: BTreeMap<JobId, i64>,
}

impl TokensGrow {
    fn end(&mut self, at: Timestamp, grant: &Grant) {
        if let Some((job, token)) = self.working.remove(&grant.fence) {
            self.young.push((at, job, token));
        }
    }

    /// Ends of before `until` count from now on.
    fn age(&mut self, until: Timestamp) {
        for (_, job, token) in self.young.extract_if(.., |(at, ..)| *at < until) {
            let largest = self.largest.entry(job).or_insert(token);
            *largest = token.max(*largest);
        }
    }
}

impl Invariant for TokensGrow {
    fn name(&self) -> &'static str {
        "tokens grow"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Stopped { at, grant } => self.end(*at, grant),
            // Which of the ends are young is not known any more.
            SimEvent::ClockSet => self.young.clear(),
            SimEvent::Started { at, started, .. } => {
                self.age(*at - DECISION_AGE);
                let (run, token) = (&started.run, started.token);
                let largest = self.largest.get(&run.run.job).copied().unwrap_or(0);
                self.working.insert(run.grant.fence, (run.run.job, token));
                if token <= largest {
                    return Err(format!(
                        "{run:?} started with token {token}, after a run with {largest} had ended"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
