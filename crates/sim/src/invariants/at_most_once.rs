//! A run of a job with `ON LOST FAIL` is not begun again after it was lost, and a run that is given
//! up because its nodes were lost has begun that often.

use std::collections::BTreeMap;

use domain::decide::settle::LOST_MAX;
use domain::id::{JobId, RunId};
use domain::job::OnLost;
use domain::run::ReasonCode;
use store::{Applied, Verdict};

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct AtMostOnce {
    /// The attempts that each run began, lost ones included, and its job.
    starts: BTreeMap<RunId, (JobId, Vec<u32>)>,
}

/// What a job does with a lost run, if it was never changed.
fn on_lost(oracle: &Oracle, job: JobId) -> Option<OnLost> {
    let mut policies = oracle.job(job)?.definitions.values().map(|it| it.on_lost);
    let first = policies.next()?;
    policies.all(|policy| policy == first).then_some(first)
}

impl Invariant for AtMostOnce {
    fn name(&self) -> &'static str {
        "at most once"
    }

    fn see(&mut self, event: &Event, oracle: &Oracle) -> Held {
        match event {
            // The question for the rows by which a run is divided does no work.
            Event::Started { started, .. } if !started.asks_rows => {
                let run = &started.run;
                let starts = self.starts.entry(run.run.id);
                let starts = starts.or_insert_with(|| (run.run.job, Vec::new()));
                if on_lost(oracle, run.run.job) == Some(OnLost::Fail)
                    && (run.lost > 0 || starts.1.contains(&run.attempts))
                {
                    return Err(format!("{run:?} begins after {:?}", starts.1));
                }
                starts.1.push(run.attempts);
            }
            Event::Finished { finish, applied: Applied::Ended(_), .. } => {
                let starts = self.starts.remove(&finish.grant.run);
                let Verdict::End { reason: Some(reason), .. } = &finish.verdict else {
                    return Ok(());
                };
                let (job, count) = starts.map_or((None, 0), |it| (Some(it.0), it.1.len()));
                let is_retried = job.is_some_and(|job| on_lost(oracle, job) == Some(OnLost::Retry));
                let is_lost = reason.code == ReasonCode::Lost;
                if is_lost && is_retried && count < LOST_MAX as usize {
                    return Err(format!("{} was given up after {count} starts", finish.grant.run));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
