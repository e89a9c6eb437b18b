//! Transitions of messages whose leases end, or that end without one.

use domain::audit::{AuditedRun, Event, Kind};
use domain::id::{JobId, NodeId, RunId};
use domain::run::{AttemptEnd, AttemptResult, EndedAttempt, Outcome, Reason};
use jiff::Timestamp;
use rusqlite::OptionalExtension;

use super::audit_log::{self, EndedTogether};
use super::ends::{End, Recorder, RunRef, outcome_of};
use super::messages::Message;
use super::row::{at, us};
use super::writer::Tx;
use crate::messages::state;
use crate::{Applied, Cancelled, Result, SettledMessage, Verdict};

pub(super) fn settle(
    tx: &mut Tx<'_>,
    node: NodeId,
    settled: &[SettledMessage],
) -> Result<Vec<Applied>> {
    let (mut recorder, mut audit) = (Recorder::default(), EndedTogether::default());
    let mut applied = Vec::with_capacity(settled.len());
    for it in settled {
        let found = Message::find(tx.connection, it.message)?;
        let is_current = |message: &Message| match it.fence {
            _ if message.queue != it.queue => false,
            Some(fence) => message.is_leased_under(fence),
            None => message.state != state::LEASED,
        };
        let Some(message) = found.filter(is_current) else {
            recorder.flush(tx)?;
            applied.push(settled_before(tx, it)?);
            continue;
        };
        let attempt = it.result.as_ref().map(|result| attempt(tx, node, &message, result));
        let attempt = attempt.transpose()?;
        applied.push(apply(tx, (&mut recorder, &mut audit), it, &message, attempt.as_ref())?);
        if let Some(attempt) = &attempt
            && let Some(output) = &attempt.result.output
            && !it.is_forgotten
        {
            let values = (it.message.0, attempt.number, output);
            tx.connection.prepare_cached(sql!("output_insert"))?.execute(values)?;
        }
    }
    recorder.flush(tx)?;
    audit.write(tx, node)?;
    Ok(applied)
}

/// The attempt under the present lease.
fn attempt(
    tx: &Tx<'_>,
    node: NodeId,
    message: &Message,
    result: &AttemptResult,
) -> Result<EndedAttempt> {
    Ok(EndedAttempt {
        number: message.attempts + message.lost + 1,
        fence: message.fence,
        job_version: None,
        node,
        started_at: at(message.leased_at.unwrap_or(tx.now_us()))?,
        finished_at: tx.now,
        result: result.clone(),
    })
}

fn apply(
    tx: &Tx<'_>,
    together: (&mut Recorder, &mut EndedTogether),
    it: &SettledMessage,
    message: &Message,
    attempt: Option<&EndedAttempt>,
) -> Result<Applied> {
    let is_lost = attempt.is_some_and(|attempt| attempt.result.end == AttemptEnd::Lost);
    match &it.verdict {
        Verdict::End { outcome, reason, dead_letter } => {
            let verdict = (*outcome, reason.as_ref(), *dead_letter);
            match it.is_forgotten && *outcome == Outcome::Completed && message.cancel.is_none() {
                true => forget(tx, together.1, (it.message, message), attempt),
                false => end(tx, together, (it.message, message), verdict, attempt),
            }
        }
        Verdict::Retry { .. } | Verdict::Release if message.cancel.is_some() => {
            let verdict = (Outcome::Cancelled, None, false);
            end(tx, together, (it.message, message), verdict, attempt)
        }
        Verdict::Retry { delay } => {
            let due_at = us(tx.now.saturating_add(*delay).unwrap_or(Timestamp::MAX));
            let made = u32::from(attempt.is_some() && !is_lost);
            let (attempts, lost) = (message.attempts + made, message.lost + u32::from(is_lost));
            let values = (message.seq, due_at, attempts, lost);
            tx.connection.prepare_cached(sql!("message_retry"))?.execute(values)?;
            let next = if due_at > tx.now_us() { state::DELAYED } else { state::READY };
            let values = (message.seq, next, due_at, None::<i64>);
            tx.connection.prepare_cached(sql!("message_return"))?.execute(values)?;
            if let Some(attempt) = attempt {
                record_attempt(tx, it.message, message, attempt)?;
            }
            Ok(Applied::Again)
        }
        Verdict::Release | Verdict::Wait(..) | Verdict::Line { .. } | Verdict::Hold { .. } => {
            let values = (message.seq, state::READY, message.order_at, message.fence);
            tx.connection.prepare_cached(sql!("message_return"))?.execute(values)?;
            Ok(Applied::Again)
        }
    }
}

