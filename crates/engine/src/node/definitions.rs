//! Jobs that were read a moment ago, so that a thousand runs of one job read it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::JobId;
use domain::job::Job;
use jiff::{SignedDuration, Timestamp};
use store::Store;

use super::DEFINITION_TTL;

/// Enough for every job of a busy minute; beyond that, all are forgotten and read again.
const REMEMBERED_MAX: usize = 50_000;

pub(super) struct Definitions {
    /// The longest that an attempt may take, whatever its job says.
    timeout_max: Option<SignedDuration>,
    jobs: Mutex<HashMap<JobId, (Arc<Job>, Timestamp)>>,
}

impl Definitions {
    pub(super) fn new(timeout_max: Option<SignedDuration>) -> Self {
        Definitions { timeout_max, jobs: Mutex::default() }
    }

    pub(super) fn forget(&self, id: JobId) {
        self.jobs().remove(&id);
    }

    /// The jobs with these ids, those that exist. What is not remembered, or in an older version,
    /// or for too long, is read; what is remembered may be forgotten while that happens, so it is
    /// taken out first.
    pub(super) async fn read<S: Store>(
        &self,
        store: &S,
        wanted: &[(JobId, u32)],
        now: Timestamp,
    ) -> store::Result<HashMap<JobId, Arc<Job>>> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        {
            let jobs = self.jobs();
            for (id, version) in wanted {
                match jobs.get(id) {
                    Some((job, read_at))
                        if job.version >= *version
                            && now.duration_since(*read_at) <= DEFINITION_TTL =>
                    {
                        found.entry(*id).or_insert_with(|| Arc::clone(job));
                    }
                    _ => missing.push(*id),
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(found);
        }
        let read = store.jobs_by_id(&missing).await?;
        let mut jobs = self.jobs();
        if jobs.len() + read.len() > REMEMBERED_MAX {
            jobs.clear();
        }
        for id in missing {
            jobs.remove(&id);
        }
        for mut job in read {
            if let Some(most) = self.timeout_max {
                job.definition.timeout = job.definition.timeout.min(most);
            }
            let (id, job) = (job.id, Arc::new(job));
            jobs.insert(id, (Arc::clone(&job), now));
            found.insert(id, job);
        }
        Ok(found)
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, (Arc<Job>, Timestamp)>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
