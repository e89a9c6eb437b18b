//! Runs, as far as the actor may see, start and stop them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::access::{Deed, Refusal};
use domain::audit::{Event, Kind};
use domain::id::{JobId, RunId, UserId};
use domain::job::{Job, LostAnswer};
use domain::run::{NewRun, Origin, Reason, ReasonCode};
use domain::tally::EndedRun;
use jiff::Timestamp;
use store::{
    AttemptView, Cancelled, Cursor, Decided, LastRun, Page, RecentEnd, RunFilter, RunView, RunsOf,
    StartFilter, StartKey,
};

use super::{AuthorizedEngine, no_job, no_run};
use crate::commands::{Backfill, Trigger};
use crate::error::{EngineError, Result};

/// Minimum number of runs that are read at once to find visible ones, for an actor that does not
/// see all.
const LOOK_MIN: u32 = 200;

/// Maximum number of such reads for one page; a page that is short has a next one.
const LOOKS_MAX: u32 = 10;

impl AuthorizedEngine<'_> {
    /// Starts a run by hand, under the given id if the server has drawn one before. Durable when it
    /// answers.
    pub async fn trigger(&self, id: JobId, trigger: Trigger, run: Option<RunId>) -> Result<NewRun> {
        self.trigger_job(Some(id), None, trigger, run).await
    }

    /// Starts a run by hand of the job that has this id or this name.
    pub async fn trigger_named(&self, job: &str, trigger: Trigger) -> Result<NewRun> {
        self.trigger_job(job.parse().ok(), Some(job), trigger, None).await
    }

    /// Starts a run of a job whose cached definition may be old. The store records no run of an
    /// older version, and a refusal is repeated with the current definition: either way the job is
    /// read again.
    async fn trigger_job(
        &self,
        id: Option<JobId>,
        name: Option<&str>,
        trigger: Trigger,
        run: Option<RunId>,
    ) -> Result<NewRun> {
        let trigger = Trigger { requested_by: Some(self.actor.user), ..trigger };
        let make = || async {
            let job = match self.recall_executable(id, name).await {
                Err(EngineError::NotFound(_) | EngineError::Refused(_)) => {
                    self.node().forget_named(self.actor.tenant, id, name);
                    self.recall_executable(id, name).await?
                }
                job => job?,
            };
            let new = self.node().triggered_of(&job, trigger.clone())?;
            Ok(NewRun { id: run.unwrap_or(new.id), ..new })
        };
        let (new, is_new) = self.engine.record_current(make).await?;
        if is_new {
            return Ok(new);
        }
        // Sent again: the answer is that of the first time.
        let known = self.node().run(new.id).await?;
        let scheduled_for = known.map_or(new.scheduled_for, |known| known.scheduled_for);
        Ok(NewRun { scheduled_for, ..new })
    }

    /// The job that has this id or this name, as it was at some time, if the actor may execute it.
    async fn recall_executable(&self, id: Option<JobId>, name: Option<&str>) -> Result<Arc<Job>> {
        let mut found = None;
        if let Some(id) = id {
            found = self.node().recall_job(id).await?.filter(|job| self.sees_job(job));
        }
        if let Some(name) = name.filter(|_| found.is_none()) {
            found = self.node().recall_job_named(self.actor.tenant, name).await?;
        }
        let none = || match (id, name) {
            (_, Some(name)) => EngineError::NotFound(format!("job {name:?}")),
            (Some(id), None) => no_job(id),
            (None, None) => EngineError::NotFound("job".to_owned()),
        };
        let job = found.filter(|job| Self::is_job(job) && self.sees_job(job)).ok_or_else(none)?;
        self.may_with(&job, Deed::ExecuteJob)?;
        job.definition.actions().try_for_each(|action| self.actor.may_do(action))?;
        Ok(job)
    }

    /// Requests runs of past times.
    pub async fn backfill(&self, id: JobId, backfill: Backfill) -> Result<Vec<Timestamp>> {
        self.job_to_run(id).await?;
        if !backfill.dry_run {
            let range =
                format!("{{\"from\":\"{}\",\"until\":\"{}\"}}", backfill.from, backfill.until);
            self.record(vec![(Kind::JobBackfilled, Some(id), None, range)]).await?;
        }
        let backfill = Backfill { requested_by: Some(self.actor.user), ..backfill };
        self.node().backfill(id, backfill).await
    }

    /// Audits an action before it is done: an action that cannot be audited is not done.
    pub(super) async fn record(
        &self,
        deeds: Vec<(Kind, Option<JobId>, Option<RunId>, String)>,
    ) -> Result<()> {
        let event = |(kind, job, run, details)| Event {
            tenant: self.actor.tenant,
            actor: self.actor.name.clone(),
            kind,
            job,
            run,
            outcome: "REQUESTED".to_owned(),
            details,
        };
        let events: Vec<Event> = deeds.into_iter().map(event).collect();
        Ok(self.node().store.record(&events).await?)
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
        let asked_for = |run: &RunView| self.asked_for(run.requested_by);
        let others = runs.iter().filter(|run| !asked_for(run)).map(|run| run.job);
        let jobs = self.own_jobs(others).await?;
        runs.retain(|run| asked_for(run) || jobs.contains(&run.job));
        Ok(runs)
    }

    /// Whether a run is visible because the actor requested it.
    fn asked_for(&self, requested_by: Option<UserId>) -> bool {
        requested_by.is_some_and(|user| self.sees(Deed::SeeRunRequestedBy(user)))
    }

    /// Whether the actor sees all runs of a job. If not, it may see those that it requested;
    /// otherwise this is an error.
    async fn sees_runs_of(&self, id: JobId) -> Result<bool> {
        let job = self.node().store.jobs_ever(&[id]).await?.pop().ok_or_else(|| no_job(id))?;
        match self.may_with(&job, Deed::SeeRuns) {
            Ok(()) => Ok(true),
            Err(EngineError::Refused(Refusal::Lacks(_)))
                if self.asked_for(Some(self.actor.user)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Which of some jobs' runs the actor sees.
    async fn own_jobs(&self, jobs: impl Iterator<Item = JobId>) -> Result<HashSet<JobId>> {
        let ids: HashSet<JobId> = jobs.collect();
        let ids: Vec<JobId> = ids.into_iter().collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        // Also those of deleted jobs.
        let jobs = self.node().store.jobs_ever(&ids).await?;
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
        let mut sees_all = self.sees(Deed::SeeAllRuns);
        let of = match filter.of {
            RunsOf::Tenant(_) => RunsOf::Tenant(tenant),
            RunsOf::DeadLetters { job, .. } => RunsOf::DeadLetters { tenant, job },
            RunsOf::Job(job) => {
                sees_all = self.sees_runs_of(job).await?;
                RunsOf::Job(job)
            }
        };
        let filter = RunFilter { of, ..filter.clone() };
        if sees_all {
            return self.node().list_runs(&filter, before, limit).await;
        }
        // Most runs may be those of others: one page is put together from several looks.
        let (mut items, mut next) = (Vec::new(), before);
        for _ in 0..LOOKS_MAX {
            let page = self.node().list_runs(&filter, next, limit.max(LOOK_MIN)).await?;
            items.extend(self.seen(page.items).await?);
            next = page.next;
            if items.len() > limit as usize {
                items.truncate(limit as usize);
                next = items.last().map(|run| run.id);
                break;
            }
            if items.len() == limit as usize || next.is_none() {
                break;
            }
        }
        Ok(Page { items, next })
    }

    /// The names of users, as far as they exist.
    pub async fn user_names(&self, users: &[UserId]) -> Result<HashMap<UserId, String>> {
        let mut names = HashMap::new();
        for user in users {
            if !names.contains_key(user)
                && let Some(standing) = self.node().standing(*user).await?
            {
                names.insert(*user, standing.user.name.clone());
            }
        }
        Ok(names)
    }

    /// The jobs of runs that are shown, as far as the actor sees them; in no particular order. A
    /// change on this node is seen at once, one on another node a few seconds later.
    pub async fn jobs_of(&self, seen: &[RunView]) -> Result<Vec<Arc<Job>>> {
        let mut jobs = self.node().jobs_of_views(seen).await?;
        jobs.retain(|job| self.sees_job(job));
        Ok(jobs)
    }

    /// Why runs that are shown have not started, by their ids.
    pub async fn waiting_reasons(&self, seen: &[RunView]) -> Result<HashMap<RunId, String>> {
        self.node().waiting_reasons(seen).await
    }

    /// Ended runs of a job by when they began, latest first.
    pub async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        self.sees_runs_of(filter.job).await?;
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
    pub(super) async fn run_for(&self, id: RunId) -> Result<RunView> {
        let run = self.run(id).await?.ok_or_else(|| no_run(id))?;
        if let Some(queue) = self.queue_of_run(&run).await? {
            self.may_with(&queue, Deed::ExecuteJob)?;
            return Ok(run);
        }
        match self.job_to_run(run.job).await {
            Ok(_) => Ok(run),
            // The job is gone; its history is visible to actors that see all runs.
            Err(EngineError::NotFound(_)) => {
                self.may(Deed::ExecuteJob(self.actor.user))?;
                Ok(run)
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses an actor that may not start and stop runs of the run's job.
    pub async fn may_execute_run(&self, run: &RunView) -> Result<()> {
        self.run_for(run.id).await.map(drop)
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
        let view = self.run(run).await?.ok_or_else(|| no_run(run))?;
        if let Some(queue) = self.queue_of_run(&view).await? {
            self.record(vec![(Kind::RunRetried, Some(queue.id), Some(run), String::new())]).await?;
            return self.resend(&queue, &view).await;
        }
        let job = self.run_for(run).await?.job;
        self.record(vec![(Kind::RunRetried, Some(job), Some(run), String::new())]).await?;
        self.engine.redrive(run, Some(self.actor.user)).await
    }

    /// Requests the cancellation of a run.
    pub async fn cancel(&self, run: RunId, text: &str) -> Result<Cancelled> {
        let view = self.run(run).await?.ok_or_else(|| no_run(run))?;
        if let Some(queue) = self.queue_of_run(&view).await? {
            return self.cancel_message(&queue, run, text).await;
        }
        if view.origin == Origin::Message {
            return Err(EngineError::WrongState("the queue of the message was deleted".into()));
        }
        self.run_for(run).await?;
        let cancelled = self.node().cancel_run(run, text, self.author()).await?;
        self.engine.stop_run(run);
        if let Cancelled::Requested(_) = cancelled {
            for part in self.node().store.parts(&[run]).await? {
                self.engine.stop_run(part.run);
            }
            self.stop_steps(run).await?;
        }
        Ok(cancelled)
    }

    /// Decides about a run that is HELD because its node was lost.
    pub async fn decide_run(&self, run: RunId, answer: LostAnswer, text: &str) -> Result<Decided> {
        self.run_for(run).await?;
        let reason = Reason { code: ReasonCode::Decided, text: text.to_owned() };
        let decided = self.node().store.decide(run, answer, &reason, self.author()).await?;
        match decided {
            Decided::NotHeld => {
                let text = format!("run {run} is not HELD: there is nothing to decide");
                return Err(EngineError::WrongState(text));
            }
            Decided::Again => self.node().hint(),
            Decided::Ended(outcome) => self.node().ends.add(outcome, 1),
        }
        Ok(decided)
    }

    /// Acknowledges dead letters. Returns for each whether it was there.
    pub async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        let (mut allowed, mut deeds) = (HashSet::new(), Vec::new());
        for run in runs {
            match self.run_for(*run).await {
                Ok(view) => {
                    if allowed.insert(*run) {
                        let (job, kind) = (Some(view.job), Kind::DeadLetterAcknowledged);
                        deeds.push((kind, job, Some(*run), String::new()));
                    }
                }
                Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if !deeds.is_empty() {
            self.record(deeds).await?;
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
        let runs = self.node().ended(after, until, limit).await?;
        let next = runs.last().filter(|_| runs.len() as u32 == limit).map(Cursor::after);
        Ok((self.visible_ends(runs).await?, next))
    }

    /// Those of some ended runs that the actor sees.
    pub async fn visible_ends(&self, mut runs: Vec<EndedRun>) -> Result<Vec<EndedRun>> {
        runs.retain(|run| run.tenant == self.actor.tenant);
        if !self.sees(Deed::SeeAllRuns) && !runs.is_empty() {
            let asked_for = |run: &EndedRun| self.asked_for(run.requested_by);
            let others = runs.iter().filter(|run| !asked_for(run)).map(|run| run.job);
            let jobs = self.own_jobs(others).await?;
            runs.retain(|run| asked_for(run) || jobs.contains(&run.job));
        }
        Ok(runs)
    }

    /// The newest ended runs of jobs whose runs the actor sees.
    pub async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        let seen = self.own_jobs(jobs.iter().copied()).await?;
        let seen: Vec<JobId> = jobs.iter().copied().filter(|job| seen.contains(job)).collect();
        self.node().recent_ends(&seen, limit).await
    }

    /// The last runs of jobs whose runs the actor sees.
    pub async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let seen = self.own_jobs(jobs.iter().copied()).await?;
        let seen: Vec<JobId> = jobs.iter().copied().filter(|job| seen.contains(job)).collect();
        self.node().last_runs(&seen).await
    }
}
