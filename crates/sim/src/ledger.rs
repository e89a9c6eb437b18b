//! The ledger in the store, and its rows for every nominal time.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::JobId;
use domain::job::Job;
use jiff::Timestamp;
use store::{RunFilter, RunView, Store};

use crate::oracle::{Expected, Oracle};

/// Everything that the store has recorded.
pub struct Ledger {
    /// The store's clock.
    pub now: Timestamp,
    /// History that ended before may be gone.
    pub kept_since: Timestamp,
    /// Each job, as far as it is not deleted, and all of its runs and rows.
    pub jobs: BTreeMap<JobId, (Option<Job>, Vec<RunView>)>,
}

impl Ledger {
    /// Reads everything.
    pub async fn read<S: Store>(
        store: &S,
        oracle: &Oracle,
        now: Timestamp,
        kept_since: Timestamp,
    ) -> store::Result<Self> {
        let mut jobs = BTreeMap::new();
        for (id, _) in oracle.jobs() {
            let job = store.jobs_by_id(&[*id]).await?.pop();
            let mut runs = Vec::new();
            let mut before = None;
            loop {
                let page = store.list_runs(&RunFilter::of_job(*id), before, 500).await?;
                runs.extend(page.items);
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            jobs.insert(*id, (job, runs));
        }
        Ok(Ledger { now, kept_since, jobs })
    }
}

/// A nominal time, and which of the job's schedules it belongs to: a range that was counted by one
/// schedule does not cover the times of another.
type Time = (Timestamp, usize);

/// The rows of the ledger for the nominal times of one job.
pub struct Coverage {
    /// Times that must be there, and how many rows stand for each.
    pub due: BTreeMap<Time, usize>,
    /// Times that may be there, and how many rows stand for each.
    pub maybe: BTreeMap<Time, usize>,
    /// Rows for one time each that is not due.
    pub unexpected: Vec<RunView>,
    /// Rows for several times whose count is wrong: the row and the right count.
    pub miscounted: Vec<(RunView, u64)>,
}

impl Coverage {
    /// Compares the ledger with the oracle.
    pub fn of(ledger: &Ledger, expected: &Expected) -> Self {
        let none = (None, Vec::new());
        let (job, runs) = ledger.jobs.get(&expected.job.id).unwrap_or(&none);
        let planned_before = job.as_ref().and_then(|job| job.next_run);
        let count = |times: BTreeSet<Time>| -> BTreeMap<Time, usize> {
            times.into_iter().map(|at| (at, 0)).collect()
        };
        let mut coverage = Coverage {
            due: count(expected.due(planned_before, ledger.now)),
            maybe: count(expected.maybe_due(ledger.now)),
            unexpected: Vec::new(),
            miscounted: Vec::new(),
        };
        coverage.maybe.retain(|at, _| !coverage.due.contains_key(at));
        let ticks = runs.iter().filter(|row| row.origin.is_tick() && !is_gap(row));
        let (early, ticks): (Vec<&RunView>, Vec<&RunView>) = ticks.partition(|row| is_early(row));
        for row in ticks {
            coverage.cover(row, expected.schedule_of(row.job_version));
        }
        for row in early {
            coverage.cover_if_bare(row);
        }
        coverage
    }

    fn cover(&mut self, row: &RunView, schedule: Option<usize>) {
        let range = (row.scheduled_for, 0)..=(row.scheduled_last, usize::MAX);
        let due = self.due.range_mut(range.clone());
        let maybe = self.maybe.range_mut(range);
        let mut found = BTreeSet::new();
        for ((at, of), covers) in due.chain(maybe) {
            if row.count == 1 || schedule == Some(*of) {
                *covers += 1;
                found.insert(*at);
            }
        }
        let right = found.len() as u64;
        if row.count == right {
            return;
        }
        match row.count {
            1 => self.unexpected.push(row.clone()),
            _ => self.miscounted.push((row.clone(), right)),
        }
    }

    /// Something that was decided about a time before it came: it was cancelled, or a clock was
    /// ahead. When the schedule ends and comes back, the time is planned as any other.
    fn cover_if_bare(&mut self, row: &RunView) {
        let range = (row.scheduled_for, 0)..=(row.scheduled_for, usize::MAX);
        for (_, covers) in self.due.range_mut(range.clone()).chain(self.maybe.range_mut(range)) {
            *covers = (*covers).max(1);
        }
    }
}

/// Whether a run ended before its time came.
fn is_early(row: &RunView) -> bool {
    row.finished_at.is_some_and(|at| at < row.scheduled_for)
}

/// Whether a row stands for local times that never happened.
pub fn is_gap(row: &RunView) -> bool {
    row.reason.as_deref() == Some("DST_GAP")
}
