//! The end of claims and of runs.

use std::collections::HashSet;
use std::sync::LazyLock;

use domain::audit::AuditedRun;
use domain::id::{JobId, NodeId};
use domain::job::When;
use domain::run::{AttemptEnd, EndedAttempt, Origin, Outcome, Reason, Wait};
use jiff::Timestamp;
use rusqlite::OptionalExtension;
use uuid::Uuid;

use super::audit_log::EndedTogether;
use super::ends::{End, Recorder, RunRef, outcome_of};
use super::holdings::Held;
use super::live::Leaving;
use super::nodes::is_alive;
use super::row::{state_name, us};
use super::versions;
use super::wake::{self, Freed, is_over};
use super::writer::Tx;
use crate::author::SYSTEM;
use crate::jobs::definition_of;
use crate::{Applied, Finish, Result, StoreError, Verdict, policy};

/// Results of ended claims.
#[derive(Default)]
pub(super) struct Finished {
    /// Of each.
    pub applied: Vec<Applied>,
    /// The runs that can be claimed and could not before.
    pub woken: HashSet<Uuid>,
}

/// Ends the claims of a node that may write, and that claims so many runs with the same call.
pub(super) fn finish(
    tx: &mut Tx<'_>,
    node: NodeId,
    done: &[Finish],
    taken_at_once: u32,
) -> Result<Finished> {
    if done.is_empty() {
        return Ok(Finished::default());
    }
    let mut freed = Freed::default();
    let mut applied = Vec::with_capacity(done.len());
    let mut ending = Ending::default();
    for finish in done {
        let Some(held) = tx.holdings().of_grant(node, finish.grant) else {
            // It may have ended a moment ago.
            ending.flush(tx)?;
            applied.push(ended_before(tx, finish)?);
            continue;
        };
        tx.holdings().close(&held);
        applied.push(leave(tx, &mut ending, &held, finish, &mut freed)?);
        keep_output(tx, finish)?;
    }
    ending.flush(tx)?;
    ending.audit.write(tx, node)?;
    let mut woken = ending.woken;
    woken.extend(freed.wake(tx, taken_at_once)?);
    Ok(Finished { applied, woken })
}

/// Keeps the short output of an attempt that is recorded with this.
fn keep_output(tx: &Tx<'_>, finish: &Finish) -> Result<()> {
    let Some(attempt) = &finish.attempt else { return Ok(()) };
    if let Some(output) = &attempt.result.output {
        let values = (finish.grant.run.0, attempt.number, output);
        tx.connection.prepare_cached(sql!("output_insert"))?.execute(values)?;
    }
    Ok(())
}

/// Ends claims of nodes that were declared dead.
pub(super) fn settle_lost(tx: &mut Tx<'_>, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
    let mut applied = Vec::with_capacity(lost.len());
    for (node, finish) in lost {
        if is_alive(tx.connection, *node)? {
            applied.push(Applied::Stale);
        } else {
            applied.extend(self::finish(tx, *node, std::slice::from_ref(finish), 0)?.applied);
        }
    }
    Ok(applied)
}

/// Batch of ends that are written together.
#[derive(Default)]
struct Ending {
    recorder: Recorder,
    leaving: Leaving,
    audit: EndedTogether,
    /// The runs that can be claimed again.
    woken: HashSet<Uuid>,
}

impl Ending {
    /// Writes the collected ends, so that the tables show them.
    fn flush(&mut self, tx: &Tx<'_>) -> Result<()> {
        self.leaving.flush(tx.connection)?;
        self.recorder.flush(tx)
    }
}

