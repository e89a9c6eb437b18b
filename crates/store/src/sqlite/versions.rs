//! The versions of jobs.

use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job};
use rusqlite::{OptionalExtension, Row};
use uuid::Uuid;

use super::SqliteStore;
use super::row::{at, job, job_state};
use super::writer::Tx;
use crate::versions::{DELETED_KEPT_US, changed_text, forgotten_before, page};
use crate::{JobRecords, JobVersion, Page, PrunedJobs, Result, StoreError};

impl JobRecords for SqliteStore {
    async fn job_versions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Page<JobVersion, u32>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_version_list"))?;
            let before = before.map_or(i64::MAX, i64::from);
            let rows = query.query_and_then((job.0, before, i64::from(limit) + 1), version)?;
            Ok(page(rows.collect::<Result<_>>()?, limit))
        })
        .await
    }

    async fn job_names(&self, of: &[(JobId, u32)]) -> Result<Vec<Option<String>>> {
        let of = of.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_version_name"))?;
            let mut name =
                |(job, version): (JobId, u32)| query.query_row((job.0, version), |row| row.get(0));
            Ok(of.into_iter().map(|it| name(it).optional()).collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn jobs_ever(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let ids = ids.to_vec();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_ever"))?;
            let mut jobs = Vec::with_capacity(ids.len());
            for id in ids {
                let mut rows = query.query((id.0,))?;
                if let Some(row) = rows.next()? {
                    jobs.push(job(row)?);
                }
            }
            Ok(jobs)
        })
        .await
    }

    async fn jobs_ever_named(&self, tenant: TenantId, name: &str, limit: u32) -> Result<Vec<Job>> {
        let name = name.to_owned();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_ever_named"))?;
            query.query_and_then((tenant.0, name, limit), job)?.collect()
        })
        .await
    }

    async fn deleted_jobs(
        &self,
        tenant: TenantId,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Job>> {
        let before = before.map_or(Uuid::max(), |job| job.0);
        self.read(move |connection| {
            let mut query = connection.prepare_cached(sql!("job_deleted"))?;
            query.query_and_then((tenant.0, before, limit), job)?.collect()
        })
        .await
    }

    async fn prune_deleted_jobs(&self, after: Option<JobId>, limit: u32) -> Result<PrunedJobs> {
        let after = after.map_or(Uuid::nil(), |job| job.0);
        self.writer
            .write(move |tx| {
                let mut query = tx.connection.prepare_cached(sql!("job_deleted_look"))?;
                let values = (after, tx.now_us() - DELETED_KEPT_US, limit);
                let looked: Vec<(Uuid, bool)> = query
                    .query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect::<rusqlite::Result<_>>()?;
                let last = looked.last().map(|(job, _)| JobId(*job));
                let mut removed = 0;
                for (job, _) in looked.iter().filter(|(_, is_left_over)| *is_left_over) {
                    tx.connection.prepare_cached(sql!("job_remove"))?.execute((job,))?;
                    tx.connection.prepare_cached(sql!("job_version_remove"))?.execute((job,))?;
                    removed += 1;
                }
                Ok(PrunedJobs { removed, last })
            })
            .await
    }
}

/// Keeps the present version of a job that was just written.
pub(super) fn keep(
    tx: &Tx<'_>,
    job: JobId,
    at_us: i64,
    by: &str,
    changed: &[&'static str],
) -> Result<()> {
    let mut insert = tx.connection.prepare_cached(sql!("job_version_insert"))?;
    insert.execute((job.0, at_us, by, changed_text(changed)))?;
    Ok(())
}

/// Forgets the versions of a job that are too old when it gets this one.
pub(super) fn forget_old(tx: &Tx<'_>, job: JobId, version: u32) -> Result<()> {
    if let Some(oldest) = forgotten_before(version) {
        tx.connection.prepare_cached(sql!("job_version_forget"))?.execute((job.0, oldest))?;
    }
    Ok(())
}

/// job_id, version, name, state, definition, changed_at, changed_by, changed
fn version(row: &Row<'_>) -> Result<JobVersion> {
    let text = |index: usize| {
        row.get_ref(index)?.as_str().map_err(|error| StoreError::Unreadable(error.to_string()))
    };
    JobVersion {
        job: JobId(row.get(0)?),
        version: row.get(1)?,
        name: row.get(2)?,
        state: job_state(text(3)?)?,
        definition: Definition::default(),
        changed_at: at(row.get(5)?)?,
        changed_by: row.get(6)?,
        changed: Vec::new(),
    }
    .parse(text(4)?, text(7)?)
}
