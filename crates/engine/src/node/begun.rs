//! How many runs of each job are under way on a node.
//!
//! A count is a value that lives as long as its run is under way: whatever ends the run drops it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::JobId;
use domain::run::NewRun;

type Counts = Arc<Mutex<HashMap<JobId, u32>>>;

/// The runs that are under way, by job.
#[derive(Clone, Default)]
pub(super) struct BegunCounts(Counts);

/// One run that is under way.
pub(super) struct Counted {
    job: JobId,
    counts: Counts,
}

impl BegunCounts {
    /// Counts another run, as long as the answer lives. A part counts with the run that it is of.
    pub(super) fn count(&self, run: &NewRun) -> Option<Counted> {
        if run.id.is_part() {
            return None;
        }
        let job = run.job;
        *lock(&self.0).entry(job).or_default() += 1;
        Some(Counted { job, counts: Arc::clone(&self.0) })
    }

    /// How many runs of a job are under way.
    pub(super) fn of(&self, job: JobId) -> u32 {
        lock(&self.0).get(&job).copied().unwrap_or(0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.job) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.job);
            }
        }
    }
}

fn lock(counts: &Counts) -> MutexGuard<'_, HashMap<JobId, u32>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use domain::cluster::Placement;
    use domain::id::{RunId, TenantId};
    use domain::run::Origin;
    use domain::slot::SlotKind;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn run(job: JobId) -> NewRun {
        let at = Timestamp::UNIX_EPOCH;
        NewRun {
            id: RunId::of_tick(job, at, ""),
            job,
            tenant: TenantId::DEFAULT,
            job_version: 1,
            scheduled_for: at,
            shard: String::new(),
            due_at: at,
            priority: 5,
            origin: Origin::Schedule,
            coalesced: 0,
            ignore_dependencies: false,
            parameters: None,
            place: Placement::default(),
            slot: SlotKind::Process,
            requested_by: None,
        }
    }

    #[test]
    fn runs_are_counted_until_they_are_dropped() {
        let counts = BegunCounts::default();
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let first = counts.count(&run(one));
        let second = counts.count(&run(one));
        let _third = counts.count(&run(other));
        assert_eq!((counts.of(one), counts.of(other)), (2, 1));
        drop(first);
        assert_eq!(counts.of(one), 1);
        drop(second);
        assert_eq!((counts.of(one), counts.0.lock().unwrap().len()), (0, 1));
    }
}
