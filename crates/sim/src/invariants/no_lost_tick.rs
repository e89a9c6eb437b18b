//! Every nominal time of an enabled job is covered by a row: a live run, a run that ended, or a
//! range. Rows for times that are not due are wrong as well, and so is a planner that does not
//! catch up.

use std::collections::BTreeSet;

use domain::id::RunId;
use domain::job::JobState;
use jiff::SignedDuration;
use store::RunView;

use super::{Held, Invariant};
use crate::event::SimEvent;
use crate::ledger::{Coverage, Ledger, is_gap};
use crate::oracle::{Expected, Oracle, Stretch};

#[derive(Default)]
pub struct NoLostTick {
    /// Runs that began or were cancelled before their job was changed may stand for times that are
    /// no longer due.
    touched: BTreeSet<RunId>,
}

impl Invariant for NoLostTick {
    fn name(&self) -> &'static str {
        "no lost tick"
    }

    fn see(&mut self, event: &SimEvent, _oracle: &Oracle) -> Held {
        match event {
            SimEvent::Started { started, .. } => self.touched.insert(started.run.run.id),
            SimEvent::Cancelled { run, .. } => self.touched.insert(*run),
            _ => false,
        };
        Ok(())
    }

    fn check(&mut self, ledger: &Ledger, oracle: &Oracle, settled: bool) -> Held {
        for (id, expected) in oracle.jobs() {
            let name = &expected.job.name;
            let coverage = Coverage::of(ledger, expected);
            let kept = |at: &jiff::Timestamp| *at > ledger.kept_since;
            if let Some(((at, _), _)) =
                coverage.due.iter().find(|((at, _), covers)| **covers == 0 && kept(at))
            {
                return Err(format!("job {name}: nothing stands for {at}"));
            }
            if let Some(row) =
                coverage.unexpected.iter().find(|row| !self.touched.contains(&row.id))
            {
                return Err(format!("job {name}: unexpected row {row:?}"));
            }
            gaps(ledger, expected)?;
            let (job, _) = &ledger.jobs[id];
            let state = job.as_ref().map_or(JobState::Deleted, |job| job.state);
            if expected.job.state == JobState::Enabled && state != JobState::Enabled {
                return Err(format!("job {name} should be enabled and is {state:?}"));
            }
            let next = job.as_ref().and_then(|job| job.next_run);
            if settled && state == JobState::Enabled && next.is_some_and(|at| at < ledger.now) {
                return Err(format!("job {name}: {next:?} is not planned"));
            }
        }
        Ok(())
    }
}

/// Local times that never happened have a row, too.
fn gaps(ledger: &Ledger, expected: &Expected) -> Held {
    let (job, runs) = &ledger.jobs[&expected.job.id];
    let rows: Vec<&RunView> = runs.iter().filter(|row| is_gap(row)).collect();
    let planned_before = job.as_ref().and_then(|job| job.next_run);
    for stretch in &expected.stretches {
        let until = match (stretch.until, planned_before) {
            (Some(until), _) => until,
            (None, Some(next)) => next,
            (None, None) => continue,
        };
        for gap in stretch.schedule.skipped(stretch.after, until) {
            let recorded = rows
                .iter()
                .any(|row| row.scheduled_for == gap.transition && row.count == gap.count);
            if !recorded
                && gap.transition > ledger.kept_since
                && is_certain(expected, stretch, gap.transition, until)
            {
                return Err(format!("job {}: no row for {gap:?}", expected.job.name));
            }
        }
    }
    Ok(())
}

/// Whether the times around a gap were planned and the job was not changed in between.
fn is_certain(
    expected: &Expected,
    stretch: &Stretch,
    gap: jiff::Timestamp,
    until: jiff::Timestamp,
) -> bool {
    let Some(next) = stretch.schedule.next(gap) else { return false };
    let quiet = expected.changes.iter().all(|at| *at <= stretch.after || *at < gap);
    next < until - SignedDuration::from_nanos(1) && quiet && stretch.paused_at.is_none()
}
