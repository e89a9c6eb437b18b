//! The versions of jobs.

use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, values};
use super::row::{at, job, job_state, signed, text, unsigned};
use crate::author::author;
use crate::versions::{DELETED_KEPT_US, changed_text, forgotten_before, page};
use crate::{Change, JobRecords, JobVersion, Page, PrunedJobs, Result};

impl JobRecords for PostgresStore {
    async fn job_versions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Page<JobVersion, u32>> {
        let before = before.map_or(i32::MAX, |version| i32::try_from(version).unwrap_or(i32::MAX));
        let values = values![job.0, before, i64::from(limit) + 1];
        let rows = self.shared.query(sql!("job_version_list"), values).await?;
        let items: Result<Vec<JobVersion>> = rows.iter().map(version).collect();
        Ok(page(items?, limit))
    }

    async fn job_names(&self, of: &[(JobId, u32)]) -> Result<Vec<Option<String>>> {
        let (jobs, versions): (Vec<Uuid>, Vec<i32>) =
            of.iter().map(|(job, version)| (job.0, signed(*version))).unzip();
        let rows = self.shared.query(sql!("job_version_names"), values![jobs, versions]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn jobs_ever(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.shared.query(sql!("job_ever"), values![ids]).await?.iter().map(job).collect()
    }

    async fn jobs_ever_named(&self, tenant: TenantId, name: &str, limit: u32) -> Result<Vec<Job>> {
        let values = values![tenant.0, text(name), i64::from(limit)];
        self.shared.query(sql!("job_ever_named"), values).await?.iter().map(job).collect()
    }

    async fn deleted_jobs(
        &self,
        tenant: TenantId,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Job>> {
        let before = before.map_or(Uuid::max(), |job| job.0);
        let values = values![tenant.0, before, i64::from(limit)];
        self.shared.query(sql!("job_deleted"), values).await?.iter().map(job).collect()
    }

    async fn prune_deleted_jobs(&self, after: Option<JobId>, limit: u32) -> Result<PrunedJobs> {
        let after = after.map_or(Uuid::nil(), |job| job.0);
        let values = values![after, DELETED_KEPT_US, i64::from(limit)];
        let row = self.shared.query_one(sql!("job_deleted_prune"), values).await?;
        let last: Option<Uuid> = row.try_get(1)?;
        let removed = row.try_get::<_, i64>(0)?.cast_unsigned();
        Ok(PrunedJobs { removed, last: last.map(JobId) })
    }
}

/// Keeps the versions that changes make: the statement finds out which jobs were written.
pub(super) fn keep(wave: &[Change], pipeline: &mut Pipeline<'_>) {
    let jobs: Vec<Uuid> = wave.iter().map(|change| change.job.id.0).collect();
    let versions: Vec<i32> = wave.iter().map(|change| signed(change.job.version)).collect();
    let changed: Vec<String> = wave.iter().map(|change| changed_text(&change.changed)).collect();
    let by = text(&author()).into_owned();
    pipeline.push(sql!("job_version_insert"), values![jobs, by, versions, changed]);
    let oldest = |change: &Change| Some((change.job.id.0, forgotten_before(change.job.version)?));
    let (jobs, oldest): (Vec<Uuid>, Vec<u32>) = wave.iter().filter_map(oldest).unzip();
    if !jobs.is_empty() {
        let oldest: Vec<i32> = oldest.into_iter().map(signed).collect();
        pipeline.push(sql!("job_version_forget"), values![jobs, oldest]);
    }
}

/// job_id, version, name, state, definition, changed_at, changed_by, changed
fn version(row: &Row) -> Result<JobVersion> {
    JobVersion {
        job: JobId(row.try_get(0)?),
        version: unsigned(row.try_get(1)?),
        name: row.try_get(2)?,
        state: job_state(row.try_get(3)?)?,
        definition: Definition::default(),
        changed_at: at(row.try_get(5)?),
        changed_by: row.try_get(6)?,
        changed: Vec::new(),
    }
    .parse(row.try_get(4)?, row.try_get(7)?)
}
