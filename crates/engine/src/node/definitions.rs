//! Jobs that were read a moment ago, so that a thousand runs of one job read it once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::JobId;
use domain::job::Job;
use jiff::{SignedDuration, Timestamp};
use store::{CHANGED_JOBS_MAX, Store};

use super::DEFINITION_TTL;

/// Enough for every job of a busy minute; beyond that, all are forgotten and read again.
const REMEMBERED_MAX: usize = 50_000;

pub(super) struct Definitions {
    /// The longest that an attempt may take, whatever its job says.
    timeout_max: Option<SignedDuration>,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    jobs: HashMap<JobId, (Arc<Job>, Timestamp)>,
    /// Grows with every change that was heard of: what was read before it is not remembered.
    changes: u64,
}

impl Definitions {
    pub(super) fn new(timeout_max: Option<SignedDuration>) -> Self {
        Definitions { timeout_max, remembered: Mutex::default() }
    }

    pub(super) fn forget(&self, id: JobId) {
        let mut remembered = self.remembered();
        remembered.jobs.remove(&id);
        remembered.changes += 1;
    }

    /// Forgets what is older than these versions.
    pub(super) fn forget_older(&self, changed: &[(JobId, u32)]) {
        if changed.is_empty() {
            return;
        }
        let mut remembered = self.remembered();
        if changed.len() > CHANGED_JOBS_MAX {
            remembered.jobs.clear();
            remembered.changes += 1;
            return;
        }
        for (id, version) in changed {
            if remembered.jobs.get(id).is_some_and(|(job, _)| job.version < *version) {
                remembered.jobs.remove(id);
                remembered.changes += 1;
            }
        }
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
        let changes = {
            let remembered = self.remembered();
            for (id, version) in wanted {
                match remembered.jobs.get(id) {
                    Some((job, read_at))
                        if job.version >= *version
                            && now.duration_since(*read_at) <= DEFINITION_TTL =>
                    {
                        found.entry(*id).or_insert_with(|| Arc::clone(job));
                    }
                    _ => missing.push(*id),
                }
            }
            remembered.changes
        };
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(found);
        }
        let read = store.jobs_by_id(&missing).await?;
        let mut remembered = self.remembered();
        let is_current = remembered.changes == changes;
        let jobs = &mut remembered.jobs;
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
            if is_current {
                jobs.insert(id, (Arc::clone(&job), now));
            }
            found.insert(id, job);
        }
        Ok(found)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
