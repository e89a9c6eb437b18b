//! The two ledgers beside each other: every tick has one row, every row of an executed run has its
//! call, and no call is denied.

use std::collections::{BTreeMap, BTreeSet};

use super::endpoint::Call;
use super::evidence::{Evidence, JobEvidence, Violations};
use super::jobs::Role;
use super::rows::Row;

pub fn check(evidence: &Evidence, found: &mut Violations) {
    for job in &evidence.jobs {
        check_ticks(job, found);
        for row in &job.rows {
            check_row(job, row, found);
        }
        check_calls(job, found);
    }
    for (name, run) in &evidence.changes.triggered {
        let job = evidence.jobs.iter().find(|it| it.job.name == *name);
        let row = job.and_then(|job| job.row(run));
        if row.is_none_or(|row| row.status != "COMPLETED") {
            found.add("lost", format!("{name}: run {run} was asked for and acknowledged: {row:?}"));
        }
    }
}

/// Every tick is in exactly one row.
fn check_ticks(job: &JobEvidence, found: &mut Violations) {
    let (name, ticks) = (&job.job.name, &job.ticks);
    let mut rows_of = vec![0; ticks.len()];
    for row in job.rows.iter().filter(|row| row.is_tick) {
        let first = ticks.partition_point(|tick| *tick < row.first);
        let after = ticks.partition_point(|tick| *tick <= row.last);
        if ticks.get(first) != Some(&row.first) || after - first != row.count {
            found.add("doubled", format!("{name}: the schedule has no such ticks: {row:?}"));
        }
        rows_of[first..after].iter_mut().for_each(|rows| *rows += 1);
    }
    for (tick, rows) in ticks.iter().zip(rows_of) {
        match rows {
            0 => found.add("lost", format!("{name}: {tick} has no row")),
            1 => {}
            _ => found.add("doubled", format!("{name}: {tick} has {rows} rows")),
        }
    }
}

/// The outcome of a row is one that its job can have, and the endpoint agrees.
fn check_row(job: &JobEvidence, row: &Row, found: &mut Violations) {
    let name = &job.job.name;
    let calls: Vec<&Call> = job.calls_of(&row.id).collect();
    match row.status.as_str() {
        "COMPLETED" => {
            let with_fence = calls.iter().find(|call| Some(call.fence) == row.fence);
            if with_fence.is_none_or(|call| call.ended.is_none()) {
                found.add("completed without a call", format!("{name}: {row:?}, calls {calls:?}"));
            }
            let largest = calls.iter().map(|call| call.fence).max();
            if calls.len() > 1 && largest != row.fence {
                found.add("stale", format!("{name}: {row:?}, calls {calls:?}"));
            }
        }
        "SKIPPED" if calls.is_empty() || row.lost > 0 => {}
        "SKIPPED" => found.add("doubled", format!("{name}: {row:?} was called: {calls:?}")),
        // A run that was lost three times is not tried again.
        "FAILED" if row.lost >= 3 => {}
        "FAILED" if [Role::AtMostOnce, Role::Hostile].contains(&job.job.role) && row.lost > 0 => {}
        "TIMEOUT" | "RUNNING" | "PENDING" | "QUEUED" if job.job.role == Role::Hostile => {}
        _ => found.add("lost", format!("{name}: {row:?}, calls {calls:?}")),
    }
}

/// Every call belongs to a row, no attempt is made twice, and a run is called again only after an
/// attempt that was lost or failed.
fn check_calls(job: &JobEvidence, found: &mut Violations) {
    let name = &job.job.name;
    let last = job.ticks.last();
    let mut seen = BTreeSet::new();
    let mut of_run: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &job.calls {
        if call.arrived < call.tick {
            found.add("early", format!("{name}: {call:?}"));
        }
        if !seen.insert((&call.run, call.attempt)) {
            found.add("doubled", format!("{name}: the same attempt twice: {call:?}"));
        }
        // Rows were read up to the last tick.
        if job.row(&call.run).is_none() && last.is_some_and(|last| call.tick <= *last) {
            found.add("doubled", format!("{name}: a call without a row: {call:?}"));
        }
        of_run.entry(&call.run).or_default().push(call);
    }
    for (run, calls) in of_run.iter().filter(|(_, calls)| calls.len() > 1) {
        let Some(row) = job.row(run) else { continue };
        if job.job.role == Role::AtMostOnce {
            found.add("at-most-once", format!("{name}: {row:?}, calls {calls:?}"));
        }
        let last = calls.iter().map(|call| call.attempt).max();
        for call in calls.iter().filter(|call| Some(call.attempt) != last) {
            let attempt = row.attempts.iter().find(|it| it.number == call.attempt);
            if attempt.is_none_or(|attempt| attempt.status == "COMPLETED") {
                found.add("doubled", format!("{name}: called again: {row:?}, calls {calls:?}"));
            }
        }
    }
}
