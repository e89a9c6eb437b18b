//! What somebody at a door may ask: every command and question with the one who asks.
//!
//! [`Node`] does what it is told; the steps, the tests and the simulation need that. A door has
//! only [`Acting`], which lets `domain::access` decide first. What is not the actor's does not
//! exist: the answer is that of an id that nobody has.

use std::collections::{HashMap, HashSet};

use domain::access::{Actor, Deed, Privilege, Refusal, may};
use domain::audit::{Record, Seal};
use domain::decide::explain::Explanation;
use domain::id::{JobId, NodeId, ObjectId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::partition::{Part, Progress};
use domain::run::NewRun;
use domain::tally::{EndedRun, Summary};
use jiff::Timestamp;
use store::{
    Acknowledgement, Answer, AttemptView, AuditFilter, Begun, Cancelled, Cursor, DeliveryKey,
    DeliveryView, FullStore, JobFilter, LastRun, NodeView, OwnedShard, POLICY, Page, Put,
    RunFilter, RunView, RunsOf, Set, Setting, StartFilter, StartKey, Steer, Steered,
};

use crate::commands::{Backfill, Deletion, NewJob, Trigger};
use crate::error::{EngineError, Result};
use crate::node::{Node, Verified};
use crate::run::Engine;
use crate::stats::Stats;

/// An engine as somebody sees it.
pub struct Acting<'a, S> {
    pub(crate) engine: &'a Engine<S>,
    pub(crate) actor: &'a Actor,
}

fn no_job(id: JobId) -> EngineError {
    EngineError::NotFound(format!("job {id}"))
}

fn no_run(id: RunId) -> EngineError {
    EngineError::NotFound(format!("run {id}"))
}

impl<S: FullStore> Engine<S> {
    /// The engine for one who asks.
    pub fn by<'a>(&'a self, actor: &'a Actor) -> Acting<'a, S> {
        Acting { engine: self, actor }
    }
}

/// The audit.
impl<S: FullStore> Acting<'_, S> {
    /// What was done, newest first, from the given place backwards.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        self.may_audit(filter.tenant)?;
        self.node().audit(filter, from, limit).await
    }

    /// Looks at a tenant's whole chain of what was done.
    pub async fn verify_audit(&self, tenant: TenantId, known: Option<Seal>) -> Result<Verified> {
        self.may_audit(tenant)?;
        Ok(self.node().verify_audit(tenant, known).await?)
    }

    fn may_audit(&self, tenant: TenantId) -> Result<()> {
        let own = tenant == self.actor.tenant;
        self.may(if own { Deed::SeeAccess } else { Deed::SeeCluster })
    }
}

