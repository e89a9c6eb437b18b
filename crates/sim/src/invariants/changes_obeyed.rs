//! A start follows the definition that was acknowledged before it was decided, and no tick starts
//! after an acknowledged pause.

use std::collections::BTreeMap;

use domain::id::JobId;
use domain::job::JobState;
use jiff::Timestamp;

use super::{DECISION_AGE, Held, Invariant};
use crate::event::SimEvent;
use crate::oracle::Oracle;

#[derive(Default)]
pub struct ChangesObeyed {
    /// The changes of each job, oldest first: when, which version, and the state after it.
    changes: BTreeMap<JobId, Vec<(Timestamp, u32, JobState)>>,
}

impl Invariant for ChangesObeyed {
    fn name(&self) -> &'static str {
        "changes obeyed"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Defined { at, job } => {
                self.changes.entry(job.id).or_default().push((*at, job.version, job.state));
            }
            // How long ago the changes were is not known any more.
            SimEvent::ClockSet => self.changes.clear(),
            SimEvent::Started { at, started, .. } => {
                let (run, job) = (&started.run, &started.job);
                // A part and a step follow the version that their run follows.
                if run.run.origin.is_child() {
                    return Ok(());
                }
                let Some(changes) = self.changes.get(&run.run.job) else { return Ok(()) };
                let before = *at - DECISION_AGE;
                let old = changes.iter().rev().find(|(at, ..)| *at < before);
                let Some((changed_at, version, _)) = old else { return Ok(()) };
                if job.version < *version {
                    return Err(format!(
                        "{run:?} started at {at} by version {}, after version {version} of {changed_at}",
                        job.version
                    ));
                }
                let since = changes.iter().filter(|(_, known, _)| known >= version);
                let is_off = since.clone().all(|(.., state)| *state != JobState::Enabled);
                let is_first = run.attempts + run.lost == 0;
                if run.run.origin.is_tick() && is_first && is_off {
                    return Err(format!("{run:?} started at {at}, after a pause of {changed_at}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
