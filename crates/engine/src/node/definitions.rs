//! Jobs that were read a moment ago, so that a thousand runs of one job read it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::JobId;
use domain::job::Job;
use jiff::Timestamp;
use store::Store;

use super::DEFINITION_TTL;

/// Enough for every job of a busy minute; beyond that, all are forgotten and read again.
const REMEMBERED_MAX: usize = 50_000;

#[derive(Default)]
pub(super) struct Definitions {
    jobs: Mutex<HashMap<JobId, (Arc<Job>, Timestamp)>>,
}

impl Definitions {
    pub(super) fn get(&self, id: JobId) -> Option<Arc<Job>> {
        self.jobs().get(&id).map(|(job, _)| Arc::clone(job))
    }

    pub(super) fn forget(&self, id: JobId) {
        self.jobs().remove(&id);
    }

    /// Reads the jobs that are not remembered, or in an older version, or for too long.
    pub(super) async fn load<S: Store>(
        &self,
        store: &S,
        wanted: &[(JobId, u32)],
        now: Timestamp,
    ) -> store::Result<()> {
        let fresh = |(job, read_at): &(Arc<Job>, Timestamp), version: u32| {
            job.version >= version && now.duration_since(*read_at) <= DEFINITION_TTL
        };
        let mut missing: Vec<JobId> = {
            let jobs = self.jobs();
            let known =
                |id: &JobId, version: u32| jobs.get(id).is_some_and(|entry| fresh(entry, version));
            wanted.iter().filter(|(id, version)| !known(id, *version)).map(|(id, _)| *id).collect()
        };
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let read = store.jobs_by_id(&missing).await?;
        let mut jobs = self.jobs();
        if jobs.len() + read.len() > REMEMBERED_MAX {
            jobs.clear();
        }
        for id in missing {
            jobs.remove(&id);
        }
        jobs.extend(read.into_iter().map(|job| (job.id, (Arc::new(job), now))));
        Ok(())
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, (Arc<Job>, Timestamp)>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
