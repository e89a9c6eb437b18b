//! Writing the history: one row for each run that ended and for times that ended without one.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{EndedAttempt, Outcome};
use uuid::Uuid;

use super::alerts;
use super::row::{at, us};
use super::writer::Tx;
use crate::{Result, StoreError};

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

/// Writes a row, unless there is one for the same run or time, and returns when it ended.
pub(super) fn insert_history(tx: &Tx<'_>, row: &HistoryRow<'_>) -> Result<i64> {
    let attempt = row.attempt;
    let result = attempt.map(|attempt| &attempt.result);
    let finished_at = attempt.map_or(tx.now_us(), |attempt| us(attempt.finished_at));
    let mut statement = tx.connection.prepare_cached(sql!("history_insert"))?;
    let inserted = statement.execute(rusqlite::params![
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
        result.and_then(|result| result.details.as_deref()),
    ])?;
    if inserted > 0 && (row.dead_letter || row.outcome == Outcome::Missed) {
        raise_for(tx, row, finished_at)?;
    }
    Ok(finished_at)
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

pub(super) fn outcome_of(number: i64) -> Result<Outcome> {
    Outcome::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("{number} is not an outcome")))
}