fn end(
    tx: &Tx<'_>,
    (recorder, audit): (&mut Recorder, &mut EndedTogether),
    (id, message): (RunId, &Message),
    (outcome, reason, dead_letter): (Outcome, Option<&Reason>, bool),
    attempt: Option<&EndedAttempt>,
) -> Result<Applied> {
    let cancel = message.cancel.as_ref();
    // A cancelled message never ends as completed.
    let (outcome, reason) = match cancel {
        Some((code, text)) => (Outcome::Cancelled, Some((code.as_str(), text.as_str()))),
        None => (outcome, reason.map(|reason| (reason.code.name(), reason.text.as_str()))),
    };
    let is_lost = attempt.is_some_and(|attempt| attempt.result.end == AttemptEnd::Lost);
    let row = End {
        seq: message.seq,
        outcome,
        reason,
        dead_letter: dead_letter && cancel.is_none(),
        attempts: message.attempts + u32::from(attempt.is_some() && !is_lost),
        lost: message.lost + u32::from(is_lost),
        fence: message.fence,
        attempt,
    };
    let whose = RunRef { run: id, job: message.queue, tenant: message.tenant };
    recorder.record(tx, whose, &row)?;
    leave(tx, audit, (id, message), outcome, attempt)
}

/// Ends a completed message without a row in the history.
fn forget(
    tx: &Tx<'_>,
    audit: &mut EndedTogether,
    (id, message): (RunId, &Message),
    attempt: Option<&EndedAttempt>,
) -> Result<Applied> {
    let sql = "DELETE FROM runs WHERE seq = ?1";
    tx.connection.prepare_cached(sql)?.execute((message.seq,))?;
    if message.attempts + message.lost > 0 {
        for sql in
            ["DELETE FROM attempts WHERE run_id = ?1", "DELETE FROM outputs WHERE run_id = ?1"]
        {
            tx.connection.prepare_cached(sql)?.execute((id.0,))?;
        }
    }
    leave(tx, audit, (id, message), Outcome::Completed, attempt)
}

/// Takes a message that has ended out of its queue.
fn leave(
    tx: &Tx<'_>,
    audit: &mut EndedTogether,
    (id, message): (RunId, &Message),
    outcome: Outcome,
    attempt: Option<&EndedAttempt>,
) -> Result<Applied> {
    let place = (message.queue.0, message.order_at, id.0);
    tx.connection.prepare_cached(sql!("live_delete"))?.execute(place)?;
    tx.connection.prepare_cached(sql!("message_delete"))?.execute((message.seq,))?;
    if let Some(key) = &message.ordering_key {
        let values = (message.queue.0, key, tx.now_us());
        tx.connection.prepare_cached(sql!("message_unblock"))?.execute(values)?;
    }
    let audited = AuditedRun {
        run: id,
        job: message.queue,
        outcome,
        attempt: attempt.map_or(0, |attempt| attempt.number),
        started_at: attempt.map(|attempt| attempt.started_at),
        rows_affected: None,
    };
    audit.push(message.tenant, audited);
    Ok(Applied::Ended(outcome))
}

