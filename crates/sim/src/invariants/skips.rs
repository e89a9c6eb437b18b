//! On a machine that is alone no tick is skipped for a run that has not begun.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{JobId, RunId};
use domain::run::{AttemptEnd, ReasonCode};
use store::{Applied, Verdict};

use super::{Held, Invariant};
use crate::event::Event;
use crate::oracle::Oracle;
use crate::profile::Profile;

pub struct Skips {
    is_alone: bool,
    /// Runs that have begun or may have.
    begun: BTreeSet<RunId>,
    /// The job of each claim, by fence.
    jobs: BTreeMap<i64, JobId>,
}

impl Skips {
    pub fn new(profile: &Profile) -> Self {
        let is_alone = profile.machines == 1;
        Skips { is_alone, begun: BTreeSet::new(), jobs: BTreeMap::new() }
    }

    /// Whether runs of the job of a claim are divided: such a run does not begin itself.
    fn is_divided(&self, fence: i64, oracle: &Oracle) -> bool {
        let job = self.jobs.get(&fence).and_then(|job| oracle.job(*job));
        job.is_none_or(|job| job.definitions.values().any(|it| it.partition.is_some()))
    }
}

impl Invariant for Skips {
    fn name(&self) -> &'static str {
        "skips have a reason"
    }

    fn see(&mut self, event: &Event, oracle: &Oracle) -> Held {
        match event {
            Event::Claimed { run, .. } => {
                self.jobs.insert(run.grant.fence, run.run.job);
            }
            Event::Started { started, .. } => {
                self.begun.insert(started.run.run.id);
            }
            Event::Finished { finish, applied, .. } if *applied != Applied::Stale => {
                let is_lost = |end| end == AttemptEnd::Lost;
                if finish.attempt.as_ref().is_some_and(|it| is_lost(it.result.end)) {
                    self.begun.insert(finish.grant.run);
                }
                let Verdict::End { reason: Some(reason), .. } = &finish.verdict else {
                    return Ok(());
                };
                let blocker = reason.text.split_whitespace().nth(1).and_then(|id| id.parse().ok());
                let Some(blocker) = blocker.map(RunId) else { return Ok(()) };
                let is_skip = self.is_alone && reason.code == ReasonCode::Overlap;
                let is_known = self.begun.contains(&blocker);
                if is_skip && !is_known && !self.is_divided(finish.grant.fence, oracle) {
                    return Err(format!("{finish:?} for a run that has not begun"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
