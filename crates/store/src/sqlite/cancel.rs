//! Asking for the end of a run.

use domain::audit::{Event, Kind};
use domain::id::{JobId, RunId, TenantId};
use domain::job::LostAnswer;
use domain::run::{Outcome, Reason};
use rusqlite::{OptionalExtension, Row};

use super::ends::{self, End, RunRef, outcome_of};
use super::wake::{self, Freed};
use super::writer::Tx;
use super::{audit_log, dags};
use crate::{Cancelled, Decided, Result};

pub(super) fn cancel(tx: &mut Tx<'_>, run: RunId, reason: &Reason, by: &str) -> Result<Cancelled> {
    let asked = |tenant, job, outcome: &str| Event {
        tenant,
        actor: by.to_owned(),
        kind: Kind::JobCancelled,
        job: Some(job),
        run: Some(run),
        outcome: outcome.to_owned(),
        details: reason.text.clone(),
    };
    let known: Option<i64> = tx
        .connection
        .prepare_cached(sql!("end_known"))?
        .query_row((run.0,), |row| row.get(0))
        .optional()?;
    if let Some(outcome) = known {
        return Ok(Cancelled::EndedBefore(outcome_of(outcome)?));
    }
    if dags::has_begun(tx.connection, run)? {
        return Ok(Cancelled::HasSteps);
    }
    if let Some(held) = tx.holdings().of_run(run) {
        // Requests the holder of a run to stop it.
        let sql = "UPDATE runs SET cancel_code = ?2, cancel_text = ?3 WHERE seq = ?1";
        tx.connection.prepare_cached(sql)?.execute((held.seq, reason.code.name(), &reason.text))?;
        tx.holdings().cancel(&held);
        audit_log::insert(tx, &asked(held.tenant, held.job, "REQUESTED"))?;
        return Ok(Cancelled::Requested(held.node));
    }
    if let Some(unheld) = Unheld::find(tx, run)? {
        unheld.end(tx, run, Outcome::Cancelled, reason)?;
        audit_log::insert(tx, &asked(unheld.tenant, unheld.job, Outcome::Cancelled.name()))?;
        return Ok(Cancelled::Ended);
    }
    Ok(Cancelled::NotFound)
}

/// Decides about a run that is HELD.
pub(super) fn decide(
    tx: &mut Tx<'_>,
    run: RunId,
    answer: LostAnswer,
    reason: &Reason,
    by: &str,
) -> Result<Decided> {
    let waiting = wake::waiting_for_decision(tx.connection, run)?;
    let (Some(waiting), Some(unheld)) = (waiting.first(), Unheld::find(tx, run)?) else {
        return Ok(Decided::NotHeld);
    };
    let decided = Decided::from_answer(answer);
    match decided {
        Decided::Ended(outcome) => unheld.end(tx, run, outcome, reason)?,
        Decided::Again | Decided::NotHeld => wake::wake(tx, waiting)?,
    }
    let event = Event {
        tenant: unheld.tenant,
        actor: by.to_owned(),
        kind: Kind::RunDecided,
        job: Some(unheld.job),
        run: Some(run),
        outcome: answer.name().to_owned(),
        details: reason.text.clone(),
    };
    audit_log::insert(tx, &event)?;
    Ok(decided)
}

/// A live run that no node holds.
struct Unheld {
    seq: i64,
    job: JobId,
    tenant: TenantId,
    lane: i64,
    due_at: i64,
    order_at: i64,
    attempts: u32,
    lost: u32,
    wait: u8,
}

impl Unheld {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Unheld {
            seq: row.get(0)?,
            job: JobId(row.get(1)?),
            tenant: TenantId(row.get(2)?),
            lane: row.get(3)?,
            due_at: row.get(4)?,
            order_at: row.get(5)?,
            attempts: row.get(6)?,
            lost: row.get(7)?,
            wait: row.get(8)?,
        })
    }

    /// A run that has not ended, and where it is to be found.
    fn find(tx: &Tx<'_>, run: RunId) -> Result<Option<Self>> {
        let sql = "SELECT seq, job_id, tenant_id, lane, due_at, order_at, attempts, lost, wait
                   FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends
                   WHERE ends.seq = runs.seq)";
        Ok(tx.connection.prepare_cached(sql)?.query_row((run.0,), Unheld::of).optional()?)
    }

    fn end(&self, tx: &mut Tx<'_>, run: RunId, outcome: Outcome, reason: &Reason) -> Result<()> {
        let (connection, seq) = (tx.connection, self.seq);
        connection.prepare_cached(sql!("live_delete"))?.execute((
            self.job.0,
            self.order_at,
            run.0,
        ))?;
        if self.wait == 0 {
            let place = (self.tenant.0, self.lane, self.due_at, seq);
            connection.prepare_cached(sql!("queue_delete"))?.execute(place)?;
        } else {
            connection.prepare_cached(sql!("run_wake"))?.execute((seq, self.order_at))?;
        }
        let end = End {
            seq,
            outcome,
            reason: Some((reason.code.name(), &reason.text)),
            dead_letter: outcome == Outcome::Failed,
            attempts: self.attempts,
            lost: self.lost,
            fence: None,
            attempt: None,
        };
        let whose = RunRef { run, job: self.job, tenant: self.tenant };
        let finished_at = ends::record(tx, whose, &end)?;
        let mut freed = Freed::default();
        if run.is_part() {
            return Ok(());
        }
        freed.ended(self.job, outcome, finished_at, 1);
        freed.wake(tx, 0)?;
        Ok(())
    }
}