fn record_attempt(tx: &Tx<'_>, id: RunId, message: &Message, attempt: &EndedAttempt) -> Result<()> {
    let text = Some(attempt.result.message.as_str()).filter(|text| !text.is_empty());
    tx.connection.prepare_cached(sql!("attempt_insert"))?.execute(rusqlite::params![
        id.0,
        attempt.number,
        message.queue.0,
        attempt.node.0,
        message.fence,
        us(attempt.started_at),
        us(attempt.finished_at),
        attempt.result.end.name(),
        text,
        attempt.result.error.as_ref().map(ToString::to_string),
        attempt.result.details,
    ])?;
    Ok(())
}

/// A report that finds no lease was either sent before, or comes too late: then the attempt under
/// its token ended otherwise, as a lost one for example.
fn settled_before(tx: &Tx<'_>, it: &SettledMessage) -> Result<Applied> {
    let Some(fence) = it.fence else { return Ok(Applied::Stale) };
    let end = it.result.as_ref().map(|result| result.end.name());
    let known: Option<(i64, Option<i64>, Option<String>)> = tx
        .connection
        .prepare_cached(sql!("message_end_known"))?
        .query_row((it.message.0, it.queue.0), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    if let Some((outcome, Some(mark), ended)) = known
        && (mark, ended.as_deref()) == (fence, end)
    {
        return Ok(Applied::Ended(outcome_of(outcome)?));
    }
    let is_known = match it.verdict {
        Verdict::Retry { .. } => {
            let values = (it.message.0, fence, it.queue.0, end);
            tx.connection.prepare_cached(sql!("message_attempt_known"))?.exists(values)?
        }
        Verdict::Release => {
            let sql = "SELECT 1 FROM messages
                       WHERE run_id = ?1 AND released_fence = ?2 AND queue_id = ?3";
            let values = (it.message.0, fence, it.queue.0);
            tx.connection.prepare_cached(sql)?.exists(values)?
        }
        Verdict::End { .. } | Verdict::Wait(..) | Verdict::Line { .. } | Verdict::Hold { .. } => {
            false
        }
    };
    Ok(if is_known { Applied::Again } else { Applied::Stale })
}

pub(super) fn cancel(
    tx: &mut Tx<'_>,
    (queue, id): (JobId, RunId),
    reason: &Reason,
    by: &str,
) -> Result<Cancelled> {
    let found = Message::find(tx.connection, id)?;
    let Some(message) = found.filter(|message| message.queue == queue) else {
        let known: Option<i64> = tx
            .connection
            .prepare_cached(sql!("message_end_known"))?
            .query_row((id.0, queue.0), |row| row.get(0))
            .optional()?;
        let ended = |outcome| Ok(Cancelled::EndedBefore(outcome_of(outcome)?));
        return known.map_or(Ok(Cancelled::NotFound), ended);
    };
    let is_leased = message.state == state::LEASED;
    let outcome = if is_leased { "REQUESTED" } else { Outcome::Cancelled.name() };
    let asked = Event {
        tenant: message.tenant,
        actor: by.to_owned(),
        kind: Kind::JobCancelled,
        job: Some(message.queue),
        run: Some(id),
        outcome: outcome.to_owned(),
        details: reason.text.clone(),
    };
    audit_log::insert(tx, &asked)?;
    if is_leased {
        let values = (message.seq, reason.code.name(), &reason.text);
        let sql = "UPDATE runs SET cancel_code = ?2, cancel_text = ?3 WHERE seq = ?1";
        tx.connection.prepare_cached(sql)?.execute(values)?;
        return Ok(Cancelled::Requested(NodeId(uuid::Uuid::nil())));
    }
    let (mut recorder, mut audit) = (Recorder::default(), EndedTogether::default());
    let verdict = (Outcome::Cancelled, Some(reason), false);
    end(tx, (&mut recorder, &mut audit), (id, &message), verdict, None)?;
    recorder.flush(tx)?;
    Ok(Cancelled::Ended)
}
