//! A run that has started has a record from then on, whatever happens to its job.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{JobId, RunId};
use jiff::Timestamp;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::ledger::Ledger;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct StartedIsRecorded {
    /// When each run began first, and its job.
    started: BTreeMap<RunId, (JobId, Timestamp)>,
}

impl Invariant for StartedIsRecorded {
    fn name(&self) -> &'static str {
        "started is recorded"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        if let SimEvent::Started { at, started, .. } = event {
            let run = &started.run.run;
            self.started.entry(run.id).or_insert((run.job, *at));
        }
        Ok(())
    }

    fn check(&mut self, ledger: &Ledger, _oracle: &Oracle, _settled: bool) -> Held {
        // History that is old enough, or of a job that was deleted, may be gone.
        self.started.retain(|_, (job, at)| {
            let kept = ledger.jobs.get(job).is_some_and(|(job, _)| job.is_some());
            kept && *at > ledger.kept_since
        });
        let recorded: BTreeSet<RunId> =
            ledger.jobs.values().flat_map(|(_, runs)| runs).map(|run| run.id).collect();
        match self.started.iter().find(|(run, _)| !recorded.contains(run)) {
            Some((run, (job, at))) => Err(format!("run {run} of job {job} began at {at}")),
            None => Ok(()),
        }
    }
}
