//! How runs ended: one row for each, written once.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{EndedAttempt, Outcome};
use rusqlite::CachedStatement;

use super::alerts;
use super::row::{at, us};
use super::writer::Tx;
use crate::{Result, StoreError};

/// The end of a run, by column.
pub(super) struct End<'a> {
    pub seq: i64,
    pub outcome: Outcome,
    pub reason: Option<(&'a str, &'a str)>,
    pub dead_letter: bool,
    pub attempts: u32,
    pub lost: u32,
    pub fence: Option<i64>,
    pub attempt: Option<&'a EndedAttempt>,
}

/// Whose end it is.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub run: RunId,
    pub job: JobId,
    pub tenant: TenantId,
}

/// The statement that [`record`] needs, once for a whole batch.
pub(super) fn recorder<'a>(tx: &Tx<'a>) -> Result<CachedStatement<'a>> {
    Ok(tx.connection.prepare_cached(sql!("end_insert"))?)
}

/// Writes the end of a run that had not ended, and returns when that was.
pub(super) fn record(
    tx: &Tx<'_>,
    recorder: &mut CachedStatement<'_>,
    whose: Whose,
    end: &End<'_>,
) -> Result<i64> {
    let attempt = end.attempt;
    let result = attempt.map(|attempt| &attempt.result);
    let finished_at = attempt.map_or(tx.now_us(), |attempt| us(attempt.finished_at));
    recorder.execute(rusqlite::params![
        end.seq,
        end.outcome as u8,
        end.reason.map(|(code, _)| code),
        end.reason.map(|(_, text)| text),
        end.dead_letter,
        end.attempts,
        end.lost,
        finished_at,
        attempt.map(|attempt| attempt.number),
        result.map(|result| result.end.name()),
        attempt.map(|attempt| attempt.node.0),
        end.fence,
        attempt.map(|attempt| us(attempt.started_at)),
        result.map(|result| result.message.as_str()).filter(|message| !message.is_empty()),
        result.and_then(|result| result.error.as_ref()).map(ToString::to_string),
        result.and_then(|result| result.result.as_deref()),
        result.and_then(|result| result.rows_affected).map(|rows| rows as i64),
        result.and_then(|result| result.details.as_deref()),
    ])?;
    if end.dead_letter || end.outcome == Outcome::Missed {
        raise_for(tx, whose, end, finished_at)?;
    }
    Ok(finished_at)
}

/// An end that somebody should be told about.
fn raise_for(tx: &Tx<'_>, whose: Whose, end: &End<'_>, finished_at: i64) -> Result<()> {
    let kind = if end.dead_letter { AlertKind::MaxRetriesExceeded } else { AlertKind::Missed };
    let text = end
        .reason
        .map_or_else(String::new, |(code, text)| format!("{} {code}: {text}", end.outcome));
    let Whose { run, job, tenant } = whose;
    alerts::insert(tx, &Alert { kind, tenant, job, run: Some(run), text, at: at(finished_at)? })
}

pub(super) fn outcome_of(number: i64) -> Result<Outcome> {
    Outcome::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("{number} is not an outcome")))
}
