//! The end of grants and of runs.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{AttemptEnd, EndedAttempt, Grant, Outcome, Reason, ReasonCode};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row};
use uuid::Uuid;

use super::alerts;
use super::nodes::is_alive;
use super::row::{at, state_name, us};
use super::writer::Tx;
use crate::{Applied, Cancelled, Finish, Result, StoreError, Verdict};

/// A row of the history, by column.
pub(super) struct HistoryRow<'a> {
    pub id: Uuid,
    pub job: Uuid,
    pub tenant: Uuid,
    pub job_version: u32,
    pub scheduled_for: i64,
    pub scheduled_last: i64,
    pub count: u64,
    pub shard: &'a str,
    pub due_at: i64,
    pub origin: i64,
    pub coalesced: u32,
    pub parameters: Option<&'a str>,
    pub outcome: Outcome,
    pub reason: Option<(&'a str, &'a str)>,
    pub dead_letter: bool,
    pub attempts: u32,
    pub lost: u32,
    pub fence: Option<i64>,
    pub attempt: Option<&'a EndedAttempt>,
}

pub(super) fn insert_history(tx: &Tx<'_>, row: &HistoryRow<'_>) -> Result<()> {
    let attempt = row.attempt;
    let result = attempt.map(|attempt| &attempt.result);
    let finished_at = attempt.map_or(tx.now_us(), |attempt| us(attempt.finished_at));
    let mut statement = tx.connection.prepare_cached(sql!("history_insert"))?;
    statement.execute(rusqlite::params![
        row.id,
        row.job,
        row.tenant,
        row.job_version,
        row.scheduled_for,
        row.scheduled_last,
        row.count as i64,
        row.shard,
        row.due_at,
        row.origin,
        row.coalesced,
        row.parameters,
        row.outcome as u8,
        row.reason.map(|(code, _)| code),
        row.reason.map(|(_, text)| text),
        row.dead_letter,
        row.attempts,
        row.lost,
        finished_at,
        attempt.map(|attempt| attempt.number),
        result.map(|result| result.end.name()),
        attempt.map(|attempt| attempt.node.0),
        row.fence,
        attempt.map(|attempt| us(attempt.started_at)),
        result.map(|result| result.message.as_str()).filter(|message| !message.is_empty()),
        result.and_then(|result| result.error.as_ref()).map(ToString::to_string),
        result.and_then(|result| result.result.as_deref()),
        result.and_then(|result| result.rows_affected).map(|rows| rows as i64),
    ])?;
    if row.dead_letter || row.outcome == Outcome::Missed {
        raise_for(tx, row, finished_at)?;
    }
    Ok(())
}

/// An end that somebody should be told about.
fn raise_for(tx: &Tx<'_>, row: &HistoryRow<'_>, finished_at: i64) -> Result<()> {
    let kind = if row.dead_letter { AlertKind::MaxRetriesExceeded } else { AlertKind::Missed };
    let text = row
        .reason
        .map_or_else(String::new, |(code, text)| format!("{} {code}: {text}", row.outcome));
    let (tenant, job, run) = (TenantId(row.tenant), JobId(row.job), Some(RunId(row.id)));
    alerts::insert(tx, &Alert { kind, tenant, job, run, text, at: at(finished_at)? })
}

/// What a run took with it from the live table.
struct Taken {
    job: JobId,
    tenant: TenantId,
    job_version: u32,
    scheduled_for: i64,
    shard: String,
    due_at: i64,
    origin: i64,
    coalesced: u32,
    parameters: Option<String>,
    attempts: u32,
    lost: u32,
    cancel: Option<(String, String)>,
}

fn taken(row: &Row<'_>) -> rusqlite::Result<Taken> {
    let code: Option<String> = row.get(11)?;
    let text: Option<String> = row.get(12)?;
    Ok(Taken {
        job: JobId(row.get(0)?),
        tenant: TenantId(row.get(1)?),
        job_version: row.get(2)?,
        scheduled_for: row.get(3)?,
        shard: row.get(4)?,
        due_at: row.get(5)?,
        origin: row.get(6)?,
        coalesced: row.get(7)?,
        parameters: row.get(8)?,
        attempts: row.get(9)?,
        lost: row.get(10)?,
        cancel: code.map(|code| (code, text.unwrap_or_default())),
    })
}

