//! The versions of a job: every definition that it has had.

use domain::access::Deed;
use domain::id::JobId;
use domain::job::{Job, JobState};
use store::{JobVersion, Page};

use super::AuthorizedEngine;
use crate::error::{EngineError, Result};

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
}
