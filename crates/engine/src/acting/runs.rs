//! Runs, as far as whoever asks may see, start and stop them.

use std::collections::HashSet;

use domain::access::Deed;
use domain::id::{JobId, RunId};
use domain::run::NewRun;
use domain::tally::EndedRun;
use jiff::Timestamp;
use store::{
    AttemptView, Cancelled, Cursor, FullStore, LastRun, Page, RunFilter, RunView, RunsOf,
    StartFilter, StartKey,
};

use super::{Acting, no_run};
use crate::commands::{Backfill, Trigger};
use crate::error::{EngineError, Result};

impl<S: FullStore> Acting<'_, S> {
    /// Starts a run by hand, under the given id if there is one. Durable when it answers.
    pub async fn trigger(&self, id: JobId, trigger: Trigger, run: Option<RunId>) -> Result<NewRun> {
        self.job_to_run(id).await?;
        let mut new = self.node().triggered(id, trigger).await?;
        new.id = run.unwrap_or(new.id);
        if self.engine.submit(vec![new.clone()]).await? == [false] {
            // Sent again, it is the same run; another one under the same id is not this one's.
            let known = self.node().run(new.id).await?;
            if known.is_none_or(|known| known.job != id) {
                let text = "another execution has this execution_id; take a new one";
                return Err(EngineError::WrongState(text.to_owned()));
            }
        }
        Ok(new)
    }

    /// Asks for runs of times that have passed.
    pub async fn backfill(&self, id: JobId, backfill: Backfill) -> Result<Vec<Timestamp>> {
        self.job_to_run(id).await?;
        self.node().backfill(id, backfill).await
    }

    /// A run, if the actor sees it.
    pub async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        let Some(run) = self.node().run(id).await? else { return Ok(None) };
        Ok(self.seen(vec![run]).await?.pop())
    }

    /// The runs that the actor sees.
    async fn seen(&self, mut runs: Vec<RunView>) -> Result<Vec<RunView>> {
        runs.retain(|run| run.tenant == self.actor.tenant);
        if self.sees(Deed::SeeAllRuns) || runs.is_empty() {
            return Ok(runs);
        }
        let jobs = self.own_jobs(runs.iter().map(|run| run.job)).await?;
        runs.retain(|run| jobs.contains(&run.job));
        Ok(runs)
    }

    /// Which of some jobs' runs the actor sees.
    async fn own_jobs(&self, jobs: impl Iterator<Item = JobId>) -> Result<HashSet<JobId>> {
        let ids: HashSet<JobId> = jobs.collect();
        let ids: Vec<JobId> = ids.into_iter().collect();
        let jobs = self.node().jobs_by_id(&ids).await?;
        let own = jobs
            .into_iter()
            .filter(|job| job.tenant == self.actor.tenant && self.sees(Deed::SeeRuns(job.owner)));
        Ok(own.map(|job| job.id).collect())
    }

    /// The runs that a filter lets through, as far as the actor sees them, newest first.
    pub async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        let tenant = self.actor.tenant;
        let of = match filter.of {
            RunsOf::Tenant(_) => RunsOf::Tenant(tenant),
            RunsOf::DeadLetters { job, .. } => RunsOf::DeadLetters { tenant, job },
            RunsOf::Job(job) => {
                self.job_for(job, Deed::SeeRuns).await?;
                RunsOf::Job(job)
            }
        };
        let filter = RunFilter { of, ..filter.clone() };
        let Page { items, next } = self.node().list_runs(&filter, before, limit).await?;
        Ok(Page { items: self.seen(items).await?, next })
    }

    /// Ended runs of a job by when they began, latest first.
    pub async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        self.job_for(filter.job, Deed::SeeRuns).await?;
        let Page { items, next } = self.node().latest_starts(filter, after, limit).await?;
        Ok(Page { items: self.seen(items).await?, next })
    }

    /// Runs with attempts that were not their last word, as far as the actor sees them, newest
    /// first.
    pub async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let Page { items, next } = self.node().retried(before, limit).await?;
        Ok(Page { items: self.seen(items).await?, next })
    }

    /// The run, if the actor may start and stop runs of its job.
    async fn run_for(&self, id: RunId) -> Result<RunView> {
        let run = self.run(id).await?.ok_or_else(|| no_run(id))?;
        match self.job_to_run(run.job).await {
            Ok(_) => Ok(run),
            // The job is gone; what it left is for who sees all runs.
            Err(EngineError::NotFound(_)) => {
                self.may(Deed::ExecuteJob(self.actor.user))?;
                Ok(run)
            }
            Err(error) => Err(error),
        }
    }

    /// A run's ended attempts.
    pub async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        self.run(run).await?.ok_or_else(|| no_run(run))?;
        self.node().attempts(run).await
    }

    /// The output of an attempt as its agent compressed it, if it is kept with the record; empty if
    /// it is in files of the node that executed it.
    pub async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        self.run(run).await?.ok_or_else(|| no_run(run))?;
        self.node().attempt_output(run, number).await
    }

    /// Starts an ended run once more.
    pub async fn redrive(&self, run: RunId) -> Result<NewRun> {
        self.run_for(run).await?;
        self.engine.redrive(run).await
    }

    /// Asks for the end of a run.
    pub async fn cancel(&self, run: RunId, text: &str) -> Result<Cancelled> {
        self.run_for(run).await?;
        let cancelled = self.node().cancel_run(run, text).await?;
        self.engine.stop_run(run);
        if let Cancelled::Requested(_) = cancelled {
            for part in self.node().store.parts(&[run]).await? {
                self.engine.stop_run(part.run);
            }
        }
        Ok(cancelled)
    }

    /// Marks dead letters as seen to. Answers for each whether it was there.
    pub async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        let mut allowed = HashSet::new();
        for run in runs {
            match self.run_for(*run).await {
                Ok(_) => drop(allowed.insert(*run)),
                Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let wanted: Vec<RunId> = runs.iter().copied().filter(|run| allowed.contains(run)).collect();
        let mut done = self.node().acknowledge(&wanted).await?.into_iter();
        let answer = |run: &RunId| allowed.contains(run) && done.next().unwrap_or(false);
        Ok(runs.iter().map(answer).collect())
    }

    /// Runs that ended after the cursor and before a time, as far as the actor sees them, and where
    /// to go on.
    pub async fn ended(
        &self,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> Result<(Vec<EndedRun>, Option<Cursor>)> {
        let mut runs = self.node().ended(after, until, limit).await?;
        let next = runs.last().filter(|_| runs.len() as u32 == limit).map(Cursor::after);
        runs.retain(|run| run.tenant == self.actor.tenant);
        if !self.sees(Deed::SeeAllRuns) && !runs.is_empty() {
            let jobs = self.own_jobs(runs.iter().map(|run| run.job)).await?;
            runs.retain(|run| jobs.contains(&run.job));
        }
        Ok((runs, next))
    }

    /// The last runs of jobs whose runs the actor sees.
    pub async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let seen = self.own_jobs(jobs.iter().copied()).await?;
        let seen: Vec<JobId> = jobs.iter().copied().filter(|job| seen.contains(job)).collect();
        self.node().last_runs(&seen).await
    }
}
