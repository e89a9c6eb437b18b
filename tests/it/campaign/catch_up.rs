//! Catch-up by policy: what should have run for the ticks of outages and pauses, and what did.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::evidence::{Evidence, JobEvidence, Violations};
use super::jobs::Role;

/// Ticks that should have run after they were missed, and ticks that did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaughtUp {
    pub missed: usize,
    pub expected: usize,
    pub measured: usize,
}

/// A time whose ticks were missed: all from `from` to `until`, and perhaps more up to `latest`.
struct Gap {
    from: Timestamp,
    until: Timestamp,
    latest: Timestamp,
}

/// The name of the violation.
pub const DIFFERS: &str = "catch-up differs";

/// Compares every job; answers the counts by policy, for outages and for pauses.
pub fn check(
    evidence: &Evidence,
    found: &mut Violations,
) -> BTreeMap<(&'static str, &'static str), CaughtUp> {
    let mut counts: BTreeMap<_, CaughtUp> = BTreeMap::new();
    for job in &evidence.jobs {
        let (cause, gaps) = match job.job.role {
            Role::Hostile | Role::Manual => continue,
            Role::Paused => ("pause", pauses(evidence, job)),
            _ => ("outage", outages(evidence)),
        };
        let count = counts.entry((cause, job.job.catch_up)).or_default();
        for gap in &gaps {
            check_gap(evidence, job, gap, count, found);
        }
        check_skips(evidence, job, found);
    }
    counts
}

fn outages(evidence: &Evidence) -> Vec<Gap> {
    let sure = evidence.outages().filter_map(|outage| {
        let (from, until) = outage.sure?;
        Some(Gap { from, until, latest: outage.latest })
    });
    sure.collect()
}

fn pauses(evidence: &Evidence, job: &JobEvidence) -> Vec<Gap> {
    let of_job = evidence.changes.pauses.iter().filter(|pause| pause.job == job.job.name);
    let gap = |pause: &super::changes::Pause| {
        let (until, latest) = pause.resumed?;
        Some(Gap { from: pause.acked, until, latest })
    };
    of_job.filter_map(gap).collect()
}

fn check_gap(
    evidence: &Evidence,
    job: &JobEvidence,
    gap: &Gap,
    count: &mut CaughtUp,
    found: &mut Violations,
) {
    let within = |tick: &&Timestamp| {
        gap.from < **tick && **tick <= gap.until && !is_paused_again(evidence, job, gap, **tick)
    };
    let missed: Vec<Timestamp> = job.ticks.iter().filter(within).copied().collect();
    let Some(newest) = missed.last().copied() else { return };
    let ran = |tick: Timestamp| job.call_of_tick(tick).is_some() || may_have_begun(job, tick);
    let mut measured = missed.iter().filter(|tick| ran(**tick)).count();
    let expected = match job.job.catch_up {
        "NONE" => 0,
        "ALL" => missed.len(),
        _ => {
            // The outage may have lasted a little longer, over another tick.
            if !ran(newest) && stood_for(job, newest, gap.latest).is_some_and(ran) {
                measured += 1;
            }
            1
        }
    };
    *count = CaughtUp {
        missed: count.missed + missed.len(),
        expected: count.expected + expected,
        measured: count.measured + measured,
    };
    if measured != expected {
        let rows: Vec<_> = missed
            .iter()
            .map(|tick| {
                let row = job.row_of_tick(*tick);
                let row = row.map(|row| (&row.status, &row.text, row.lost, row.completed_at));
                (tick.to_string(), ran(*tick), row)
            })
            .collect();
        let (name, policy) = (&job.job.name, job.job.catch_up);
        let text = format!(
            "{name} ({policy}), missed from {} to {} (recovered at {}): {expected} expected, \
             {measured} measured: {rows:?}",
            gap.from, gap.until, gap.latest
        );
        found.add(DIFFERS, text);
    }
}

/// Whether a missed tick that was to run did not because its job was paused again before.
fn is_paused_again(evidence: &Evidence, job: &JobEvidence, gap: &Gap, tick: Timestamp) -> bool {
    let Some(row) = job.row_of_tick(tick).filter(|row| row.reason == "JOB_CHANGED") else {
        return false;
    };
    let ended = row.completed_at.unwrap_or(row.first);
    let mut of_job = evidence.changes.pauses.iter().filter(|pause| pause.job == job.job.name);
    of_job.any(|pause| gap.until < pause.sent && pause.sent <= ended)
}

/// Whether a run that happens at most once failed because its start was recorded and its server
/// was killed before the call.
fn may_have_begun(job: &JobEvidence, tick: Timestamp) -> bool {
    let row = job.row_of_tick(tick);
    let is_lost = row.is_some_and(|row| row.status == "FAILED" && row.lost > 0);
    job.job.role == Role::AtMostOnce && is_lost
}

/// The tick whose run stands for another one, as its row says; none if that is no tick after it
/// and before the end of the gap.
fn stood_for(job: &JobEvidence, tick: Timestamp, latest: Timestamp) -> Option<Timestamp> {
    let text = &job.row_of_tick(tick)?.text;
    let named: Timestamp = text.split_whitespace().nth(3)?.parse().ok()?;
    (job.ticks.contains(&named) && tick < named && named <= latest).then_some(named)
}

/// A tick is given up for catch-up only if it was missed.
fn check_skips(evidence: &Evidence, job: &JobEvidence, found: &mut Violations) {
    let pauses = evidence.changes.pauses.iter().filter(|pause| pause.job == job.job.name);
    let pauses = pauses.map(|pause| {
        let end = pause.resumed.map_or(Timestamp::MAX, |(_, acked)| acked);
        (pause.sent, end)
    });
    let outages = evidence.outages().map(|outage| (outage.earliest, outage.latest));
    let gaps: Vec<(Timestamp, Timestamp)> = pauses.chain(outages).collect();
    for row in job.rows.iter().filter(|row| row.reason == "CATCH_UP") {
        let ticks = job.ticks.iter().filter(|tick| row.first <= **tick && **tick <= row.last);
        for tick in ticks {
            let is_missed = gaps.iter().any(|(from, until)| from <= tick && tick <= until);
            if !is_missed {
                let name = &job.job.name;
                found.add(DIFFERS, format!("{name}: {tick} was not missed: {row:?}"));
            }
        }
    }
}

/// The part of the steady jobs' ticks that were called within a second, outside of faults: called
/// and all.
pub fn innocent_share(evidence: &Evidence) -> (usize, usize) {
    let margin = SignedDuration::from_secs(1);
    let faults: Vec<(Timestamp, Timestamp)> = evidence
        .strikes
        .iter()
        .zip(&evidence.recoveries)
        .map(|(strike, recovery)| {
            let recovered = strike.mended + SignedDuration::try_from(*recovery).unwrap();
            (strike.began - margin, recovered + margin)
        })
        .collect();
    let (mut called, mut all) = (0, 0);
    for job in evidence.jobs.iter().filter(|job| job.job.role == Role::Steady) {
        for tick in &job.ticks {
            if faults.iter().any(|(from, until)| from <= tick && tick <= until) {
                continue;
            }
            all += 1;
            let on_time = |call: &super::endpoint::Call| call.arrived <= *tick + margin;
            called += usize::from(job.call_of_tick(*tick).is_some_and(on_time));
        }
    }
    (called, all)
}
