//! The end of grants and of runs.

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Definition, When};
use domain::run::{AttemptEnd, EndedAttempt, Grant, Outcome, Reason, Wait};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row};
use uuid::Uuid;

use super::history::{HistoryRow, insert_history, outcome_of};
use super::nodes::is_alive;
use super::row::{state_name, us};
use super::wake::{Freed, is_over};
use super::writer::Tx;
use crate::{Applied, Finish, Result, StoreError, Verdict};

/// What a run took with it from the live table.
pub(super) struct Taken {
    pub job: JobId,
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

pub(super) fn taken(row: &Row<'_>) -> rusqlite::Result<Taken> {
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

impl Taken {
    /// The row of a run that ends without another attempt.
    pub fn history(&self, run: RunId, outcome: Outcome) -> HistoryRow<'_> {
        HistoryRow {
            id: run.0,
            job: self.job.0,
            tenant: self.tenant.0,
            job_version: self.job_version,
            scheduled_for: self.scheduled_for,
            scheduled_last: self.scheduled_for,
            count: 1,
            shard: &self.shard,
            due_at: self.due_at,
            origin: self.origin,
            coalesced: self.coalesced,
            parameters: self.parameters.as_deref(),
            outcome,
            reason: None,
            dead_letter: false,
            attempts: self.attempts,
            lost: self.lost,
            fence: None,
            attempt: None,
        }
    }
}

/// Ends the grants of a node that may write.
pub(super) fn finish(tx: &mut Tx<'_>, node: NodeId, done: &[Finish]) -> Result<Vec<Applied>> {
    let mut freed = Freed::default();
    let mut applied = Vec::with_capacity(done.len());
    for finish in done {
        let Some(left) = leave(tx, node, finish)? else {
            applied.push(ended_before(tx, finish)?);
            continue;
        };
        tx.move_held(left.tenant, -1);
        match left.applied {
            Applied::Ended(outcome) => freed.ended(left.job, outcome, left.finished_at),
            _ if matches!(finish.verdict, Verdict::Wait(Wait::Upstream, _)) => {
                freed.stepped_aside(left.job);
            }
            _ => {}
        }
        applied.push(left.applied);
    }
    freed.wake(tx)?;
    Ok(applied)
}

/// Ends grants of nodes that were buried.
pub(super) fn bury(tx: &mut Tx<'_>, lost: &[(NodeId, Finish)]) -> Result<Vec<Applied>> {
    let mut applied = Vec::with_capacity(lost.len());
    for (node, finish) in lost {
        if is_alive(tx.connection, *node)? {
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
    /// When it ended, if it did.
    finished_at: i64,
}

impl Left {
    /// A run that goes on: job_id, tenant_id
    fn again(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Left {
            applied: Applied::Again,
            job: JobId(row.get(0)?),
            tenant: TenantId(row.get(1)?),
            finished_at: 0,
        })
    }
}

/// What a row must match for a grant to be valid: the run, which of its grants, whose, and the
/// fence, because a prepared run that vanished and came back counts its grants anew.
fn key(node: NodeId, grant: Grant) -> (Uuid, u32, Uuid, i64) {
    (grant.run.0, grant.turn, node.0, grant.fence)
}

/// Applies a verdict; none when the grant is not valid any more.
fn leave(tx: &Tx<'_>, node: NodeId, finish: &Finish) -> Result<Option<Left>> {
    match &finish.verdict {
        Verdict::End { outcome, reason, dead_letter } => {
            end(tx, node, finish, *outcome, reason.as_ref(), *dead_letter)
        }
        Verdict::Retry { delay } => {
            let (run, turn, holder, fence) = key(node, finish.grant);
            let due_at = us(tx.now.saturating_add(*delay).unwrap_or(Timestamp::MAX));
            let (made, lost) = counts(finish);
            let mut retry = tx.connection.prepare_cached(sql!("run_retry"))?;
            let values = (run, turn, holder, fence, due_at, made, lost);
            let Some(left) = retry.query_row(values, Left::again).optional()? else {
                // Stale, or somebody asked for its end meanwhile.
                return end(tx, node, finish, Outcome::Cancelled, None, false);
            };
            if let Some(attempt) = &finish.attempt {
                record_attempt(tx, finish, left.job, attempt)?;
            }
            Ok(Some(left))
        }
        Verdict::Wait(wait, until) => let_wait(tx, node, finish.grant, Some(*wait), *until),
        Verdict::Release => let_wait(tx, node, finish.grant, None, None),
    }
}

/// The run waits for something, or for nothing but its next holder.
fn let_wait(
    tx: &Tx<'_>,
    node: NodeId,
    grant: Grant,
    wait: Option<Wait>,
    until: Option<Timestamp>,
) -> Result<Option<Left>> {
    let (run, turn, holder, fence) = key(node, grant);
    let number = wait.map_or(0, |wait| wait as u8);
    let values = (run, turn, holder, fence, number, until.map(us));
    let mut waits = tx.connection.prepare_cached(sql!("run_wait"))?;
    let left = waits
        .query_row(values, |row| Ok((Left::again(row)?, row.get::<_, bool>(2)?)))
        .optional()?;
    let Some((left, cancelled)) = left else { return Ok(None) };
    if let Some(wait) = wait
        && (cancelled || is_over(tx, wait, left.job, fence)?)
    {
        tx.connection.prepare_cached(sql!("run_wake"))?.execute((run,))?;
    }
    Ok(Some(left))
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
    let mut take = tx.connection.prepare_cached(sql!("run_take"))?;
    let taken = take.query_row(key(node, finish.grant), taken).optional()?;
    let Some(taken) = taken else { return Ok(None) };
    tx.connection.prepare_cached(sql!("run_delete"))?.execute((finish.grant.run.0,))?;
    // A cancelled run never ends as completed.
    let (outcome, reason) = match &taken.cancel {
        Some((code, text)) => (Outcome::Cancelled, Some((code.as_str(), text.as_str()))),
        None => (outcome, reason.map(|reason| (reason.code.name(), reason.text.as_str()))),
    };
    let (made, lost) = counts(finish);
    let row = HistoryRow {
        reason,
        dead_letter: dead_letter && taken.cancel.is_none(),
        attempts: taken.attempts + made,
        lost: taken.lost + lost,
        fence: Some(finish.grant.fence),
        attempt: finish.attempt.as_ref(),
        ..taken.history(finish.grant.run, outcome)
    };
    let finished_at = insert_history(tx, &row)?;
    if let Some(state) = finish.job_state
        && is_one_time(tx, &taken)?
    {
        tx.connection.prepare_cached(sql!("job_end"))?.execute((taken.job.0, state_name(state)))?;
    }
    let applied = Applied::Ended(outcome);
    Ok(Some(Left { applied, job: taken.job, tenant: taken.tenant, finished_at }))
}

/// Whether the job still has the one time that the run stands for: somebody may have changed it
/// while the run was under way.
fn is_one_time(tx: &Tx<'_>, taken: &Taken) -> Result<bool> {
    let definition: Option<String> = tx
        .connection
        .prepare_cached(sql!("job_definition"))?
        .query_row((taken.job.0,), |row| row.get(0))
        .optional()?;
    let Some(definition) = definition else { return Ok(false) };
    let definition: Result<Definition> = serde_json::from_str(&definition)
        .map_err(|error| StoreError::Unreadable(error.to_string()));
    Ok(match definition?.when {
        When::At { at } => us(at) == taken.scheduled_for,
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
        finish.grant.fence,
        us(attempt.started_at),
        us(attempt.finished_at),
        attempt.result.end.name(),
        message,
        attempt.result.error.as_ref().map(ToString::to_string),
        attempt.result.details,
    ])?;
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