/// Applies a verdict to a run that its holder lets go.
fn leave(
    tx: &mut Tx<'_>,
    ending: &mut Ending,
    held: &Held,
    finish: &Finish,
    freed: &mut Freed,
) -> Result<Applied> {
    match &finish.verdict {
        Verdict::End { outcome, reason, dead_letter } => {
            let verdict = (*outcome, reason.as_ref(), *dead_letter);
            end(tx, ending, held, finish, verdict, freed)
        }
        // Its cancellation was requested meanwhile.
        Verdict::Retry { .. } | Verdict::Hold { .. } if held.cancelled => {
            end(tx, ending, held, finish, (Outcome::Cancelled, None, false), freed)
        }
        Verdict::Retry { delay } => {
            let due_at = us(tx.now.saturating_add(*delay).unwrap_or(Timestamp::MAX));
            let (made, lost) = counts(finish);
            let values = (held.seq, held.turn, due_at, held.attempts + made, held.lost + lost);
            guarded(tx.connection.prepare_cached(sql!("run_retry"))?.execute(values)?, held)?;
            tx.connection.prepare_cached(sql!("queue_enter"))?.execute((held.seq,))?;
            if let Some(attempt) = &finish.attempt {
                record_attempt(tx, finish, held.job, attempt)?;
            }
            Ok(Applied::Again)
        }
        Verdict::Hold { timeout } => {
            let until = us(tx.now.saturating_add(*timeout).unwrap_or(Timestamp::MAX));
            let (_, lost) = counts(finish);
            let values = (held.seq, held.turn, until, held.lost + lost);
            guarded(tx.connection.prepare_cached(sql!("run_hold"))?.execute(values)?, held)?;
            if let Some(attempt) = &finish.attempt {
                record_attempt(tx, finish, held.job, attempt)?;
            }
            Ok(Applied::Again)
        }
        Verdict::Wait(wait, until) => {
            if *wait == Wait::Upstream {
                freed.stepped_aside(held.job);
            }
            ending.flush(tx)?;
            begin_to_wait(tx, ending, held, (*wait, *until, 1))
        }
        Verdict::Line { wait, places } => {
            if *wait == Wait::Backfill {
                freed.stepped_aside(held.job);
            }
            ending.flush(tx)?;
            begin_to_wait(tx, ending, held, (*wait, None, i64::from(*places)))
        }
        Verdict::Release => {
            release(tx, held)?;
            Ok(Applied::Again)
        }
    }
}

/// Records the wait of a run. If the awaited event has happened already, the run is queued again at
/// once.
fn begin_to_wait(
    tx: &mut Tx<'_>,
    ending: &mut Ending,
    held: &Held,
    (wait, until, places): (Wait, Option<Timestamp>, i64),
) -> Result<Applied> {
    // A parent run waits for its child runs even after it was cancelled.
    let is_asked = held.cancelled && wait != Wait::Parts;
    if is_asked || is_over(tx, wait, (held.run, held.job), held.fence)? {
        release(tx, held)?;
        ending.woken.insert(held.run.0);
        return Ok(Applied::Again);
    }
    let values = (held.seq, held.turn, wait as u8, until.map(us));
    guarded(tx.connection.prepare_cached(sql!("run_wait"))?.execute(values)?, held)?;
    if matches!(wait, Wait::Overlap | Wait::Backfill) {
        // Each end wakes one run, so a place that stays free now would stay free.
        let free = places - active_beside(tx, held, wait, places)?;
        ending.woken.extend(wake::line(tx, held.job, wait, free.max(0))?);
    }
    Ok(Applied::Again)
}

/// How many other runs of the job are at work, waiting as begun ones, or can be claimed, counted up
/// to `most`. A run that waits for its backfill counts backfilled ones.
fn active_beside(tx: &Tx<'_>, held: &Held, wait: Wait, most: i64) -> Result<i64> {
    // Other runs of a job whose time has come and that do not wait for others of the job, counted
    // up to ?4. Only of the origin ?5, if there is one.
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT count(*) FROM (
                 SELECT 1 FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
                 WHERE l.job_id = ?1 AND l.order_at <= ?2 AND l.id <> ?3 AND r.wait IN (0, {})
                     AND r.origin NOT IN ({}) AND r.origin = coalesce(?5, r.origin)
                 LIMIT ?4
             )",
            policy::list(&policy::waits(Wait::takes_place)),
            policy::list(&policy::children())
        )
    });
    let mut query = tx.connection.prepare_cached(&SQL)?;
    let origin = (wait == Wait::Backfill).then_some(Origin::Backfill as u8);
    Ok(query
        .query_row((held.job.0, tx.latest_order(), held.run.0, most, origin), |row| row.get(0))?)
}

/// Releases a run to the queue unchanged.
pub(super) fn release(tx: &Tx<'_>, held: &Held) -> Result<()> {
    let mut release = tx.connection.prepare_cached(sql!("run_release"))?;
    guarded(release.execute((held.seq, held.turn))?, held)?;
    tx.connection.prepare_cached(sql!("queue_enter"))?.execute((held.seq,))?;
    Ok(())
}

/// The in-memory state must match the table.
fn guarded(written: usize, held: &Held) -> Result<()> {
    if written == 1 {
        return Ok(());
    }
    Err(StoreError::Unreadable(format!("run {} is held and is not there", held.run)))
}

