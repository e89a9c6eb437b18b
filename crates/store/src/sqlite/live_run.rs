//! Wait of a live run.

use domain::id::RunId;
use domain::run::Wait;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::row::at_opt;
use crate::lane::{PRIORITIES, priority_of, slot_of};
use crate::run_queries::cancel_reason;
use crate::{AHEAD_MAX, LiveRun, Result};

/// A run that has not ended.
const FIND: &str = "
    SELECT seq, job_id, tenant_id, lane, due_at, order_at, wait, wait_until, cancel_code,
        cancel_text
    FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)";

/// Runs of a lane that can be claimed before another one.
const COUNT_AHEAD: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM queue
        WHERE tenant_id = ?1 AND lane = ?2 AND (due_at, seq) < (?3, ?4) LIMIT ?5
    )";

/// Runs of a job that wait in line before another one.
const COUNT_IN_LINE: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM runs
        WHERE job_id = ?1 AND wait = 1 AND (order_at, id) < (?2, ?3)
            AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
        LIMIT ?4
    )";

/// Reads a run that has not ended, and counts the runs before it.
pub(super) fn read(snapshot: &Connection, run: RunId, now: i64) -> Result<Option<LiveRun>> {
    let mut query = snapshot.prepare_cached(FIND)?;
    let mut rows = query.query((run.0,))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, job, tenant): (i64, Uuid, Uuid) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (lane, due_at, order_at): (i64, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
    let wait = Wait::from_number(row.get(6)?);
    let mut ahead = 0;
    if wait.is_none() {
        let mut count = snapshot.prepare_cached(COUNT_AHEAD)?;
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
        .prepare_cached(COUNT_IN_LINE)?
        .query_row((job, order_at, run.0, AHEAD_MAX), |row| row.get(0))
        .optional()?;
    Ok(Some(LiveRun {
        wait,
        wait_until: at_opt(row.get(7)?)?,
        cancel: cancel_reason(row.get(8)?, row.get(9)?),
        priority: priority_of(lane),
        slot: slot_of(lane),
        ahead,
        line_ahead: line_ahead.unwrap_or_default(),
    }))
}
