//! Commands and queries in the name of an actor, with the privileges that they need.
//!
//! [`Node`] checks no privileges; the steps, the tests and the simulation need that. An interface
//! has only [`AuthorizedEngine`], which lets `domain::access` decide first. Objects that the actor
//! may not see do not exist for it: the answer is that for an unknown id.

use std::collections::{HashMap, HashSet};

use domain::access::{Actor, Deed, Privilege, Refusal, may};
use domain::audit::{KeptHead, Record};
use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, Retention};
use domain::job_defaults::JobDefaults;
use domain::schedule::CatchUpPolicy;
use domain::tally::Summary;
use jiff::SignedDuration;
use store::{AuditFilter, JobFilter, Page};

use crate::commands::{ChangeRefused, Deletion, JobChange, JobChanges, NewJob};
use crate::error::{EngineError, Result};
use crate::node::{Node, Verified};
use crate::run::Engine;

mod artifacts;
mod cluster;
mod dags;
mod dead_letters;
mod explain;
mod objects;
mod queues;
mod runs;
mod versions;
mod workers;

pub use dead_letters::SettledLetters;
pub use explain::Explained;
pub use objects::Scope;
pub use queues::QueueStatisticsView;
pub use workers::{PollRequest, WorkerMessage};

/// An engine in the name of an actor.
pub struct AuthorizedEngine<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) actor: &'a Actor,
}

fn no_job(id: JobId) -> EngineError {
    EngineError::NotFound(format!("job {id}"))
}

fn no_run(id: RunId) -> EngineError {
    EngineError::NotFound(format!("run {id}"))
}

impl Engine {
    /// The engine in the name of an actor.
    pub fn by<'a>(&'a self, actor: &'a Actor) -> AuthorizedEngine<'a> {
        AuthorizedEngine { engine: self, actor }
    }
}

impl AuthorizedEngine<'_> {
    /// Default values of job fields in the actor's tenant.
    pub async fn job_defaults(&self) -> Result<JobDefaults> {
        self.node().job_defaults(self.actor).await
    }

    /// A definition with explicit values for open fields that have a default of the tenant in new
    /// jobs. And the tenant's timeout.
    pub async fn spelled_out(
        &self,
        definition: &Definition,
    ) -> Result<(Definition, Option<SignedDuration>)> {
        let settings = &self.node().settings;
        let cluster = Retention {
            days: Some(settings.retention_days),
            failed_days: Some(settings.failed_retention_days),
            ..Retention::default()
        };
        let defaults = self.job_defaults().await?;
        Ok((defaults.spelled_out(definition, cluster), defaults.timeout))
    }
}

/// The audit.
impl AuthorizedEngine<'_> {
    /// Audit rows, newest first, from the given one backwards.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        self.may_audit(filter.tenant)?;
        self.node().audit(filter, from, limit).await
    }

    /// Verifies the whole audit chain of a tenant.
    pub async fn verify_audit(
        &self,
        tenant: TenantId,
        known: Option<KeptHead>,
    ) -> Result<Verified> {
        self.may_audit(tenant)?;
        Ok(self.node().verify_audit(tenant, known).await?)
    }

    /// Creators of jobs, deleted ones included, for a reader of the audit.
    pub async fn job_creators(&self, jobs: &[JobId]) -> Result<HashMap<JobId, UserId>> {
        self.may(Deed::SeeAccess)?;
        Ok(self.node().store.job_creators(jobs).await?.into_iter().collect())
    }

    fn may_audit(&self, tenant: TenantId) -> Result<()> {
        let own = tenant == self.actor.tenant;
        self.may(if own { Deed::SeeAccess } else { Deed::SeeCluster })
    }
}