/// How many attempts a finish stands for: made ones and lost ones.
fn counts(finish: &Finish) -> (u32, u32) {
    match &finish.attempt {
        Some(attempt) if attempt.result.end == AttemptEnd::Lost => (0, 1),
        Some(_) => (1, 0),
        None => (0, 0),
    }
}

fn end(
    tx: &mut Tx<'_>,
    ending: &mut Ending,
    held: &Held,
    finish: &Finish,
    (outcome, reason, dead_letter): (Outcome, Option<&Reason>, bool),
    freed: &mut Freed,
) -> Result<Applied> {
    ending.leaving.push(held);
    // A cancelled run never ends as completed.
    let cancel: Option<(String, String)> = if held.cancelled {
        let mut query = tx.connection.prepare_cached(sql!("run_cancelled"))?;
        Some(query.query_row((held.seq,), |row| Ok((row.get(0)?, row.get(1)?)))?)
    } else {
        None
    };
    let (outcome, reason) = match &cancel {
        Some((code, text)) => (Outcome::Cancelled, Some((code.as_str(), text.as_str()))),
        None => (outcome, reason.map(|reason| (reason.code.name(), reason.text.as_str()))),
    };
    let (made, lost) = counts(finish);
    let whose = RunRef { run: held.run, job: held.job, tenant: held.tenant };
    let row = End {
        seq: held.seq,
        outcome,
        reason,
        dead_letter: dead_letter && cancel.is_none(),
        attempts: held.attempts + made,
        lost: held.lost + lost,
        fence: Some(finish.mark()),
        attempt: finish.attempt.as_ref(),
    };
    let finished_at = ending.recorder.record(tx, whose, &row)?;
    let audited = AuditedRun {
        run: held.run,
        job: held.job,
        outcome,
        attempt: finish.attempt.as_ref().map_or(0, |attempt| attempt.number),
        started_at: finish.attempt.as_ref().map(|attempt| attempt.started_at),
        rows_affected: finish.attempt.as_ref().and_then(|attempt| attempt.result.rows_affected),
    };
    ending.audit.push(held.tenant, audited);
    if let Some(state) = finish.job_state
        && is_one_time(tx, held)?
    {
        tx.connection.prepare_cached(sql!("job_end"))?.execute((held.job.0, state_name(state)))?;
        versions::keep(tx, held.job, tx.now_us(), SYSTEM, &["status"])?;
    }
    // Only the parent run waits for a child run.
    if !held.run.is_part() {
        freed.ended(held.job, outcome, finished_at, finish.followers);
    }
    Ok(Applied::Ended(outcome))
}

/// Whether the job still has the one time that the run stands for: the job may have been changed
/// while the run was under way.
fn is_one_time(tx: &Tx<'_>, held: &Held) -> Result<bool> {
    let found: Option<(String, i64)> = tx
        .connection
        .prepare_cached(sql!("job_definition"))?
        .query_row((held.seq,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((definition, scheduled_for)) = found else { return Ok(false) };
    Ok(match definition_of(held.job, &definition).when {
        When::At { at } => us(at) == scheduled_for,
        _ => false,
    })
}

fn record_attempt(tx: &Tx<'_>, finish: &Finish, job: JobId, attempt: &EndedAttempt) -> Result<()> {
    let message = Some(attempt.result.message.as_str()).filter(|message| !message.is_empty());
    tx.connection.prepare_cached(sql!("attempt_insert"))?.execute(rusqlite::params![
        finish.grant.run.0,
        attempt.number,
        job.0,
        attempt.node.0,
        finish.mark(),
        us(attempt.started_at),
        us(attempt.finished_at),
        attempt.result.end.name(),
        message,
        attempt.result.error.as_ref().map(ToString::to_string),
        attempt.result.details,
    ])?;
    Ok(())
}

/// A finish without a valid claim was either sent before, or comes too late.
fn ended_before(tx: &Tx<'_>, finish: &Finish) -> Result<Applied> {
    let known: Option<(i64, Option<i64>)> = tx
        .connection
        .prepare_cached(sql!("end_known"))?
        .query_row((finish.grant.run.0,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((outcome, Some(mark))) if mark == finish.mark() => {
            Ok(Applied::Ended(outcome_of(outcome)?))
        }
        _ => Ok(Applied::Stale),
    }
}
