//! Finding and reading jobs.

use domain::bucket::Buckets;
use domain::id::JobId;
use domain::job::Job;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, job, span_us, text};
use crate::{DueJobs, JobFilter, Page, Result};

impl Shared {
    pub(super) async fn now(&self) -> Result<Timestamp> {
        let sql = "SELECT clock()";
        Ok(at(self.query_one(sql, values![]).await?.try_get(0)?))
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
            // Its times are planned when it can be read again.
            jobs.extend(Some(job(row)?).filter(|job| job.definition.unreadable.is_none()));
        }
        Ok(DueJobs { now, jobs })
    }

    pub(super) async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(sql!("job_by_id"), values![ids]).await?.iter().map(job).collect()
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
}