/// Jobs.
impl<S: FullStore> Acting<'_, S> {
    pub(crate) fn node(&self) -> &Node<S> {
        self.engine.node()
    }

    pub(crate) fn may(&self, deed: Deed) -> Result<()> {
        may(self.actor, deed).map_err(EngineError::Refused)
    }

    fn sees(&self, deed: Deed) -> bool {
        may(self.actor, deed).is_ok()
    }

    /// Whether jobs and runs of everybody in the tenant are seen.
    fn sees_all(&self, privileges: &[Privilege]) -> bool {
        privileges.iter().any(|privilege| self.actor.privileges.has(*privilege))
    }

    /// The job, if the actor may do this with it.
    async fn job_for(&self, id: JobId, deed: fn(UserId) -> Deed) -> Result<Job> {
        let job = self.node().existing(id).await?;
        if job.tenant != self.actor.tenant {
            return Err(no_job(id));
        }
        match may(self.actor, deed(job.owner)) {
            Ok(()) => Ok(job),
            Err(Refusal::Absent) => Err(no_job(id)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The job, if the actor may start and stop its runs.
    async fn job_to_run(&self, id: JobId) -> Result<Job> {
        let job = self.job_for(id, Deed::ExecuteJob).await?;
        self.actor.may_do(&job.definition.action)?;
        Ok(job)
    }

    /// Whether every job that a definition waits for is one that the actor sees.
    async fn sees_upstream(&self, job: &NewJob) -> Result<()> {
        let wanted: Vec<JobId> = job.definition.depends_on.iter().map(|it| it.job).collect();
        let found: HashSet<JobId> =
            self.jobs_by_id(&wanted).await?.into_iter().map(|job| job.id).collect();
        match wanted.iter().find(|id| !found.contains(id)) {
            Some(missing) => Err(EngineError::NotFound(format!("upstream job {missing}"))),
            None => Ok(()),
        }
    }

    /// A job as the actor would make it.
    async fn mine(&self, job: NewJob) -> Result<NewJob> {
        self.actor.may_define(&job.definition)?;
        self.sees_upstream(&job).await?;
        Ok(NewJob { tenant: self.actor.tenant, owner: self.actor.user, ..job })
    }

    /// Creates jobs, each on its own; the actor owns them.
    pub async fn create_jobs(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Job>>> {
        self.may(Deed::CreateJob)?;
        let (mut answers, mut allowed) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            match self.mine(job).await {
                Ok(job) => {
                    allowed.push(job);
                    answers.push(None);
                }
                Err(error @ EngineError::Store(_)) => return Err(error),
                Err(error) => answers.push(Some(Err(error))),
            }
        }
        let mut done = self.node().create_jobs(allowed).await?.into_iter();
        self.engine.planned_soon();
        Ok(answers.into_iter().filter_map(|answer| answer.or_else(|| done.next())).collect())
    }

    /// Whether a job could be created.
    pub async fn check_job(&self, job: NewJob) -> Result<()> {
        self.may(Deed::CreateJob)?;
        self.node().check_job(self.mine(job).await?).await
    }

    /// Changes a job if `edit` agrees to it.
    pub async fn alter_job<E: From<EngineError>>(
        &self,
        id: JobId,
        edit: impl FnOnce(&mut Job) -> std::result::Result<(), E> + Send,
    ) -> std::result::Result<Job, E> {
        self.job_for(id, Deed::AlterJob).await?;
        let actor = self.actor;
        let checked = |job: &mut Job| {
            let before = job.definition.clone();
            edit(job)?;
            if job.definition != before {
                actor.may_define(&job.definition).map_err(EngineError::from)?;
            }
            Ok(())
        };
        let job = self.node().try_alter_job::<E>(id, checked).await?;
        self.engine.planned_soon();
        Ok(job)
    }

    /// Holds a job.
    pub async fn pause_job(&self, id: JobId) -> Result<Job> {
        self.job_for(id, Deed::AlterJob).await?;
        self.node().pause_job(id).await
    }

    /// Lets a job go on.
    pub async fn resume_job(&self, id: JobId) -> Result<Job> {
        self.job_for(id, Deed::AlterJob).await?;
        let job = self.node().resume_job(id).await?;
        self.engine.planned_soon();
        Ok(job)
    }

    /// Removes a job; with `cascade`, the dependencies of others on it too, if the actor may change
    /// those jobs.
    pub async fn delete_job(&self, id: JobId, deletion: Deletion) -> Result<()> {
        let job = self.job_for(id, Deed::DropJob).await?;
        if deletion.cascade {
            let edges = self.node().store.dependencies(job.tenant).await?;
            let dependents = edges.iter().filter(|(_, upstream)| *upstream == id);
            let dependents: Vec<JobId> = dependents.map(|(job, _)| *job).collect();
            for job in self.node().jobs_by_id(&dependents).await? {
                may(self.actor, Deed::AlterJob(job.owner)).map_err(|refusal| match refusal {
                    Refusal::Absent => Refusal::NotOwner,
                    refusal => refusal,
                })?;
            }
        }
        self.node().delete_job(id, deletion).await
    }

    /// Jobs by id, as far as the actor sees them.
    pub async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let mut jobs = self.node().jobs_by_id(ids).await?;
        jobs.retain(|job| self.sees_job(job));
        Ok(jobs)
    }

    fn sees_job(&self, job: &Job) -> bool {
        job.tenant == self.actor.tenant && self.sees(Deed::SeeJob(job.owner))
    }

    /// A job of the tenant by its name.
    pub async fn job_by_name(&self, name: &str) -> Result<Option<Job>> {
        let job = self.node().job_by_name(self.actor.tenant, name).await?;
        Ok(job.filter(|job| self.sees_job(job)))
    }

    /// The jobs of the tenant that a filter lets through, as far as the actor sees them.
    pub async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        let mut filter = JobFilter { tenant: self.actor.tenant, ..filter.clone() };
        if !self.sees_all(&[Privilege::ViewJobHistory, Privilege::ExecuteJob]) {
            filter.owner = Some(self.actor.user);
        }
        self.node().list_jobs(&filter, after, limit).await
    }

    /// Jobs that were changed after the cursor, as far as the actor sees them, and where to go on.
    pub async fn changed_jobs(
        &self,
        after: Cursor,
        limit: u32,
    ) -> Result<(Vec<Job>, Option<Cursor>)> {
        let mut jobs = self.node().changed_jobs(after, limit).await?;
        let next = jobs.last().filter(|_| jobs.len() as u32 == limit).map(Cursor::after_change);
        jobs.retain(|job| self.sees_job(job));
        Ok((jobs, next))
    }

    /// How the runs of some jobs ended in this hour and so many before.
    pub async fn job_stats(&self, jobs: &[JobId], hours: u32) -> Result<HashMap<JobId, Summary>> {
        for job in jobs {
            self.job_for(*job, Deed::SeeRuns).await?;
        }
        self.node().job_stats(self.actor.tenant, jobs, hours).await
    }

    /// Says why a job did or did not run at a time.
    pub async fn explain(&self, id: JobId, at: Timestamp) -> Result<Explanation> {
        self.job_for(id, Deed::SeeRuns).await?;
        self.node().explain(id, at).await
    }
}

