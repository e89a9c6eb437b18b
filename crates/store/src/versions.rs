//! What is kept of jobs besides their present definition: every version with its author, the names
//! that they had, and deleted jobs as long as their history is there.
//!
//! A version is written in the transaction of the change itself, so that the list has no gaps. A job
//! keeps its newest [`VERSIONS_MAX`] versions.

use std::future::Future;

use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, JobState};
use jiff::Timestamp;

use crate::{Page, Result, Store, StoreError};

/// A job keeps this many versions.
pub const VERSIONS_MAX: u32 = 1_000;

/// The record of a deleted job stays at least this long, in microseconds.
pub(crate) const DELETED_KEPT_US: i64 = 24 * 3_600 * 1_000_000;

/// A store that keeps the versions of jobs, and deleted jobs.
pub trait JobRecords: Store {
    /// The versions of a job, newest first, that are older than the given one. Versions of a deleted
    /// job are kept as long as the job's record is.
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
    ) -> impl Future<Output = Result<Option<JobVersion>>> + Send {
        async move {
            let before = version.checked_add(1);
            let newest = self.job_versions(job, before, 1).await?.items.pop();
            Ok(newest.filter(|found| found.version == version))
        }
    }

    /// The names that jobs had in some versions, in the order of the questions. A version that is no
    /// longer kept has the last name of its job; a job of which nothing is left has none.
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

    /// Removes deleted jobs without history, with their versions, among the next `limit` by id after
    /// the given one. A job that was deleted within the last day stays.
    fn prune_deleted_jobs(
        &self,
        after: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<PrunedJobs>> + Send;
}

/// What a look for deleted jobs without history found.
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
    /// Who made it.
    pub changed_by: String,
    /// The fields that differ from the version before, by their REST names; none in the first one.
    pub changed: Vec<String>,
}

impl JobVersion {
    /// A version from the texts of its row.
    pub(crate) fn parse(self, definition: &str, changed: &str) -> Result<JobVersion> {
        let unreadable = |error: serde_json::Error| {
            let (version, name) = (self.version, &self.name);
            StoreError::Unreadable(format!("version {version} of job {name}: {error}"))
        };
        let definition = serde_json::from_str(definition).map_err(unreadable)?;
        let changed = serde_json::from_str(changed).map_err(unreadable)?;
        Ok(JobVersion { definition, changed, ..self })
    }
}

/// The fields that a change makes others, as they are stored.
pub(crate) fn changed_text(changed: &[&'static str]) -> String {
    serde_json::json!(changed).to_string()
}

/// The newest version that is forgotten when a job gets this version, if one is.
pub(crate) fn forgotten_before(version: u32) -> Option<u32> {
    version.checked_sub(VERSIONS_MAX).filter(|version| *version > 0)
}

/// A page of what was read with one more than asked for.
pub(crate) fn page(mut items: Vec<JobVersion>, limit: u32) -> Page<JobVersion, u32> {
    let has_more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| has_more).map(|last| last.version);
    Page { items, next }
}
