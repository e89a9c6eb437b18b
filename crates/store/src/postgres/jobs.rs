//! Finding and reading jobs.

use std::borrow::Cow;

use domain::bucket::Buckets;
use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, Retention};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, job, span_us, text};
use crate::{DueJobs, JobFilter, Page, Result, StoreError};

impl Shared {
    pub(super) async fn now(&self) -> Result<Timestamp> {
        Ok(at(self.query_one(sql!("clock"), values![]).await?.try_get(0)?))
    }

    pub(super) async fn due_jobs(
        &self,
        ahead: SignedDuration,
        limit: u32,
        of: &Buckets,
    ) -> Result<DueJobs> {
        let some = (*of != Buckets::ALL).then(|| of.bits());
        let values = values![span_us(ahead), i64::from(limit), some];
        let rows = self.query(sql!("job_due"), values).await?;
        let mut now = Timestamp::UNIX_EPOCH;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            now = at(row.try_get(10)?);
            if row.try_get::<_, Option<Uuid>>(0)?.is_none() {
                continue;
            }
            match job(row) {
                Ok(job) => jobs.push(job),
                // One unreadable job must not stop the others.
                Err(StoreError::Unreadable(problem)) => {
                    tracing::error!(%problem, "a job cannot be planned");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(DueJobs { now, jobs })
    }

    pub(super) async fn retention_rules(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<(JobId, Retention)>> {
        let after = after.map_or(Uuid::nil(), |job| job.0);
        let rows = self.query(sql!("job_retention"), values![after, i64::from(limit)]).await?;
        let rule = |row: &Row| {
            let id = JobId(row.try_get(0)?);
            let definition: Definition =
                serde_json::from_str(row.try_get(1)?).map_err(|error| {
                    StoreError::Unreadable(format!("the definition of job {id}: {error}"))
                })?;
            Ok((id, definition.retention))
        };
        rows.iter().map(rule).collect()
    }

    pub(super) async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(sql!("job_by_id"), values![ids]).await?.iter().map(job).collect()
    }

    pub(super) async fn jobs_by_name(&self, tenant: TenantId, names: &[&str]) -> Result<Vec<Job>> {
        let names: Vec<Cow<'_, str>> = names.iter().map(|name| text(name)).collect();
        self.query(sql!("job_by_name"), values![tenant.0, names]).await?.iter().map(job).collect()
    }

    pub(super) async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        let first = text(filter.first_name(after));
        let mut values = values![filter.tenant.0, first, i64::from(filter.look(limit))];
        let sql = match &filter.tag {
            None => sql!("job_list"),
            Some(tag) => {
                values.push(Box::new(text(tag)));
                sql!("job_list_by_tag")
            }
        };
        filter.page(self.query(sql, values).await?.iter().map(job), after, limit)
    }

    pub(super) async fn dependencies(&self, tenant: TenantId) -> Result<Vec<(JobId, JobId)>> {
        let edge = |row: &Row| Ok((JobId(row.try_get(0)?), JobId(row.try_get(1)?)));
        self.query(sql!("job_graph"), values![tenant.0]).await?.iter().map(edge).collect()
    }
}