/// Runs.
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
}

/// The cluster.
impl<S: FullStore> Acting<'_, S> {
    /// How the tenant's jobs are doing.
    pub async fn stats(&self) -> Result<Stats> {
        self.may(Deed::SeeAllRuns)?;
        self.node().stats(self.actor.tenant).await
    }

    /// The nodes of the cluster.
    pub async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.may(Deed::SeeNodes)?;
        self.node().nodes().await
    }

    /// The shards of the tenant and who owns them.
    pub async fn shards(&self) -> Result<Vec<OwnedShard>> {
        self.may(Deed::SeeNodes)?;
        Ok(self.node().store.shards(Some(self.actor.tenant)).await?)
    }

    /// The parts of a run, in their order; none when it was not divided.
    pub async fn parts(&self, run: RunId) -> Result<Vec<Part>> {
        if self.run(run).await?.is_none() {
            return Err(no_run(run));
        }
        Ok(self.node().store.parts(&[run]).await?)
    }

    /// How far those of these runs have come that were divided.
    pub async fn progress(&self, runs: &[RunId]) -> Result<HashMap<RunId, Progress>> {
        let parts = self.node().store.parts(runs).await?;
        Ok(Progress::by_run(&parts))
    }

    /// Of which run each of these is a part.
    pub async fn parents(&self, parts: &[RunId]) -> Result<HashMap<RunId, RunId>> {
        Ok(self.node().store.parents(parts).await?.into_iter().collect())
    }

    /// Drains, resumes or removes a node.
    pub async fn steer(&self, node: NodeId, steer: Steer) -> Result<Steered> {
        self.may(Deed::ChangeCluster)?;
        Ok(self.node().store.steer(node, steer).await?)
    }

    /// What every node should run with, once a leader has said it.
    pub async fn policy(&self) -> Result<Option<Setting>> {
        self.may(Deed::SeeNodes)?;
        let settings = self.node().settings().await?;
        Ok(settings.into_iter().find(|setting| setting.name == POLICY))
    }

    /// Who has acknowledged a run.
    pub async fn acknowledgements(&self, run: RunId) -> Result<Vec<Acknowledgement>> {
        if self.run(run).await?.is_none() {
            return Err(no_run(run));
        }
        Ok(self.node().store.acknowledgements(run).await?)
    }

    /// What the whole cluster agrees on.
    pub async fn settings(&self) -> Result<Vec<Setting>> {
        self.may(Deed::SeeCluster)?;
        self.node().settings().await
    }

    /// Changes a setting, or removes it.
    pub async fn set(&self, name: &str, value: Option<&str>, expected: u32) -> Result<Set> {
        self.may(Deed::ChangeCluster)?;
        self.node().set(name, value, expected).await
    }

    /// A request begins that the actor may send again under the same key. Nobody else's key is the
    /// same.
    pub async fn begin_request(&self, key: &str, fingerprint: &[u8]) -> Result<Begun> {
        let key = self.request_key(key);
        self.node().begin_request(self.actor.tenant, &key, fingerprint).await
    }

    /// Keeps the answer to a request, or lets it be made anew.
    pub async fn finish_request(&self, key: &str, answer: Option<&Answer>) -> Result<()> {
        let key = self.request_key(key);
        self.node().finish_request(self.actor.tenant, &key, answer).await
    }

    fn request_key(&self, key: &str) -> String {
        let shown = self.actor.key.map(|key| key.text()).unwrap_or_default();
        format!("{}/{shown}/{key}", self.actor.user)
    }
}