/// Commands and queries about jobs.
impl AuthorizedEngine<'_> {
    pub(crate) fn node(&self) -> &Node {
        self.engine.node()
    }

    /// The name under which changes of the actor are recorded.
    pub(crate) fn author(&self) -> &str {
        &self.actor.name
    }

    pub(crate) fn may(&self, deed: Deed) -> Result<()> {
        may(self.actor, deed).map_err(EngineError::Refused)
    }

    fn sees(&self, deed: Deed) -> bool {
        may(self.actor, deed).is_ok()
    }

    /// Whether jobs and runs of all users of the tenant are seen.
    fn sees_all(&self, privileges: &[Privilege]) -> bool {
        privileges.iter().any(|privilege| self.actor.privileges.has(*privilege))
    }

    /// The job, if the actor may do this with it.
    async fn job_for(&self, id: JobId, deed: fn(UserId) -> Deed) -> Result<Job> {
        let job = self.node().existing(id).await?;
        if !Self::is_job(&job) {
            return Err(no_job(id));
        }
        self.may_with(&job, deed)?;
        Ok(job)
    }

    /// Whether the actor may do this with a job. One that is not theirs to see does not exist.
    fn may_with(&self, job: &Job, deed: fn(UserId) -> Deed) -> Result<()> {
        if job.tenant != self.actor.tenant {
            return Err(no_job(job.id));
        }
        match may(self.actor, deed(job.owner)) {
            Ok(()) => Ok(()),
            Err(Refusal::Absent) => Err(no_job(job.id)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The job, if the actor may start and stop its runs.
    async fn job_to_run(&self, id: JobId) -> Result<Job> {
        let job = self.job_for(id, Deed::ExecuteJob).await?;
        job.definition.actions().try_for_each(|action| self.actor.may_do(action))?;
        Ok(job)
    }

    /// Checks the change of one job among those of a transaction.
    pub async fn check_change(&self, id: JobId, among: &JobChanges) -> Result<()> {
        self.node().check_change(id, among).await
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

    /// The database of SQL jobs of the actor's tenant that name none.
    fn default_database(&self) -> Option<&str> {
        self.node().default_database(self.actor.tenant)
    }

    /// A job as the actor would make it.
    async fn mine(&self, job: NewJob) -> Result<NewJob> {
        self.actor.may_define(&job.definition, self.default_database())?;
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
        let mut done = self.node().create_jobs(allowed, self.author()).await?.into_iter();
        self.engine.planned_soon();
        Ok(answers.into_iter().filter_map(|answer| answer.or_else(|| done.next())).collect())
    }

    /// A job that is to be created with other changes, if the actor may do so; the actor owns it.
    pub async fn draft_job(&self, job: NewJob, among: &JobChanges) -> Result<Job> {
        self.may(Deed::CreateJob)?;
        self.actor.may_define(&job.definition, self.default_database())?;
        self.sees_upstream_among(&job.definition, among).await?;
        let (tenant, owner) = (self.actor.tenant, self.actor.user);
        self.node().draft_job(NewJob { tenant, owner, ..job }, among).await
    }

    /// Whether every job that a definition waits for is one that the actor sees, or a new one among
    /// the changes.
    async fn sees_upstream_among(&self, definition: &Definition, among: &JobChanges) -> Result<()> {
        let wanted = definition.depends_on.iter().map(|it| it.job);
        let wanted: Vec<JobId> = wanted.filter(|id| among.exists(*id) != Some(true)).collect();
        let found = self.jobs_by_id(&wanted).await?;
        match wanted.iter().find(|id| !found.iter().any(|job| job.id == **id)) {
            Some(missing) => Err(EngineError::NotFound(format!("upstream job {missing}"))),
            None => Ok(()),
        }
    }

    /// Which job of the actor's tenant waits for which: pairs of the ids of a job and its upstream,
    /// whether the actor sees them or not. [`AuthorizedEngine::jobs_by_id`] knows those that it sees.
    pub async fn dependencies(&self) -> Result<Vec<(JobId, JobId)>> {
        Ok(self.node().store.dependencies(self.actor.tenant).await?)
    }

    /// Jobs that depend on another one, whether the actor sees them or not.
    pub async fn dependents(&self, job: &Job) -> Result<Vec<Job>> {
        self.may_with(job, Deed::DropJob)?;
        self.node().dependents(job).await
    }

    /// Whether the actor may make a change that happens with others.
    pub async fn may_change_job(&self, change: &JobChange, among: &JobChanges) -> Result<()> {
        match change {
            JobChange::Create(job) => {
                self.may(Deed::CreateJob)?;
                self.actor.may_define(&job.definition, self.default_database())?;
                self.sees_upstream_among(&job.definition, among).await
            }
            JobChange::Alter { old, new } => {
                self.may_with(old, Deed::AlterJob)?;
                if new.definition != old.definition {
                    self.actor.may_define(&new.definition, self.default_database())?;
                }
                Ok(())
            }
            JobChange::Drop { old, .. } => self.may_with(old, Deed::DropJob),
        }
    }

    /// Makes all changes, or none of them. Returns the jobs that exist after them.
    pub async fn change_jobs(
        &self,
        changes: &JobChanges,
    ) -> std::result::Result<Vec<Job>, ChangeRefused> {
        for change in changes.iter() {
            self.may_change_job(change, changes).await?;
        }
        let jobs = self.node().change_jobs(changes, self.author()).await?;
        self.engine.planned_soon();
        for change in changes.iter() {
            if let JobChange::Drop { old, cancel_running: true, .. } = change {
                self.cancel_runs_of(old.id).await?;
            }
        }
        Ok(jobs)
    }

    /// Cancels the runs of a deleted job that have not ended.
    async fn cancel_runs_of(&self, id: JobId) -> Result<()> {
        let held = self.node().cancel_runs_of(id, self.author()).await?;
        for part in self.node().store.parts(&held).await? {
            self.engine.stop_run(part.run);
        }
        held.iter().for_each(|run| self.engine.stop_run(*run));
        Ok(())
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
        let (actor, default) = (self.actor, self.default_database());
        let checked = |job: &mut Job| {
            let before = job.definition.clone();
            edit(job)?;
            if job.definition != before {
                actor.may_define(&job.definition, default).map_err(EngineError::from)?;
            }
            Ok(())
        };
        let job = self.node().try_alter_job::<E>(id, checked, self.author()).await?;
        self.engine.planned_soon();
        Ok(job)
    }

    /// Holds a job.
    pub async fn pause_job(&self, id: JobId) -> Result<Job> {
        self.job_for(id, Deed::AlterJob).await?;
        self.node().pause_job(id, self.author()).await
    }

    /// Lets a job go on.
    pub async fn resume_job(&self, id: JobId, catch_up: Option<CatchUpPolicy>) -> Result<Job> {
        self.job_for(id, Deed::AlterJob).await?;
        let job = self.node().resume_job(id, catch_up, self.author()).await?;
        self.engine.planned_soon();
        Ok(job)
    }

    /// Removes a job; with `cascade`, the dependencies of others on it too, if the actor may change
    /// those jobs.
    pub async fn delete_job(&self, id: JobId, deletion: Deletion) -> Result<Vec<String>> {
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
        let unscheduled = self.node().delete_job(id, deletion, self.author()).await?;
        if deletion.cancel_running {
            self.cancel_runs_of(id).await?;
        }
        Ok(unscheduled)
    }

    /// Jobs by id, as far as the actor sees them.
    pub async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        let mut jobs = self.node().jobs_by_id(ids).await?;
        jobs.retain(|job| Self::is_job(job) && self.sees_job(job));
        Ok(jobs)
    }

    /// Whether the actor sees a job.
    pub fn sees_job(&self, job: &Job) -> bool {
        job.tenant == self.actor.tenant && self.sees(Deed::SeeJob(job.owner))
    }

    /// Whether the actor sees all jobs of the tenant, and not only their own.
    pub fn sees_all_jobs(&self) -> bool {
        self.sees_all(&[Privilege::ViewJobHistory, Privilege::ExecuteJob])
    }

    /// A job of the tenant by its name.
    pub async fn job_by_name(&self, name: &str) -> Result<Option<Job>> {
        let job = self.node().job_by_name(self.actor.tenant, name).await?;
        Ok(job.filter(|job| Self::is_job(job) && self.sees_job(job)))
    }

    /// The jobs of the tenant that a filter lets through, as far as the actor sees them.
    pub async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        let mut filter = JobFilter { tenant: self.actor.tenant, ..filter.clone() };
        if !self.sees_all_jobs() {
            filter.owner = Some(self.actor.user);
        }
        self.node().list_jobs(&filter, after, limit).await
    }

    /// How the runs of some jobs ended in this hour and so many before.
    pub async fn job_stats(&self, jobs: &[JobId], hours: u32) -> Result<HashMap<JobId, Summary>> {
        for job in jobs {
            self.job_for(*job, Deed::SeeRuns).await?;
        }
        self.node().job_stats(self.actor.tenant, jobs, hours).await
    }
}
