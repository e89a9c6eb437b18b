//! Records of jobs besides their current definition: every version with its author, former names,
//! and deleted jobs as long as their history is kept.
//!
//! A version is written in the transaction of the change itself, so that the list has no gaps. A
//! job keeps its newest [`VERSIONS_MAX`] versions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, JobState};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::jobs::{job, job_state};
use crate::records::{Records, Row, Sql, Statement, Transaction, page, params};
use crate::{Page, Result, Store, StoreError};

/// A job keeps this many versions.
pub const VERSIONS_MAX: u32 = 1_000;

/// The record of a deleted job stays at least this long, in microseconds.
pub(crate) const DELETED_KEPT_US: i64 = 24 * 3_600 * 1_000_000;

/// A store that keeps the versions of jobs, and deleted jobs.
pub trait JobRecords: Store {
    /// The versions of a job, newest first, that are older than the given one. Versions of a
    /// deleted job are kept as long as the job's record is.
    fn job_versions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<JobVersion, u32>>> + Send;

    /// One version of a job; none if it was never there or is no longer kept.
    fn job_version(
        &self,
        job: JobId,
        version: u32,
    ) -> impl Future<Output = Result<Option<JobVersion>>> + Send;

    /// The names that jobs had in some versions, in the order of the questions. A version that is
    /// no longer kept has the last name of its job; a job of which nothing is left has none.
    fn job_names(
        &self,
        of: &[(JobId, u32)],
    ) -> impl Future<Output = Result<Vec<Option<String>>>> + Send;

