//! Ended claims, kept for a tracer until the store has recorded them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::{JobId, NodeId};
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun};
use jiff::Timestamp;
use store::{Applied, Finish};

use crate::tracer::{Planned, Settled, Tracer};

/// Claims that have ended here, by fence. Empty without a tracer.
pub(crate) struct Traces {
    tracer: Option<Arc<dyn Tracer>>,
    ended: Mutex<HashMap<i64, Ended>>,
}

/// A claim that has ended.
pub(super) struct Ended {
    pub run: Arc<ClaimedRun>,
    pub job: Arc<Job>,
    pub node: NodeId,
    pub claimed_at: Option<Timestamp>,
    pub decided_at: Timestamp,
}

impl Traces {
    pub fn new(tracer: Option<Arc<dyn Tracer>>) -> Self {
        Traces { tracer, ended: Mutex::default() }
    }

    /// Whether a tracer is set.
    pub fn is_on(&self) -> bool {
        self.tracer.is_some()
    }

    /// Runs were recorded.
    pub fn planned<'a>(
        &self,
        runs: impl Iterator<Item = &'a NewRun>,
        names: &HashMap<JobId, &str>,
        node: NodeId,
        began_at: Timestamp,
        recorded_at: Timestamp,
    ) {
        let Some(tracer) = &self.tracer else { return };
        for run in runs {
            let job_name = names.get(&run.job).copied();
            tracer.planned(Planned { run, job_name, node, began_at, recorded_at });
        }
    }

    /// A claim has ended; the store has not recorded it yet.
    pub fn ended(&self, ended: impl FnOnce() -> Ended) {
        if self.is_on() {
            let ended = ended();
            self.open().insert(ended.run.grant.fence, ended);
        }
    }

    /// The store has answered.
    pub fn settled(&self, finish: &Finish, applied: Applied, settled_at: Timestamp) {
        if self.is_on()
            && let Some(ended) = self.open().remove(&finish.grant.fence)
        {
            self.tell(&ended, finish, applied, settled_at);
        }
    }

    /// Reports the end of a claim of another node.
    pub fn tell(&self, ended: &Ended, finish: &Finish, applied: Applied, settled_at: Timestamp) {
        let Some(tracer) = self.tracer.as_ref().filter(|_| applied != Applied::Stale) else {
            return;
        };
        let Ended { run, job, node, claimed_at, decided_at } = ended;
        let (node, claimed_at, decided_at) = (*node, *claimed_at, *decided_at);
        tracer.settled(Settled {
            run,
            job,
            node,
            claimed_at,
            decided_at,
            finish,
            applied,
            settled_at,
        });
    }

    /// The lease was lost: nothing that ended here counts.
    pub fn forget(&self) {
        self.open().clear();
    }

    fn open(&self) -> MutexGuard<'_, HashMap<i64, Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
