//! What people want to know.

use domain::id::{JobId, RunId, TenantId};
use domain::job::Job;
use store::{AttemptView, Counts, Page, RunView, Store};

use crate::error::Result;
use crate::node::Node;

impl<S: Store> Node<S> {
    /// Jobs by id, in no particular order; unknown and deleted ones are left out.
    pub async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        Ok(self.store.jobs_by_id(ids).await?)
    }

    /// A job by its name.
    pub async fn job_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Job>> {
        Ok(self.store.job_by_name(tenant, name).await?)
    }

    /// A tenant's jobs by name, after the given one.
    pub async fn list_jobs(
        &self,
        tenant: TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        Ok(self.store.list_jobs(tenant, after, limit).await?)
    }

    /// A run, live or ended.
    pub async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        Ok(self.store.run(id).await?)
    }

    /// A job's runs, newest first, older than the given one.
    pub async fn runs_of_job(
        &self,
        job: JobId,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        Ok(self.store.runs_of_job(job, before, limit).await?)
    }

    /// A run's ended attempts, oldest first.
    pub async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        Ok(self.store.attempts(run).await?)
    }

    /// How much there is of what.
    pub async fn counts(&self) -> Result<Counts> {
        Ok(self.store.counts().await?)
    }
}
