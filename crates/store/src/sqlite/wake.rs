//! Who goes on when a run has ended: the next in line of its job, and the jobs that depend on it.
//!
//! A run decides to wait by what its holder saw; what it waits for may happen before the decision
//! arrives, and nobody would wake it then. So every end leaves the number of the latest fence
//! behind: a wait under an older grant may have missed it, and looks again instead.

use std::collections::BTreeMap;

use domain::id::JobId;
use domain::run::{Outcome, Wait};
use uuid::Uuid;

use super::writer::Tx;
use crate::Result;

/// Jobs whose runs made room, and what their last ends were.
#[derive(Default)]
pub(super) struct Freed {
    jobs: BTreeMap<JobId, Room>,
}

#[derive(Default)]
struct Room {
    places: u32,
    last: Option<(i64, Outcome)>,
    succeeded_at: Option<i64>,
}

impl Freed {
    /// A run has ended.
    pub fn ended(&mut self, job: JobId, outcome: Outcome, finished_at: i64) {
        let room = self.jobs.entry(job).or_default();
        room.places += 1;
        if matches!(outcome, Outcome::Skipped | Outcome::Missed) {
            return;
        }
        room.last = room.last.max(Some((finished_at, outcome)));
        if outcome == Outcome::Completed {
            room.succeeded_at = room.succeeded_at.max(Some(finished_at));
        }
    }

    /// A run waits for other jobs and stands in nobody's way.
    pub fn stepped_aside(&mut self, job: JobId) {
        self.jobs.entry(job).or_default().places += 1;
    }

    /// Wakes whoever waited for this.
    pub fn wake(self, tx: &mut Tx<'_>) -> Result<()> {
        for (job, room) in self.jobs {
            tx.note_end(job);
            tx.connection
                .prepare_cached(sql!("run_wake_overlap"))?
                .execute((job.0, room.places))?;
            let Some((finished_at, outcome)) = room.last else { continue };
            if !tx.connection.prepare_cached(sql!("upstream_known"))?.exists((job.0,))? {
                continue;
            }
            tx.connection.prepare_cached(sql!("last_end_record"))?.execute((
                job.0,
                outcome as u8,
                finished_at,
                room.succeeded_at,
            ))?;
            tx.connection
                .prepare_cached(sql!("run_wake_upstream"))?
                .execute((job.0, tx.order()))?;
            tx.connection.prepare_cached(sql!("job_wake_after"))?.execute((job.0, tx.now_us()))?;
        }
        Ok(())
    }
}

/// Whether what a run of the job waits for may have happened since its grant, or the job may have
/// changed.
pub(super) fn is_over(tx: &Tx<'_>, wait: Wait, job: JobId, fence: i64) -> Result<bool> {
    if tx.changed_since(job, fence) {
        return Ok(true);
    }
    if wait == Wait::Overlap {
        return Ok(tx.ended_since(job, fence));
    }
    let mut query = tx.connection.prepare_cached(sql!("upstream_of_job"))?;
    let mut rows = query.query((job.0,))?;
    while let Some(row) = rows.next()? {
        if tx.ended_since(JobId(row.get::<_, Uuid>(0)?), fence) {
            return Ok(true);
        }
    }
    Ok(false)
}
