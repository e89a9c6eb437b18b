//! Queries about runs. They are written for each database where a statement takes a list of jobs,
//! or where pages are cut by hand: a run and its end are two rows here.

use domain::id::{JobId, RunId, TenantId};
use uuid::Uuid;

use super::ends::outcome_of;
use super::read::views;
use super::row::{at, us};
use super::{SqliteStore, live_run, starts};
use crate::run_queries;
use crate::{
    LastRun, LiveCounts, LiveRun, Page, RecentEnd, Result, RunQueries, RunView, StartFilter,
    StartKey,
};

impl RunQueries for SqliteStore {
    async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        run_queries::attempt_output(self, run, number).await
    }

    async fn live(&self, tenant: TenantId) -> Result<LiveCounts> {
        run_queries::live(self, tenant).await
    }

    async fn live_run(&self, run: RunId) -> Result<Option<LiveRun>> {
        let now = us(self.clock.now());
        self.read(move |connection| {
            // One snapshot for the run and those before it.
            let snapshot = connection.unchecked_transaction()?;
            live_run::read(&snapshot, run, now)
        })
        .await
    }

    async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("last_run"))?;
            let mut found = Vec::with_capacity(jobs.len());
            for job in jobs {
                let mut rows = query.query((job.0,))?;
                if let Some(row) = rows.next()? {
                    let (scheduled_for, outcome) = (at(row.get(0)?)?, outcome_of(row.get(1)?)?);
                    found.push(LastRun { job, scheduled_for, outcome });
                }
            }
            Ok(found)
        })
        .await
    }

    async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        let jobs = jobs.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("recent_ends"))?;
            let mut found = Vec::new();
            for job in jobs {
                let mut rows = query.query((job.0, limit))?;
                while let Some(row) = rows.next()? {
                    found.push(RecentEnd {
                        job,
                        run: RunId(row.get(0)?),
                        scheduled_for: at(row.get(1)?)?,
                        outcome: outcome_of(row.get(2)?)?,
                        job_version: row.get(3)?,
                    });
                }
            }
            Ok(found)
        })
        .await
    }

    async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.read(move |connection| starts::latest(connection, &filter, after, limit, now)).await
    }

    async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let now = self.clock.now();
        self.read(move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            // Runs with attempts that were followed by another one, or by another end, newest
            // first.
            let sql = "SELECT DISTINCT run_id FROM attempts WHERE run_id < ?1
                       ORDER BY run_id DESC LIMIT ?2";
            let mut query = snapshot.prepare_cached(sql)?;
            let before = before.map_or(Uuid::max(), |before| before.0);
            let ids = query.query_map((before, limit), |row| Ok(RunId(row.get(0)?)))?;
            let ids = ids.collect::<rusqlite::Result<Vec<RunId>>>()?;
            let next = ids.last().copied().filter(|_| ids.len() == limit as usize);
            Ok(Page { items: views(&snapshot, ids.into_iter(), now)?, next })
        })
        .await
    }
}
