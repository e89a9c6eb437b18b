//! How runs ended: one row for each, written once.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{EndedAttempt, Outcome};

use super::records;
use super::row::{at, us};
use super::rows::{self, Values};
use super::writer::Tx;
use crate::alerts::alert_row;
use crate::starts::LATE;
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
    /// Whether it has only the columns of a plain completion: outcome, time and node.
    fn is_plain(&self) -> bool {
        let result = self.attempt.map(|attempt| &attempt.result);
        self.outcome == Outcome::Completed
            && !self.dead_letter
            && self.reason.is_none()
            && self.attempt.is_none_or(|attempt| attempt.job_version.is_none())
            && result.is_none_or(|result| {
                result.message.is_empty()
                    && result.error.is_none()
                    && result.result.is_none()
                    && result.rows_affected.is_none()
                    && result.details.is_none()
            })
    }

    /// Whether the index of runs that did not complete lists it. Completed runs are found by other
    /// indexes.
    fn is_listed(&self) -> bool {
        self.outcome != Outcome::Completed || self.dead_letter
    }

    /// Whether the run began so late that its start is not in the order of ids, or never.
    fn is_late(&self, run: RunId) -> bool {
        let late = |attempt: &EndedAttempt| attempt.started_at.duration_since(run.time()) > LATE;
        self.attempt.is_none_or(late)
    }
}

/// The run that ended.
#[derive(Clone, Copy)]
pub(super) struct RunRef {
    pub run: RunId,
    pub job: JobId,
    pub tenant: TenantId,
}

/// Writes one end, and returns when it was.
pub(super) fn record(tx: &Tx<'_>, whose: RunRef, end: &End<'_>) -> Result<i64> {
    let mut recorder = Recorder::default();
    let finished_at = recorder.record(tx, whose, end)?;
    recorder.flush(tx)?;
    Ok(finished_at)
}

/// Writes ends. Plain ones are written together, by [`Recorder::flush`].
#[derive(Default)]
pub(super) struct Recorder {
    plain: Vec<Plain>,
}

/// An end without words.
struct Plain {
    seq: i64,
    outcome: Outcome,
    attempts: u32,
    lost: u32,
    finished_at: i64,
    fence: Option<i64>,
    /// The number of its attempt, and when that began.
    attempt: Option<(u32, i64)>,
    /// How the attempt ended, and where it was made. That is the same for most.
    made: Option<(&'static str, NodeId)>,
    /// Its job, if it began late or never.
    late: Option<JobId>,
    /// Its id, if an index finds it by that.
    id: Option<RunId>,
}

impl Recorder {
    /// Takes the end of a run that had not ended, and returns when that was.
    pub fn record(&mut self, tx: &Tx<'_>, whose: RunRef, end: &End<'_>) -> Result<i64> {
        let finished_at = end.attempt.map_or(tx.now_us(), |attempt| us(attempt.finished_at));
        let is_late = end.is_late(whose.run);
        let plain = Plain {
            seq: end.seq,
            outcome: end.outcome,
            attempts: end.attempts,
            lost: end.lost,
            finished_at,
            fence: end.fence,
            attempt: end.attempt.map(|attempt| (attempt.number, us(attempt.started_at))),
            made: end.attempt.map(|attempt| (attempt.result.end.name(), attempt.node)),
            late: is_late.then_some(whose.job),
            id: (is_late || end.is_listed()).then_some(whose.run),
        };
        if end.is_plain() {
            self.plain.push(plain);
        } else {
            insert(tx, whose, end, &plain)?;
        }
        let code = end.reason.map(|(code, _)| code);
        if let Some(kind) = AlertKind::of_end(end.outcome, code, end.dead_letter) {
            raise_for(tx, whose, end, kind, finished_at)?;
        }
        Ok(finished_at)
    }

    /// Writes the collected ends.
    pub fn flush(&mut self, tx: &Tx<'_>) -> Result<()> {
        for alike in self.plain.chunk_by(|a, b| a.made == b.made) {
            let made = alike.first().and_then(|end| end.made);
            let sql = sql!("end_insert_plain");
            rows::insert_alike(tx.connection, sql, |to| push_made(made, to), alike, Plain::push)?;
        }
        self.plain.clear();
        Ok(())
    }
}

impl Plain {
    fn push(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        values.push(self.seq)?;
        values.push(self.outcome as u8)?;
        values.push(self.attempts)?;
        values.push(self.lost)?;
        values.push(self.finished_at)?;
        values.push(self.attempt.map(|(number, ..)| number))?;
        values.push(self.fence)?;
        values.push(self.attempt.map(|(_, started_at)| started_at))?;
        values.push(self.late.map(|job| job.0))?;
        values.push(self.id.map(|id| id.0))
    }
}

fn push_made(
    made: Option<(&'static str, NodeId)>,
    values: &mut Values<'_, '_>,
) -> rusqlite::Result<()> {
    values.push(made.map(|(end, _)| end))?;
    values.push(made.map(|(_, node)| node.0))
}

/// Writes an end with all columns.
fn insert(tx: &Tx<'_>, whose: RunRef, end: &End<'_>, plain: &Plain) -> Result<()> {
    let result = end.attempt.map(|attempt| &attempt.result);
    let message = result.map(|result| result.message.as_str());
    let row = std::slice::from_ref(plain);
    rows::insert(tx.connection, sql!("end_insert"), row, |plain, values| {
        push_made(plain.made, values)?;
        plain.push(values)?;
        values.push(end.reason.map(|(code, _)| code))?;
        values.push(end.reason.map(|(_, text)| text))?;
        values.push(end.dead_letter)?;
        values.push(message.filter(|message| !message.is_empty()))?;
        values.push(result.and_then(|result| result.error.as_ref()).map(ToString::to_string))?;
        values.push(result.and_then(|result| result.result.as_deref()))?;
        values.push(result.and_then(|result| result.rows_affected).map(|rows| rows as i64))?;
        values.push(result.and_then(|result| result.details.as_deref()))?;
        values.push(end.is_listed().then_some(whose.tenant.0))?;
        values.push(end.attempt.and_then(|attempt| attempt.job_version))
    })?;
    Ok(())
}

/// Raises the alert of an end.
fn raise_for(
    tx: &Tx<'_>,
    whose: RunRef,
    end: &End<'_>,
    kind: AlertKind,
    finished_at: i64,
) -> Result<()> {
    let text = end
        .reason
        .map_or_else(String::new, |(code, text)| format!("{} {code}: {text}", end.outcome));
    let RunRef { run, job, tenant } = whose;
    let at = at(finished_at)?;
    records::execute(tx, &alert_row(&Alert { kind, tenant, job, run: Some(run), text, at }))
}

pub(super) fn outcome_of(number: i64) -> Result<Outcome> {
    Outcome::from_number(number)
        .ok_or_else(|| StoreError::Unreadable(format!("{number} is not an outcome")))
}