    /// Jobs by id, deleted ones included, in no particular order; unknown ones are left out.
    fn jobs_ever(&self, ids: &[JobId]) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// The jobs of a tenant that have or had a name, deleted ones included, at most so many: the
    /// present ones first, the newest first among others.
    fn jobs_ever_named(
        &self,
        tenant: TenantId,
        name: &str,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// Deleted jobs of a tenant, the youngest job first, that are older than the given one.
    fn deleted_jobs(
        &self,
        tenant: TenantId,
        before: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Job>>> + Send;

    /// Removes deleted jobs without history, with their versions, among the next `limit` by id
    /// after the given one. A job that was deleted within the last day stays.
    fn prune_deleted_jobs(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<PrunedJobs>> + Send;
}

/// Result of pruning deleted jobs without history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedJobs {
    /// How many were removed.
    pub removed: u64,
    /// The last job that was looked at; none when there was no other one.
    pub last: Option<JobId>,
}

/// A job as one of its versions was.
#[derive(Clone, Debug, PartialEq)]
pub struct JobVersion {
    /// The job.
    pub job: JobId,
    /// The number of the version.
    pub version: u32,
    /// The name that the job had.
    pub name: String,
    /// The state that the job had when the version was made.
    pub state: JobState,
    /// The definition that the job had.
    pub definition: Definition,
    /// When the version was made.
    pub changed_at: Timestamp,
    /// Name of the user that made it.
    pub changed_by: String,
    /// The fields that differ from the version before, by their REST names; none in the first one.
    pub changed: Vec<String>,
}

impl<S: Records> JobRecords for S {
    async fn job_versions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Page<JobVersion, u32>> {
        let sql = "SELECT job_id, version, name, state, definition, changed_at, changed_by, changed
                   FROM job_versions WHERE job_id = $1 AND version < $2
                   ORDER BY version DESC LIMIT $3";
        let before = before.map_or(i64::MAX, i64::from);
        let statement = Statement::new(sql, params![job.0, before, u64::from(limit) + 1]);
        let items: Result<Vec<JobVersion>> =
            self.query(statement).await?.iter().map(version).collect();
        Ok(page(items?, limit, |last| last.version))
    }

    async fn job_version(&self, job: JobId, version: u32) -> Result<Option<JobVersion>> {
        let before = version.checked_add(1);
        let newest = self.job_versions(job, before, 1).await?.items.pop();
        Ok(newest.filter(|found| found.version == version))
    }

    async fn job_names(&self, of: &[(JobId, u32)]) -> Result<Vec<Option<String>>> {
        // Many runs of a page belong to the same version.
        let asked: BTreeSet<(JobId, u32)> = of.iter().copied().collect();
        let select = |(job, version): &(JobId, u32)| {
            let sql = "SELECT coalesce(v.name, j.name)
                       FROM jobs AS j
                       LEFT JOIN job_versions AS v ON v.job_id = j.id AND v.version = $2
                       WHERE j.id = $1";
            Statement::new(sql, params![job.0, *version])
        };
        let rows = self.query_each(asked.iter().map(select).collect()).await?;
        let mut names = BTreeMap::new();
        for (key, rows) in asked.into_iter().zip(rows) {
            if let Some(row) = rows.first() {
                names.insert(key, row.get::<String>(0)?);
            }
        }
        Ok(of.iter().map(|key| names.get(key).cloned()).collect())
    }

    async fn jobs_ever(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let select = |id: &JobId| {
            let sql =
                "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                           updated_at, owner_id
                       FROM jobs WHERE id = $1";
            Statement::new(sql, params![id.0])
        };
        let rows = self.query_each(ids.iter().map(select).collect()).await?;
        rows.iter().flatten().map(job).collect()
    }

    async fn jobs_ever_named(&self, tenant: TenantId, name: &str, limit: u32) -> Result<Vec<Job>> {
        let sql = "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                       updated_at, owner_id
                   FROM jobs
                   WHERE tenant_id = $1 AND id IN (SELECT job_id FROM job_versions WHERE name = $2)
                   ORDER BY name = $2 AND state <> 'DELETED' DESC, id DESC LIMIT $3";
        let statement = Statement::new(sql, params![tenant.0, name, limit]);
        self.query(statement).await?.iter().map(job).collect()
    }

    async fn deleted_jobs(
        &self,
        tenant: TenantId,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Job>> {
        // SQLite would take the index of the tenant's names, and sort.
        let sql = Sql::Differs {
            postgres:
                "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                           updated_at, owner_id
                       FROM jobs WHERE state = 'DELETED' AND id < $2 AND tenant_id = $1
                       ORDER BY id DESC LIMIT $3",
            sqlite: "SELECT id, tenant_id, name, version, state, definition, next_run, created_at,
                         updated_at, owner_id
                     FROM jobs INDEXED BY jobs_deleted
                     WHERE state = 'DELETED' AND id < $2 AND tenant_id = $1
                     ORDER BY id DESC LIMIT $3",
        };
        let before = before.map_or(Uuid::max(), |job| job.0);
        let statement = Statement::new(sql, params![tenant.0, before, limit]);
        self.query(statement).await?.iter().map(job).collect()
    }

    async fn prune_deleted_jobs(&self, after: Option<JobId>, limit: u32) -> Result<PrunedJobs> {
        // PostgreSQL keeps ended runs in a table of their own.
        let sql = Sql::Differs {
            postgres: "SELECT j.id, j.updated_at < {now} - $2
                           AND NOT EXISTS (
                               SELECT 1 FROM history AS h WHERE h.job_id BETWEEN j.id AND j.id
                           )
                           AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.job_id = j.id)
                       FROM jobs AS j WHERE j.state = 'DELETED' AND j.id > $1
                       ORDER BY j.id LIMIT $3",
            sqlite: "SELECT j.id, j.updated_at < {now} - $2
                         AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.job_id = j.id)
                     FROM jobs AS j INDEXED BY jobs_deleted
                     WHERE j.state = 'DELETED' AND j.id > $1
                     ORDER BY j.id LIMIT $3",
        };
        let after = after.map_or(Uuid::nil(), |job| job.0);
        let statement = Statement::new(sql, params![after, DELETED_KEPT_US, limit]);
        let mut last = None;
        let (mut jobs, mut versions) = (Vec::new(), Vec::new());
        for row in self.query(statement).await? {
            let job: Uuid = row.get(0)?;
            last = Some(JobId(job));
            if row.get(1)? {
                jobs.push(Statement::new(
                    "DELETE FROM jobs WHERE id = $1 AND state = 'DELETED'
                         AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = $1)",
                    params![job],
                ));
                versions.push(Statement::new(
                    "DELETE FROM job_versions
                     WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1)",
                    params![job],
                ));
            }
        }
        let count = jobs.len();
        jobs.extend(versions);
        let answers = self.commit(Transaction::from(jobs)).await?.unwrap_or_default();
        let removed = answers.iter().take(count).map(|answer| answer.affected).sum();
        Ok(PrunedJobs { removed, last })
    }
}

/// job_id, version, name, state, definition, changed_at, changed_by, changed
fn version(row: &Row) -> Result<JobVersion> {
    let (version, name): (u32, String) = (row.get(1)?, row.get(2)?);
    let (definition, changed): (String, String) = (row.get(4)?, row.get(7)?);
    let unreadable = |error: serde_json::Error| {
        StoreError::Unreadable(format!("version {version} of job {name}: {error}"))
    };
    Ok(JobVersion {
        job: JobId(row.get(0)?),
        version,
        state: job_state(&row.get::<String>(3)?)?,
        definition: serde_json::from_str(&definition).map_err(unreadable)?,
        changed_at: row.get(5)?,
        changed_by: row.get(6)?,
        changed: serde_json::from_str(&changed).map_err(unreadable)?,
        name,
    })
}

/// The fields that a change makes others, as they are stored.
pub(crate) fn changed_text<T: AsRef<str> + Serialize>(changed: &[T]) -> String {
    serde_json::json!(changed).to_string()
}

/// The newest version that is deleted when a job gets this version, if one is.
pub(crate) fn forgotten_before(version: u32) -> Option<u32> {
    version.checked_sub(VERSIONS_MAX).filter(|version| *version > 0)
}