/// Ends the grants of a node that may write.
pub(super) fn finish(tx: &mut Tx<'_>, node: NodeId, done: &[Finish]) -> Result<Vec<Applied>> {
    let mut ended: Vec<JobId> = Vec::new();
    let mut applied = Vec::with_capacity(done.len());
    for finish in done {
        let Some(left) = leave(tx, node, finish)? else {
            applied.push(ended_before(tx, finish)?);
            continue;
        };
        tx.move_held(left.tenant, -1);
        if let Applied::Ended(_) = left.applied {
            if ended.last() != Some(&left.job) {
                ended.push(left.job);
            }
        }
        applied.push(left.applied);
    }
    ended.sort_unstable();
    ended.dedup();
    for job in ended {
        wake_dependents(tx, job)?;
    }
    Ok(applied)
}

/// Ends grants of nodes that were buried.
pub(super) fn bury(tx: &mut Tx<'_>, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
    let mut applied = Vec::with_capacity(lost.len());
    for (node, finish) in lost {
        if is_alive(tx, *node)? {
            applied.push(Applied::Stale);
        } else {
            applied.extend(self::finish(tx, *node, std::slice::from_ref(finish))?);
        }
    }
    Ok(applied)
}

/// A run that its holder has let go.
struct Left {
    applied: Applied,
    job: JobId,
    tenant: TenantId,
}

/// Applies a verdict; none when the grant is not valid any more.
fn leave(tx: &Tx<'_>, node: NodeId, finish: &Finish) -> Result<Option<Left>> {
    let key = (finish.grant.run.0, finish.grant.turn, node.0);
    let let_go = |row: &Row<'_>| {
        Ok(Left { applied: Applied::Again, job: JobId(row.get(0)?), tenant: TenantId(row.get(1)?) })
    };
    match &finish.verdict {
        Verdict::End { outcome, reason, dead_letter } => {
            end(tx, node, finish, *outcome, reason.as_ref(), *dead_letter)
        }
        Verdict::Retry { delay } => {
            let due_at = us(tx.now.saturating_add(*delay).unwrap_or(Timestamp::MAX));
            let (made, lost) = counts(finish);
            let mut retry = tx.connection.prepare_cached(sql!("run_retry"))?;
            let left =
                retry.query_row((key.0, key.1, key.2, due_at, made, lost), let_go).optional()?;
            let Some(left) = left else {
                // Stale, or somebody asked for its end meanwhile.
                return end(tx, node, finish, Outcome::Cancelled, None, false);
            };
            if let Some(attempt) = &finish.attempt {
                record_attempt(tx, finish, left.job, attempt)?;
            }
            Ok(Some(left))
        }
        Verdict::Wait(wait, until) => {
            let mut waits = tx.connection.prepare_cached(sql!("run_wait"))?;
            let wait = (key.0, key.1, key.2, *wait as u8, until.map(us));
            Ok(waits.query_row(wait, let_go).optional()?)
        }
        Verdict::Release => {
            let mut waits = tx.connection.prepare_cached(sql!("run_wait"))?;
            Ok(waits.query_row((key.0, key.1, key.2, 0_u8, None::<i64>), let_go).optional()?)
        }
    }
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
    tx: &Tx<'_>,
    node: NodeId,
    finish: &Finish,
    outcome: Outcome,
    reason: Option<&Reason>,
    dead_letter: bool,
) -> Result<Option<Left>> {
    let key = (finish.grant.run.0, finish.grant.turn, node.0);
    let taken = tx.connection.prepare_cached(sql!("run_take"))?.query_row(key, taken).optional()?;
    let Some(taken) = taken else { return Ok(None) };
    let ended = close(tx, finish, &taken, outcome, reason, dead_letter)?;
    if let Some(state) = finish.job_state {
        tx.connection.prepare_cached(sql!("job_end"))?.execute((taken.job.0, state_name(state)))?;
    }
    Ok(Some(Left { applied: Applied::Ended(ended), job: taken.job, tenant: taken.tenant }))
}

