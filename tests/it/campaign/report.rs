//! The counts of a campaign as plain text, one a line, and what fails it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

use super::evidence::{Evidence, Violations};
use super::stage::StoreKind;
use super::{catch_up, ledgers, starts};

const SKIPS: &str = "OVERLAP skips with nothing running";

/// Promises that no campaign may find broken, on either store.
const PROMISES: [&str; 10] = [
    "lost",
    "doubled",
    "stale",
    "early",
    "completed without a call",
    "overlapping calls",
    "at-most-once",
    "fence inversions",
    "edits",
    "pauses",
];

pub struct Report {
    /// One line a count.
    pub text: String,
    /// Failures of the campaign.
    pub broken: Vec<String>,
}

/// Compares the two ledgers.
pub fn report(evidence: &Evidence) -> Report {
    let mut found = Violations::default();
    ledgers::check(evidence, &mut found);
    starts::check(evidence, &mut found);
    let caught_up = catch_up::check(evidence, &mut found);
    let mut broken = found.of(&PROMISES);
    broken.extend(found.of(&[catch_up::DIFFERS]));
    if evidence.kind == StoreKind::Sqlite {
        broken.extend(found.of(&[SKIPS]));
    }

    let mut text = String::new();
    let jobs = &evidence.jobs;
    let _ = writeln!(text, "ticks {}", jobs.iter().map(|job| job.ticks.len()).sum::<usize>());
    let _ = writeln!(text, "calls {}", jobs.iter().map(|job| job.calls.len()).sum::<usize>());
    let refused = jobs.iter().flat_map(|job| &job.calls).filter(|call| call.is_refused).count();
    let _ = writeln!(text, "calls refused by their fencing token {refused}");
    write_faults(&mut text, evidence);
    for promise in ["lost", "doubled", "stale", "early"] {
        let _ = writeln!(text, "{promise} {} goal 0", found.count(promise));
    }
    let without = "completed without a call";
    let _ = writeln!(text, "{without} {} goal 0", found.count(without));
    let skips = jobs.iter().flat_map(|job| &job.rows).filter(|row| row.reason == "OVERLAP");
    let goal = if evidence.kind == StoreKind::Sqlite { " goal 0" } else { "" };
    let _ = writeln!(text, "OVERLAP skips {}", skips.count());
    let _ = writeln!(text, "{SKIPS} {}{goal}", found.count(SKIPS));
    let _ = writeln!(text, "overlapping calls {} goal 0", found.count("overlapping calls"));
    write_lines(&mut text, evidence);
    for ((cause, policy), count) in &caught_up {
        let _ = writeln!(
            text,
            "catch-up {policy} after {cause}: missed {} expected {} measured {}",
            count.missed, count.expected, count.measured
        );
    }
    let _ = writeln!(text, "{} {} goal 0", catch_up::DIFFERS, found.count(catch_up::DIFFERS));
    let at_most_once = found.count("at-most-once");
    let _ = writeln!(text, "at-most-once violations {at_most_once} goal 0");
    let _ = writeln!(text, "fence inversions {} goal 0", found.count("fence inversions"));
    write_changes(&mut text, evidence, &found);
    let (called, all) = catch_up::innocent_share(evidence);
    let share = if all == 0 { 1.0 } else { called as f64 / all as f64 };
    let _ = writeln!(text, "innocent jobs' share {share:.3} ({called} of {all} ticks within 1 s)");
    write_recovery(&mut text, &evidence.recoveries);
    Report { text, broken }
}

fn write_faults(text: &mut String, evidence: &Evidence) {
    let mut faults: BTreeMap<String, usize> = BTreeMap::new();
    for strike in &evidence.strikes {
        *faults.entry(format!("{:?}", strike.fault)).or_default() += 1;
    }
    let each: Vec<String> =
        faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
    let _ = writeln!(text, "faults {} ({})", evidence.strikes.len(), each.join(", "));
    let unexplained = evidence.outages().filter(|outage| outage.sure.is_none()).count();
    let _ =
        writeln!(text, "times in which every node lost its lease without being down {unexplained}");
}

/// The time from the end of a call to the arrival of the next one of a `QUEUE` job that was due
/// before that end, outside of faults.
fn write_lines(text: &mut String, evidence: &Evidence) {
    let mut gaps = Vec::new();
    for job in evidence.jobs.iter().filter(|job| job.job.overlap == "QUEUE") {
        for two in job.calls.windows(2) {
            let Some(ended) = two[0].ended.filter(|ended| *ended > two[1].tick) else { continue };
            let is_hit = evidence
                .strikes
                .iter()
                .any(|strike| strike.mended >= two[0].arrived && strike.began <= two[1].arrived);
            if !is_hit && two[1].arrived > ended {
                gaps.push(two[1].arrived.duration_since(ended).as_millis());
            }
        }
    }
    gaps.sort_unstable();
    let at = |index: usize| gaps.get(index).copied().unwrap_or(0);
    let (p50, max) = (at(gaps.len() / 2), gaps.last().copied().unwrap_or(0));
    let count = gaps.len();
    let _ = writeln!(
        text,
        "starts from a line {count}, after the end before p50 {p50} ms, max {max} ms"
    );
}

fn write_changes(text: &mut String, evidence: &Evidence, found: &Violations) {
    let changes = &evidence.changes;
    let (edits, pauses) = (changes.edits.len(), changes.pauses.len());
    let _ = writeln!(text, "edits {edits} obeyed {}", edits - found.count("edits"));
    let _ = writeln!(text, "pauses {pauses} obeyed {}", pauses - found.count("pauses"));
    let latest = changes.pauses.iter().filter_map(|pause| {
        let job = evidence.jobs.iter().find(|job| job.job.name == pause.job)?;
        starts::latest_after_pause(job, pause)
    });
    let latest = latest.max().unwrap_or(SignedDuration::ZERO).as_millis();
    let _ = writeln!(text, "latest call after a pause {latest} ms");
    let _ = writeln!(text, "runs by hand {}", changes.triggered.len());
}

fn write_recovery(text: &mut String, recoveries: &[Duration]) {
    let mut recoveries = recoveries.to_vec();
    recoveries.sort();
    if let (Some(middle), Some(max)) = (recoveries.get(recoveries.len() / 2), recoveries.last()) {
        let _ = writeln!(text, "recovery p50 {} ms", middle.as_millis());
        let _ = writeln!(text, "recovery max {} ms", max.as_millis());
    }
}