/// Databases and alert channels.
impl<S: FullStore> Acting<'_, S> {
    /// The last runs of jobs whose runs the actor sees.
    pub async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        let seen = self.own_jobs(jobs.iter().copied()).await?;
        let seen: Vec<JobId> = jobs.iter().copied().filter(|job| seen.contains(job)).collect();
        self.node().last_runs(&seen).await
    }

    /// Whether the actor may change objects of a kind. A database is an address that this machine
    /// connects to, or a file of it: that is for the cluster to say.
    fn may_change(&self, object: &Object) -> Result<()> {
        self.may(match object.kind {
            ObjectKind::Database | ObjectKind::Shard => Deed::ChangeCluster,
            ObjectKind::AlertChannel => Deed::ChangeAccess,
            ObjectKind::Agent | ObjectKind::JoinToken => Deed::ChangeCluster,
        })
    }

    /// Makes an object of the tenant, or changes the one that still has the expected version.
    pub async fn put_object(&self, object: &Object, expected: u32) -> Result<Put> {
        self.may_change(object)?;
        let object = Object { tenant: self.actor.tenant, ..object.clone() };
        let put = self.node().put_object(&object, expected).await?;
        if object.kind == ObjectKind::Shard {
            self.engine.shards_changed();
        }
        Ok(put)
    }

    /// Removes an object if it still has the version that was seen.
    pub async fn remove_object(&self, object: &Object) -> Result<Set> {
        self.may_change(object)?;
        self.node().remove_object(self.actor.tenant, object.id, object.version).await
    }

    /// An object of the tenant by its id.
    pub async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        self.may(Deed::SeeAccess)?;
        let found = self.node().object(id).await?;
        Ok(found.filter(|object| object.tenant == self.actor.tenant))
    }

    /// An object of the tenant by its name.
    pub async fn object_by_name(&self, kind: ObjectKind, name: &str) -> Result<Option<Object>> {
        self.may(Deed::SeeAccess)?;
        self.node().object_by_name(self.actor.tenant, kind, name).await
    }

    /// The tenant's objects of a kind, by name.
    pub async fn list_objects(
        &self,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        self.may(Deed::SeeAccess)?;
        self.node().list_objects(self.actor.tenant, kind, after, limit).await
    }

    /// Makes something of the cluster's: an agent, or the right to become one.
    pub async fn put_cluster_object(&self, object: &Object, expected: u32) -> Result<Put> {
        self.may(Deed::ChangeCluster)?;
        let object = Object { tenant: TenantId::CLUSTER, ..object.clone() };
        self.node().put_object(&object, expected).await
    }

    /// Removes something of the cluster's if it still has the version that was seen.
    pub async fn remove_cluster_object(&self, object: &Object) -> Result<Set> {
        self.may(Deed::ChangeCluster)?;
        self.node().remove_object(TenantId::CLUSTER, object.id, object.version).await
    }

    /// The cluster's objects of a kind, by name.
    pub async fn list_cluster_objects(
        &self,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        self.may(Deed::ChangeCluster)?;
        self.node().list_objects(TenantId::CLUSTER, kind, after, limit).await
    }

    /// What a channel of the tenant has tried to deliver, newest first.
    pub async fn deliveries(
        &self,
        channel: ObjectId,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Result<Page<DeliveryView, DeliveryKey>> {
        match self.object(channel).await? {
            Some(_) => self.node().deliveries(&channel.to_string(), before, limit).await,
            None => Ok(Page { items: Vec::new(), next: None }),
        }
    }
}