fn close(
    tx: &Tx<'_>,
    finish: &Finish,
    taken: &Taken,
    outcome: Outcome,
    reason: Option<&Reason>,
    dead_letter: bool,
) -> Result<Outcome> {
    // A cancelled run never ends as completed.
    let (outcome, reason) = match &taken.cancel {
        Some((code, text)) => (Outcome::Cancelled, Some((code.as_str(), text.as_str()))),
        None => (outcome, reason.map(|reason| (reason.code.name(), reason.text.as_str()))),
    };
    let (made, lost) = counts(finish);
    insert_history(
        tx,
        &HistoryRow {
            id: finish.grant.run.0,
            job: taken.job.0,
            tenant: taken.tenant.0,
            job_version: taken.job_version,
            scheduled_for: taken.scheduled_for,
            scheduled_last: taken.scheduled_for,
            count: 1,
            shard: &taken.shard,
            due_at: taken.due_at,
            origin: taken.origin,
            coalesced: taken.coalesced,
            parameters: taken.parameters.as_deref(),
            outcome,
            reason,
            dead_letter: dead_letter && taken.cancel.is_none(),
            attempts: taken.attempts + made,
            lost: taken.lost + lost,
            fence: Some(finish.grant.fence),
            attempt: finish.attempt.as_ref(),
        },
    )?;
    Ok(outcome)
}

fn record_attempt(tx: &Tx<'_>, finish: &Finish, job: JobId, attempt: &EndedAttempt) -> Result<()> {
    let message = Some(attempt.result.message.as_str()).filter(|message| !message.is_empty());
    tx.connection.prepare_cached(sql!("attempt_insert"))?.execute((
        finish.grant.run.0,
        attempt.number,
        job.0,
        attempt.node.0,
        finish.grant.fence,
        us(attempt.started_at),
        us(attempt.finished_at),
        attempt.result.end.name(),
        message,
        attempt.result.error.as_ref().map(ToString::to_string),
    ))?;
    Ok(())
}

/// A finish that finds no grant was either sent before, or comes too late.
fn ended_before(tx: &Tx<'_>, finish: &Finish) -> Result<Applied> {
    let known: Option<(i64, Option<i64>)> = tx
        .connection
        .prepare_cached(sql!("history_known"))?
        .query_row((finish.grant.run.0,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((outcome, Some(fence))) if fence == finish.grant.fence => {
            Ok(Applied::Ended(outcome_of(outcome)?))
        }
        _ => Ok(Applied::Stale),
    }
}

pub(super) fn outcome_of(number: i64) -> Result<Outcome> {
    Outcome::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("{number} is not an outcome")))
}

fn wake_dependents(tx: &Tx<'_>, job: JobId) -> Result<()> {
    tx.connection.prepare_cached(sql!("run_wake_overlap"))?.execute((job.0,))?;
    tx.connection.prepare_cached(sql!("run_wake_upstream"))?.execute((job.0,))?;
    tx.connection.prepare_cached(sql!("job_wake_after"))?.execute((job.0, tx.now_us()))?;
    Ok(())
}

pub(super) fn cancel(tx: &mut Tx<'_>, run: RunId, reason: &Reason) -> Result<Cancelled> {
    let held: Option<Uuid> = tx
        .connection
        .prepare_cached(sql!("run_cancel"))?
        .query_row((run.0, reason.code.name(), &reason.text), |row| row.get(0))
        .optional()?;
    if let Some(node) = held {
        return Ok(Cancelled::Requested(NodeId(node)));
    }
    let unheld = tx
        .connection
        .prepare_cached(sql!("run_take_unheld"))?
        .query_row((run.0,), taken)
        .optional()?;
    if let Some(taken) = unheld {
        let grant = Grant { run, fence: 0, turn: 0 };
        let finish = Finish { grant, verdict: Verdict::Release, attempt: None, job_state: None };
        let reason = Reason { code: ReasonCode::CancelRequested, text: reason.text.clone() };
        close(tx, &finish, &taken, Outcome::Cancelled, Some(&reason), false)?;
        wake_dependents(tx, taken.job)?;
        return Ok(Cancelled::Ended);
    }
    let known: Option<i64> = tx
        .connection
        .prepare_cached(sql!("history_known"))?
        .query_row((run.0,), |row| row.get(0))
        .optional()?;
    known
        .map_or(Ok(Cancelled::NotFound), |outcome| Ok(Cancelled::EndedBefore(outcome_of(outcome)?)))
}
