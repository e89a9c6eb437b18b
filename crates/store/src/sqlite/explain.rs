//! Reads that only explanations need.

use domain::audit::Kind;
use domain::id::{JobId, RunId};
use domain::run::Wait;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::SqliteStore;
use super::row::{at, at_opt, us};
use crate::explain::{AHEAD_MAX, cancel_of};
use crate::lane::{PRIORITIES, priority_of, slot_of};
use crate::{AuditedEvent, ExplainReads, LiveRun, Result};

impl ExplainReads for SqliteStore {
    async fn live_run(&self, run: RunId) -> Result<Option<LiveRun>> {
        let now = us(self.clock.now());
        self.read(move |connection| {
            // One snapshot for the run and those before it.
            let snapshot = connection.unchecked_transaction()?;
            live_run(&snapshot, run, now)
        })
        .await
    }

    async fn job_events(&self, job: JobId, limit: u32) -> Result<Vec<AuditedEvent>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("explain_job_events"))?;
            query.query_and_then((job.0, limit), event)?.collect()
        })
        .await
    }

    async fn run_events(&self, run: RunId, limit: u32) -> Result<Vec<AuditedEvent>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("explain_run_events"))?;
            query.query_and_then((run.0, limit), event)?.collect()
        })
        .await
    }
}

fn live_run(snapshot: &Connection, run: RunId, now: i64) -> Result<Option<LiveRun>> {
    let mut query = snapshot.prepare_cached(sql!("explain_live"))?;
    let mut rows = query.query((run.0,))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, job, tenant): (i64, Uuid, Uuid) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (lane, due_at, order_at): (i64, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
    let wait = Wait::from_number(row.get(6)?);
    let mut ahead = 0;
    if wait.is_none() {
        let mut count = snapshot.prepare_cached(sql!("explain_ahead"))?;
        let slot = lane - lane % PRIORITIES;
        for other in lane..slot + PRIORITIES {
            // All of a more urgent lane that are due, and those before it in its own lane.
            let before = if other == lane { (due_at, seq) } else { (now, i64::MAX) };
            let counted: u32 = count
                .query_row((tenant, other, before.0, before.1, AHEAD_MAX), |row| row.get(0))?;
            ahead = AHEAD_MAX.min(ahead + counted);
        }
    }
    let line_ahead: Option<u32> = snapshot
        .prepare_cached(sql!("explain_line"))?
        .query_row((job, order_at, run.0, AHEAD_MAX), |row| row.get(0))
        .optional()?;
    Ok(Some(LiveRun {
        wait,
        wait_until: at_opt(row.get(7)?)?,
        cancel: cancel_of(row.get(8)?, row.get(9)?),
        priority: priority_of(lane),
        slot: slot_of(lane),
        ahead,
        line_ahead: line_ahead.unwrap_or_default(),
    }))
}

/// at, actor, kind, outcome, details
fn event(row: &Row<'_>) -> Result<AuditedEvent> {
    let kind: String = row.get(2)?;
    Ok(AuditedEvent {
        at: at(row.get(0)?)?,
        actor: row.get(1)?,
        kind: Kind::of(&kind),
        outcome: row.get(3)?,
        details: row.get(4)?,
    })
}
