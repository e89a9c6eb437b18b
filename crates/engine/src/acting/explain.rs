//! Explanations, as far as the actor may see their subjects.

use domain::access::Deed;
use domain::decide::explain::Report;
use domain::id::{JobId, RunId};
use domain::job::{Job, When};
use domain::schedule::{AskedKind, AskedTime, AtError, Zone};
use jiff::{SignedDuration, Timestamp};
use store::JobFilter;

use super::{AuthorizedEngine, no_run};
use crate::error::{EngineError, Result};

/// Maximum number of jobs with a former name that are considered.
const ONCE_NAMED_MAX: u32 = 20;

/// Maximum number of jobs that are searched for the one that has a tick, and the size of a page.
const TICK_JOBS_MAX: usize = 10_000;
const TICK_JOBS_PAGE: u32 = 1_000;

/// The explanation of a job or a run.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The job, which may be deleted or have another name than the requested one.
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

    /// Explains the state of a job, or why it did or did not run at a time. The time is read as one
    /// of the job's zone, or of `zone` if the job has none.
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

    /// The explanation of a run without a record. The id of a tick is made of its job and its time,
    /// so the job is found again: the tick was pruned, is in the future, or was never recorded.
    async fn explain_unrecorded(&self, id: RunId) -> Result<Explained> {
        let Some((job, at)) = self.tick_of(id).await? else { return Err(self.no_record(id)) };
        let asked = AskedTime { at, span: SignedDuration::from_micros(1), kind: AskedKind::Once };
        let mut report = self.node().explain_at(&job, asked).await?;
        report.run = Some(id);
        Ok(Explained { job, report })
    }

    /// The job and the time of a tick, by the id of its run.
    async fn tick_of(&self, id: RunId) -> Result<Option<(Job, Timestamp)>> {
        if !id.is_tick() {
            return Ok(None);
        }
        let filter = JobFilter::of_tenant(self.actor.tenant);
        let (mut after, mut looked) = (None, 0);
        while looked < TICK_JOBS_MAX {
            let page = self.list_jobs(&filter, after.as_deref(), TICK_JOBS_PAGE).await?;
            looked += page.items.len();
            if let Some(found) = self.tick_among(page.items, id) {
                return Ok(Some(found));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let deleted =
            self.node().store.deleted_jobs(self.actor.tenant, None, TICK_JOBS_PAGE).await?;
        Ok(self.tick_among(deleted, id))
    }

    /// The job among some that has a tick with an id, and the time of the tick.
    fn tick_among(&self, jobs: Vec<Job>, id: RunId) -> Option<(Job, Timestamp)> {
        let first = id.time();
        let is_tick = |job: &Job, at: Timestamp| RunId::of_tick(job.id, at, "") == id;
        jobs.into_iter().filter(|job| self.may_with(job, Deed::SeeRuns).is_ok()).find_map(|job| {
            if is_tick(&job, first) {
                return Some((job, first));
            }
            // The id has its time in milliseconds; an interval may begin between two of them.
            let When::Every { starts: Some(starts), .. } = job.definition.when else { return None };
            let part = SignedDuration::from_micros(starts.as_microsecond().rem_euclid(1_000));
            let at = first.checked_add(part).ok()?;
            is_tick(&job, at).then_some((job, at))
        })
    }

    /// There is no such run, and it is not known which job it would be one of.
    fn no_record(&self, id: RunId) -> EngineError {
        let (node, settings) = (self.node(), &self.node().settings);
        let (days, failed) = (settings.retention_days, settings.failed_retention_days);
        let age = node.now().duration_since(id.time());
        if age < SignedDuration::from_hours(24 * i64::from(days)) {
            return no_run(id);
        }
        EngineError::NotFound(format!(
            "run {id}: a run of {} was forgotten (retention: runs are kept for {days} days and \
             failed runs for {failed} days)",
            id.time()
        ))
    }

    /// Explains why a run is in its state.
    pub async fn explain_run(&self, id: RunId) -> Result<Explained> {
        let Some(run) = self.run(id).await? else {
            // A run that the actor does not see is answered like one that is not there.
            return match self.node().knows_run(id).await? {
                true => Err(self.no_record(id)),
                false => self.explain_unrecorded(id).await,
            };
        };
        let job = self.node().store.jobs_ever(&[run.job]).await?.pop();
        let job = job.ok_or_else(|| no_run(id))?;
        let report = self.node().explain_run(&job, &run).await?;
        Ok(Explained { job, report })
    }
}
