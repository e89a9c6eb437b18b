//! Queries about runs. They are written for each database where a statement takes a list of jobs,
//! or where pages are cut by hand: history is partitioned here.

use domain::id::{JobId, RunId, TenantId};
use domain::run::Wait;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::values;
use super::row::{at, outcome};
use crate::lane::{priority_of, slot_of};
use crate::run_queries::{self, cancel_reason};
use crate::{
    AHEAD_MAX, LastRun, LiveCounts, LiveRun, Page, RecentEnd, Result, RunQueries, RunView,
    StartFilter, StartKey,
};

impl RunQueries for PostgresStore {
    async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        run_queries::attempt_output(self, run, number).await
    }

    async fn live(&self, tenant: TenantId) -> Result<LiveCounts> {
        run_queries::live(self, tenant).await
    }

    async fn live_run(&self, run: RunId) -> Result<Option<LiveRun>> {
        let values = values![run.0, i64::from(AHEAD_MAX)];
        let rows = self.shared.query(sql!("live_run"), values).await?;
        rows.first().map(live_run).transpose()
    }

    async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let last = |row: &Row| {
            Ok(LastRun {
                job: JobId(row.try_get(0)?),
                scheduled_for: at(row.try_get(1)?),
                outcome: outcome(row.try_get(2)?)?,
            })
        };
        self.shared.query(sql!("last_runs"), values![ids]).await?.iter().map(last).collect()
    }

    async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let end = |row: &Row| {
            Ok(RecentEnd {
                job: JobId(row.try_get(0)?),
                run: RunId(row.try_get(1)?),
                scheduled_for: at(row.try_get(2)?),
                outcome: outcome(row.try_get(3)?)?,
                job_version: row.try_get::<_, i32>(4)?.cast_unsigned(),
            })
        };
        let rows = self.shared.query(sql!("recent_ends"), values![ids, i64::from(limit)]).await?;
        rows.iter().map(end).collect()
    }

    async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        self.shared.latest_starts(filter, after, limit).await
    }

    async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let before = before.map_or(Uuid::max(), |before| before.0);
        let values = values![before, i64::from(limit)];
        // Runs with attempts that were followed by another one, or by another end, newest first.
        let sql = "SELECT DISTINCT run_id FROM attempts WHERE run_id < $1::uuid
                   ORDER BY run_id DESC LIMIT $2::bigint";
        let rows = self.shared.query(sql, values).await?;
        let ids = rows.iter().map(|row| Ok(RunId(row.try_get(0)?)));
        let ids = ids.collect::<Result<Vec<RunId>>>()?;
        let next = ids.last().copied().filter(|_| ids.len() == limit as usize);
        Ok(Page { items: self.shared.views(&ids).await?, next })
    }
}

/// wait, wait_until, cancel_code, cancel_text, lane, ahead, line_ahead
fn live_run(row: &Row) -> Result<LiveRun> {
    let count = |column: usize| -> Result<u32> {
        Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(AHEAD_MAX))
    };
    let lane = i64::from(row.try_get::<_, i16>(4)?);
    Ok(LiveRun {
        wait: Wait::from_number(i64::from(row.try_get::<_, i16>(0)?)),
        wait_until: row.try_get::<_, Option<i64>>(1)?.map(at),
        cancel: cancel_reason(row.try_get(2)?, row.try_get(3)?),
        priority: priority_of(lane),
        slot: slot_of(lane),
        ahead: count(5)?,
        line_ahead: count(6)?,
    })
}
