//! Reads that only explanations need.

use domain::audit::Kind;
use domain::id::{JobId, RunId};
use domain::run::Wait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::pipeline::values;
use super::row::at;
use crate::explain::{AHEAD_MAX, cancel_of};
use crate::lane::{priority_of, slot_of};
use crate::{AuditedEvent, ExplainReads, LiveRun, Result};

impl ExplainReads for PostgresStore {
    async fn live_run(&self, run: RunId) -> Result<Option<LiveRun>> {
        let values = values![run.0, i64::from(AHEAD_MAX)];
        let rows = self.shared.query(sql!("explain_live"), values).await?;
        rows.first().map(live_run).transpose()
    }

    async fn job_events(&self, job: JobId, limit: u32) -> Result<Vec<AuditedEvent>> {
        let values = values![job.0, i64::from(limit)];
        self.shared.query(sql!("explain_job_events"), values).await?.iter().map(event).collect()
    }

    async fn run_events(&self, run: RunId, limit: u32) -> Result<Vec<AuditedEvent>> {
        let values = values![run.0, i64::from(limit)];
        self.shared.query(sql!("explain_run_events"), values).await?.iter().map(event).collect()
    }
}

fn live_run(row: &Row) -> Result<LiveRun> {
    let count = |column: usize| -> Result<u32> {
        Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(AHEAD_MAX))
    };
    let lane = i64::from(row.try_get::<_, i16>(4)?);
    Ok(LiveRun {
        wait: Wait::from_number(i64::from(row.try_get::<_, i16>(0)?)),
        wait_until: row.try_get::<_, Option<i64>>(1)?.map(at),
        cancel: cancel_of(row.try_get(2)?, row.try_get(3)?),
        priority: priority_of(lane),
        slot: slot_of(lane),
        ahead: count(5)?,
        line_ahead: count(6)?,
    })
}

/// at, actor, kind, outcome, details
fn event(row: &Row) -> Result<AuditedEvent> {
    let kind: String = row.try_get(2)?;
    Ok(AuditedEvent {
        at: at(row.try_get(0)?),
        actor: row.try_get(1)?,
        kind: Kind::of(&kind),
        outcome: row.try_get(3)?,
        details: row.try_get(4)?,
    })
}
