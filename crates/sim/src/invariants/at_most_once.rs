//! A run of a job with `ON LOST FAIL` starts again only after an attempt that ended by itself. An
//! attempt that was lost, or of which no end is recorded, may have done its work.

use std::collections::BTreeSet;

use domain::id::RunId;
use domain::job::OnLost;
use domain::run::{AttemptEnd, ClaimedRun};
use store::Applied;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct AtMostOnce {
    /// Runs with an attempt that has started and has no recorded end of its own.
    open: BTreeSet<RunId>,
}

/// Whether every definition that the job of a run ever had forbids a second try after a loss.
fn is_guarded(run: &ClaimedRun, oracle: &Oracle) -> bool {
    // A step follows the rules of its step.
    let is_of_job = !run.run.origin.is_child();
    let job = oracle.job(run.run.job).filter(|_| is_of_job);
    job.is_some_and(|job| job.definitions.values().all(|it| it.on_lost == OnLost::Fail))
}

impl Invariant for AtMostOnce {
    fn name(&self) -> &'static str {
        "at most once"
    }

    fn see(&mut self, event: &SimEvent, oracle: &Oracle) -> Held {
        match event {
            SimEvent::Started { started, .. } if is_guarded(&started.run, oracle) => {
                let run = started.run.grant.run;
                if !self.open.insert(run) {
                    return Err(format!("{run} started again after a lost attempt"));
                }
            }
            SimEvent::Finished { finish, applied, .. } if *applied != Applied::Stale => {
                let attempt = finish.attempt.as_ref();
                if attempt.is_some_and(|attempt| attempt.result.end != AttemptEnd::Lost) {
                    self.open.remove(&finish.grant.run);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
