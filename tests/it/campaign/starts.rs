//! Whether each start followed what was true at its moment: fencing tokens, edits, pauses, and
//! other runs of the job.

use jiff::{SignedDuration, Timestamp};

use super::changes::Pause;
use super::endpoint::Call;
use super::evidence::{Evidence, JobEvidence, Violations};
use super::rows::Row;

/// How long a decision about a start is good.
const DECIDED_FOR: SignedDuration = SignedDuration::from_millis(50);

/// The longest way of a call from its decision to the endpoint, on a machine that is busy with
/// other things. The server's own times of its decisions are trusted up to this much.
const ON_THE_WAY: SignedDuration = SignedDuration::from_secs(3);

/// The time from an answer of the endpoint until the server knows of it.
const HEARD: SignedDuration = SignedDuration::from_millis(250);

/// How exactly a node knows the clock of its database.
const CLOCK: SignedDuration = SignedDuration::from_millis(20);

pub fn check(evidence: &Evidence, found: &mut Violations) {
    for job in &evidence.jobs {
        check_fences(job, found);
        check_edits(evidence, job, found);
        check_pauses(evidence, job, found);
        check_overlap(job, found);
        let skips = job.rows.iter().filter(|row| row.reason == "OVERLAP");
        for row in skips.filter(|row| !had_begun(job, row)) {
            found.add("OVERLAP skips with nothing running", describe_skip(job, row));
        }
    }
}

/// A start that is decided after another call of the job has ended has the larger token, and so
/// has each attempt of a run beside the one before.
fn check_fences(job: &JobEvidence, found: &mut Violations) {
    for call in job.calls.iter().filter(|call| !job.is_lost(call)) {
        let decided = match job.row(&call.run).and_then(|row| row.decided_at(call.attempt)) {
            Some(decided) => decided.min(call.arrived),
            // Runs of a serial job begin after the end of the one before.
            None if job.job.is_serial() => call.arrived,
            None => continue,
        };
        let comes_before = |other: &&Call| {
            let is_attempt_before = other.run == call.run && other.attempt < call.attempt;
            is_attempt_before || other.ended.is_some_and(|ended| ended + CLOCK < decided)
        };
        let before = job.calls.iter().filter(comes_before).max_by_key(|other| other.fence);
        if let Some(before) = before.filter(|before| before.fence >= call.fence) {
            found.add("fence inversions", format!("{call:?} after {before:?}"));
        }
    }
}

/// Whether a call came so late after an acknowledged change that the change must have been known.
fn is_after(evidence: &Evidence, job: &JobEvidence, call: &Call, acked: Timestamp) -> bool {
    let slept = evidence.strikes.iter().any(|it| it.mended > acked && it.began < call.arrived);
    job.decided_at(call) > acked + DECIDED_FOR || !slept && call.arrived > acked + ON_THE_WAY
}

fn check_edits(evidence: &Evidence, job: &JobEvidence, found: &mut Violations) {
    for edit in evidence.changes.edits.iter().filter(|edit| edit.job == job.job.name) {
        let disobeys =
            |call: &&Call| call.version < edit.version && is_after(evidence, job, call, edit.acked);
        if let Some(call) = job.calls.iter().find(disobeys) {
            let decided = job.decided_at(call);
            found.add("edits", format!("{edit:?}: decided at {decided}: {call:?}"));
        }
    }
}

fn check_pauses(evidence: &Evidence, job: &JobEvidence, found: &mut Violations) {
    for pause in evidence.changes.pauses.iter().filter(|pause| pause.job == job.job.name) {
        let resumed = pause.resumed.map_or(Timestamp::MAX, |(sent, _)| sent);
        let disobeys =
            |call: &&Call| call.arrived < resumed && is_after(evidence, job, call, pause.acked);
        if let Some(call) = job.calls.iter().find(disobeys) {
            let decided = job.decided_at(call);
            found.add("pauses", format!("{pause:?}: decided at {decided}: {call:?}"));
        }
    }
}

/// Two runs of a job that skips or queues are never called at the same time. An attempt that the
/// server gave up may still be there.
fn check_overlap(job: &JobEvidence, found: &mut Violations) {
    if !job.job.is_serial() {
        return;
    }
    let kept: Vec<&Call> = job.calls.iter().filter(|call| !job.is_lost(call)).collect();
    for two in kept.windows(2) {
        let is_at_work = two[0].ended.is_none_or(|ended| ended > two[1].arrived);
        if is_at_work && two[0].run != two[1].run {
            found.add("overlapping calls", format!("{:?} and {:?}", two[0], two[1]));
        }
    }
}

/// Whether the run for which a tick was skipped had begun and had not ended at some moment between
/// the tick and the record of the skip. The server may learn of an end a little later than the
/// endpoint, and later still according to its own record.
fn had_begun(job: &JobEvidence, skipped: &Row) -> bool {
    let Some(blocker) = blocker(job, skipped) else { return false };
    let recorded = skipped.completed_at.unwrap_or(skipped.first);
    let calls: Vec<&Call> = job.calls_of(&blocker.id).collect();
    let arrived = calls.iter().map(|call| call.arrived);
    let attempts = blocker.attempts.iter().map(|attempt| attempt.started_at);
    let begun = arrived.chain(attempts).chain(blocker.started_at).min();
    let was_called = !calls.is_empty() || blocker.lost > 0;
    let ended = calls.iter().map(|call| call.ended.unwrap_or(Timestamp::MAX)).max();
    let ended_within = |heard: SignedDuration| {
        let limit = skipped.first - heard;
        ended.is_none_or(|ended| ended >= limit)
    };
    let is_open = blocker.completed_at.is_none_or(|completed| completed >= skipped.first);
    was_called
        && begun.is_some_and(|begun| begun <= recorded)
        && (ended_within(HEARD) || is_open && ended_within(ON_THE_WAY))
}

/// The run that a skipped tick names.
fn blocker<'a>(job: &'a JobEvidence, skipped: &Row) -> Option<&'a Row> {
    let id = skipped.text.split_whitespace().nth(1)?;
    job.row(id)
}

fn describe_skip(job: &JobEvidence, row: &Row) -> String {
    let blocker = blocker(job, row);
    let calls: Vec<&Call> =
        blocker.map(|blocker| job.calls_of(&blocker.id).collect()).unwrap_or_default();
    format!("{}: {row:?}\n    for {blocker:?}\n    with {calls:?}", job.job.name)
}

/// The longest time from the acknowledgement of a pause to a call of the job.
pub fn latest_after_pause(job: &JobEvidence, pause: &Pause) -> Option<SignedDuration> {
    let resumed = pause.resumed.map_or(Timestamp::MAX, |(sent, _)| sent);
    let late = job.calls.iter().filter(|call| call.arrived > pause.acked && call.arrived < resumed);
    late.map(|call| call.arrived.duration_since(pause.acked)).max()
}
