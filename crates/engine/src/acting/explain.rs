//! Explanations, as far as the actor may see what they are about.

use domain::access::Deed;
use domain::decide::explain::Report;
use domain::id::{JobId, RunId};
use domain::job::Job;
use domain::schedule::{AtError, Zone};
use jiff::SignedDuration;

use super::{AuthorizedEngine, no_run};
use crate::error::{EngineError, Result};

/// So many jobs that once had a name are looked at.
const ONCE_NAMED_MAX: u32 = 20;

/// The explanation of a job or a run.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The job, which may be deleted or have another name than the one that was asked for.
    pub job: Job,
    /// The explanation.
    pub report: Report,
}

impl AuthorizedEngine<'_> {
    /// The job that has an id or a name, or once had it: a deleted job and one with another name
    /// are explained too.
    pub async fn job_to_explain(&self, text: &str) -> Result<Job> {
        let node = self.node();
        if let Ok(id) = text.parse::<JobId>()
            && let Some(job) = node.store.jobs_ever(&[id]).await?.pop()
        {
            return self.seen_as(job, text);
        }
        if let Some(job) = node.job_by_name(self.actor.tenant, text).await? {
            return self.seen_as(job, text);
        }
        let once = node.store.jobs_ever_named(self.actor.tenant, text, ONCE_NAMED_MAX).await?;
        let mut seen = once.into_iter().filter(|job| self.may_with(job, Deed::SeeRuns).is_ok());
        seen.next().ok_or_else(|| EngineError::NotFound(format!("job {text:?}")))
    }

    /// The job, if the actor may see its runs. The answer about one that is not seen has nothing of
    /// the job, not even its id.
    fn seen_as(&self, job: Job, text: &str) -> Result<Job> {
        match self.may_with(&job, Deed::SeeRuns) {
            Ok(()) => Ok(job),
            Err(EngineError::NotFound(_)) => Err(EngineError::NotFound(format!("job {text:?}"))),
            Err(error) => Err(error),
        }
    }

    /// Says how a job is doing, or why it did or did not run at a time. The time is read as one of
    /// the job's zone, or of `zone` if the job has none.
    pub async fn explain(
        &self,
        job: &str,
        at: Option<&str>,
        zone: Option<&Zone>,
    ) -> Result<std::result::Result<Explained, AtError>> {
        let job = self.job_to_explain(job).await?;
        let node = self.node();
        let report = match at {
            None => node.explain_job(&job).await?,
            Some(text) => {
                let now = node.store.now().await?;
                match node.asked(&job, text, zone, now)? {
                    Ok(asked) => node.explain_at(&job, asked).await?,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        Ok(Ok(Explained { job, report }))
    }

    /// There is no such run. An old one may have been deleted: its id has its time.
    fn no_run_any_more(&self, id: RunId) -> EngineError {
        let (node, settings) = (self.node(), &self.node().settings);
        let age = node.now().duration_since(id.time());
        let days = settings.retention_days;
        if age < SignedDuration::from_hours(24 * i64::from(days)) {
            return no_run(id);
        }
        let failed = settings.failed_retention_days;
        EngineError::NotFound(format!(
            "run {id} any more: a run of {} was forgotten (retention: runs are kept for {days} days, \
             failed runs for {failed} days)",
            id.time()
        ))
    }

    /// Says why a run is in its state.
    pub async fn explain_run(&self, id: RunId) -> Result<Explained> {
        let Some(run) = self.run(id).await? else { return Err(self.no_run_any_more(id)) };
        let job = self.node().store.jobs_ever(&[run.job]).await?.pop();
        let job = job.ok_or_else(|| no_run(id))?;
        let report = self.node().explain_run(&job, &run).await?;
        Ok(Explained { job, report })
    }
}
