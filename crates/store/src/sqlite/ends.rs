//! How runs ended: one row for each, written once.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{EndedAttempt, Outcome};
use rusqlite::{CachedStatement, ToSql};

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

impl End<'_> {
    /// Whether there is nothing to say but that, when and where it completed.
    fn is_plain(&self) -> bool {
        let result = self.attempt.map(|attempt| &attempt.result);
        self.outcome == Outcome::Completed
            && !self.dead_letter
            && self.reason.is_none()
            && result.is_none_or(|result| {
                result.message.is_empty()
                    && result.error.is_none()
                    && result.result.is_none()
                    && result.rows_affected.is_none()
                    && result.details.is_none()
            })
    }
}

/// Whose end it is.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub run: RunId,
    pub job: JobId,
    pub tenant: TenantId,
}

/// Writes ends; its statements are looked up once for a whole batch.
pub(super) struct Recorder<'a> {
    plain: CachedStatement<'a>,
    full: CachedStatement<'a>,
}

impl<'a> Recorder<'a> {
    pub fn new(tx: &Tx<'a>) -> Result<Self> {
        Ok(Recorder {
            plain: tx.connection.prepare_cached(sql!("end_insert_plain"))?,
            full: tx.connection.prepare_cached(sql!("end_insert"))?,
        })
    }

    /// Writes the end of a run that had not ended, and returns when that was.
    pub fn record(&mut self, tx: &Tx<'_>, whose: Whose, end: &End<'_>) -> Result<i64> {
        let attempt = end.attempt;
        let result = attempt.map(|attempt| &attempt.result);
        let finished_at = attempt.map_or(tx.now_us(), |attempt| us(attempt.finished_at));
        let statement = if end.is_plain() { &mut self.plain } else { &mut self.full };
        let fixed: [&dyn ToSql; 10] = [
            &end.seq,
            &(end.outcome as u8),
            &end.attempts,
            &end.lost,
            &finished_at,
            &attempt.map(|attempt| attempt.number),
            &result.map(|result| result.end.name()),
            &attempt.map(|attempt| attempt.node.0),
            &end.fence,
            &attempt.map(|attempt| us(attempt.started_at)),
        ];
        for (n, value) in fixed.into_iter().enumerate() {
            statement.raw_bind_parameter(n + 1, value)?;
        }
        if !end.is_plain() {
            // Completed runs are found by other indexes.
            let completed = end.outcome == Outcome::Completed;
            let message = result.map(|result| result.message.as_str());
            let rest: [&dyn ToSql; 10] = [
                &end.reason.map(|(code, _)| code),
                &end.reason.map(|(_, text)| text),
                &end.dead_letter,
                &message.filter(|message| !message.is_empty()),
                &result.and_then(|result| result.error.as_ref()).map(ToString::to_string),
                &result.and_then(|result| result.result.as_deref()),
                &result.and_then(|result| result.rows_affected).map(|rows| rows as i64),
                &result.and_then(|result| result.details.as_deref()),
                &(!completed).then_some(whose.tenant.0),
                &(!completed).then_some(whose.run.0),
            ];
            for (n, value) in rest.into_iter().enumerate() {
                statement.raw_bind_parameter(n + 11, value)?;
            }
        }
        statement.raw_execute()?;
        if end.dead_letter || end.outcome == Outcome::Missed {
            raise_for(tx, whose, end, finished_at)?;
        }
        Ok(finished_at)
    }
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
