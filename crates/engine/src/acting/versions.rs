//! The versions of a job, its former names, and the records of deleted jobs.

use std::collections::{HashMap, HashSet};

use domain::access::Deed;
use domain::id::JobId;
use domain::job::{Job, JobState};
use store::{JobVersion, Page, RunView};

use super::AuthorizedEngine;
use crate::error::{EngineError, Result};

/// At most so many jobs are found by a name that they have or had.
const NAMED_MAX: u32 = 100;

impl AuthorizedEngine<'_> {
    /// The versions of a job, newest first, that are older than the given one.
    pub async fn job_versions(
        &self,
        id: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Page<JobVersion, u32>> {
        self.job_for(id, Deed::SeeJob).await?;
        Ok(self.node().store.job_versions(id, before, limit).await?)
    }

    /// One version of a job.
    pub async fn job_version(&self, id: JobId, version: u32) -> Result<JobVersion> {
        self.job_for(id, Deed::SeeJob).await?;
        let found = self.node().store.job_version(id, version).await?;
        found.ok_or_else(|| EngineError::NotFound(format!("version {version} of job {id}")))
    }

    /// Gives a job the definition of an earlier version, as a new version, if `check` agrees. Its
    /// name and its state stay; a one-time job that has run gets ready for its new time. A job that
    /// has this definition is left as it is.
    pub async fn restore_job<E: From<EngineError>>(
        &self,
        id: JobId,
        version: u32,
        check: impl FnOnce(&Job) -> std::result::Result<(), E> + Send,
    ) -> std::result::Result<Job, E> {
        let job = self.job_for(id, Deed::AlterJob).await?;
        let old = self.job_version(id, version).await?;
        if job.definition == old.definition {
            check(&job)?;
            return Ok(job);
        }
        let restore = |job: &mut Job| {
            check(job)?;
            let is_rescheduled = job.definition.when != old.definition.when;
            if job.state == JobState::Completed && is_rescheduled {
                job.state = JobState::Enabled;
            }
            job.definition = old.definition;
            Ok(())
        };
        self.alter_job(id, restore).await
    }

    /// The names that the jobs of some runs had when they were recorded, by job and version. A job
    /// of which nothing is left has no name. `jobs` are those that are known already.
    pub async fn names_of<'j>(
        &self,
        runs: impl IntoIterator<Item = &RunView>,
        jobs: impl IntoIterator<Item = &'j Job>,
    ) -> Result<HashMap<(JobId, u32), String>> {
        let mut names: HashMap<(JobId, u32), String> =
            jobs.into_iter().map(|job| ((job.id, job.version), job.name.clone())).collect();
        let wanted = runs.into_iter().map(|run| (run.job, run.job_version));
        let unknown: HashSet<(JobId, u32)> = wanted.filter(|it| !names.contains_key(it)).collect();
        if unknown.is_empty() {
            return Ok(names);
        }
        let unknown: Vec<(JobId, u32)> = unknown.into_iter().collect();
        let found = self.node().store.job_names(&unknown).await?;
        names.extend(unknown.into_iter().zip(found).filter_map(|(of, name)| Some((of, name?))));
        Ok(names)
    }

    /// Jobs by id, deleted ones included, as far as the actor sees them.
    pub async fn jobs_ever(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let mut jobs = self.node().store.jobs_ever(ids).await?;
        jobs.retain(|job| self.sees_job(job));
        Ok(jobs)
    }

    /// The jobs of the tenant that have or had a name, deleted ones included, as far as the actor
    /// sees them: the present one first.
    pub async fn jobs_ever_named(&self, name: &str) -> Result<Vec<Job>> {
        let tenant = self.actor.tenant;
        let mut jobs = self.node().store.jobs_ever_named(tenant, name, NAMED_MAX).await?;
        jobs.retain(|job| self.sees_job(job));
        Ok(jobs)
    }

    /// Deleted jobs of the tenant that the actor sees, the youngest first, and where to go on.
    pub async fn deleted_jobs(
        &self,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Page<Job, JobId>> {
        let mut items = self.node().store.deleted_jobs(self.actor.tenant, before, limit).await?;
        let next = items.last().filter(|_| items.len() == limit as usize).map(|job| job.id);
        items.retain(|job| self.sees_job(job));
        Ok(Page { items, next })
    }
}
