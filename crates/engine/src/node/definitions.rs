//! Jobs that were read before, so that a thousand runs of one job read it once.
//!
//! A start trusts an entry for a few seconds. A trigger trusts an entry of any age: the store
//! records no run of another version of its job than the current one, so a job that has changed
//! since is detected in the same call, and read again.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, Job, JobState};
use domain::run::ClaimedRun;
use jiff::{SignedDuration, Timestamp};
use store::{CHANGED_JOBS_MAX, RunView, SharedStore};

use super::Node;

/// Enough for every job of a busy minute; beyond that, all are dropped and read again.
const REMEMBERED_MAX: usize = 50_000;

/// How long a cached definition is trusted.
const DEFINITION_TTL: SignedDuration = SignedDuration::from_secs(5);

pub(super) struct Definitions {
    /// Upper limit of the timeout of an attempt, for all jobs.
    timeout_max: Option<SignedDuration>,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// With the time when each was read.
    jobs: HashMap<JobId, (Arc<Job>, Timestamp)>,
    /// By tenant and name. A job that was renamed or dropped is not found by its id, or has another
    /// name there.
    names: HashMap<TenantId, HashMap<String, JobId>>,
    /// Grows with every change that becomes known: jobs that were read before it are not cached.
    changes: u64,
}

impl Remembered {
    fn by_name(&self, tenant: TenantId, name: &str) -> Option<&Arc<Job>> {
        let (job, _) = self.jobs.get(self.names.get(&tenant)?.get(name)?)?;
        Some(job).filter(|job| job.name == name)
    }

    /// Caches jobs that were read before so many changes became known.
    fn insert(&mut self, read: &[Arc<Job>], changes: u64, now: Timestamp) {
        if self.jobs.len() + read.len() > REMEMBERED_MAX {
            self.jobs.clear();
            self.names.clear();
        }
        if self.changes == changes {
            self.jobs.extend(read.iter().map(|job| (job.id, (Arc::clone(job), now))));
        }
    }

    fn insert_name(&mut self, job: &Job) {
        let names = self.names.entry(job.tenant).or_default();
        if names.len() >= REMEMBERED_MAX {
            names.clear();
        }
        names.insert(job.name.clone(), job.id);
    }
}

impl Definitions {
    pub(super) fn new(timeout_max: Option<SignedDuration>) -> Self {
        Definitions { timeout_max, remembered: Mutex::default() }
    }

    pub(super) fn forget(&self, id: JobId) {
        let mut remembered = self.remembered();
        remembered.jobs.remove(&id);
        remembered.changes += 1;
    }

    /// Drops entries that are older than these versions.
    pub(super) fn forget_older(&self, changed: &[(JobId, u32)]) {
        if changed.is_empty() {
            return;
        }
        let mut remembered = self.remembered();
        if changed.len() > CHANGED_JOBS_MAX {
            remembered.jobs.clear();
            remembered.changes += 1;
            return;
        }
        for (id, version) in changed {
            if remembered.jobs.get(id).is_some_and(|(job, _)| job.version < *version) {
                remembered.jobs.remove(id);
                remembered.changes += 1;
            }
        }
    }

    /// The job as it was at some time; none when it does not exist.
    pub(super) async fn recall(
        &self,
        store: &SharedStore,
        id: JobId,
        now: Timestamp,
    ) -> store::Result<Option<Arc<Job>>> {
        let changes = {
            let remembered = self.remembered();
            if let Some((job, _)) = remembered.jobs.get(&id) {
                return Ok(Some(Arc::clone(job)));
            }
            remembered.changes
        };
        let read = store.jobs_by_id(&[id]).await?.pop().map(|job| self.limit(job));
        self.remembered().insert(read.as_slice(), changes, now);
        Ok(read)
    }

    /// The job that had a name at some time; none when no job has it.
    pub(super) async fn recall_named(
        &self,
        store: &SharedStore,
        tenant: TenantId,
        name: &str,
        now: Timestamp,
    ) -> store::Result<Option<Arc<Job>>> {
        let changes = {
            let remembered = self.remembered();
            if let Some(job) = remembered.by_name(tenant, name) {
                return Ok(Some(Arc::clone(job)));
            }
            remembered.changes
        };
        let read = store.job_by_name(tenant, name).await?.map(|job| self.limit(job));
        let mut remembered = self.remembered();
        remembered.insert(read.as_slice(), changes, now);
        if let Some(job) = &read {
            remembered.insert_name(job);
        }
        Ok(read)
    }

    /// Drops the job that has this id or this name, so that it is read again.
    pub(super) fn forget_named(&self, tenant: TenantId, id: Option<JobId>, name: Option<&str>) {
        let mut remembered = self.remembered();
        let named = name.and_then(|name| remembered.by_name(tenant, name)).map(|job| job.id);
        for id in named.into_iter().chain(id) {
            remembered.jobs.remove(&id);
        }
        remembered.changes += 1;
    }

    /// A job as it is executed: its timeout is at most the upper limit.
    fn limit(&self, mut job: Job) -> Arc<Job> {
        if let Some(most) = self.timeout_max {
            job.definition.timeout = job.definition.timeout.min(most);
        }
        Arc::new(job)
    }

    /// The jobs with these ids, those that exist. A job that is not cached, or in an older version,
    /// or for too long, is read; cached jobs may be dropped while that happens, so they are taken
    /// out first.
    pub(super) async fn read(
        &self,
        store: &SharedStore,
        wanted: &[(JobId, u32)],
        now: Timestamp,
    ) -> store::Result<HashMap<JobId, Arc<Job>>> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        let changes = {
            let remembered = self.remembered();
            for (id, version) in wanted {
                match remembered.jobs.get(id) {
                    Some((job, read_at))
                        if job.version >= *version
                            && now.duration_since(*read_at) <= DEFINITION_TTL =>
                    {
                        found.entry(*id).or_insert_with(|| Arc::clone(job));
                    }
                    _ => missing.push(*id),
                }
            }
            remembered.changes
        };
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(found);
        }
        let read = store.jobs_by_id(&missing).await?;
        let read: Vec<Arc<Job>> = read.into_iter().map(|job| self.limit(job)).collect();
        let mut remembered = self.remembered();
        for id in missing {
            remembered.jobs.remove(&id);
        }
        remembered.insert(&read, changes, now);
        found.extend(read.into_iter().map(|job| (job.id, job)));
        Ok(found)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    pub(crate) async fn job(&self, id: JobId, version: u32) -> store::Result<Option<Arc<Job>>> {
        let now = self.now();
        Ok(self.definitions.read(&self.store, &[(id, version)], now).await?.remove(&id))
    }

    /// A job as it was at some time, for a call to the store that finds out whether it has changed
    /// since; none when it does not exist.
    pub(crate) async fn recall_job(&self, id: JobId) -> store::Result<Option<Arc<Job>>> {
        self.definitions.recall(&self.store, id, self.now()).await
    }

    /// The same by its name.
    pub(crate) async fn recall_job_named(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> store::Result<Option<Arc<Job>>> {
        self.definitions.recall_named(&self.store, tenant, name, self.now()).await
    }

    /// The job with this id or this name is to be read again.
    pub(crate) fn forget_named(&self, tenant: TenantId, id: Option<JobId>, name: Option<&str>) {
        self.definitions.forget_named(tenant, id, name);
    }

    /// The jobs of runs that are shown, those that exist: not older than the runs were made of, and
    /// not longer ago than a moment ([`DEFINITION_TTL`]).
    pub(crate) async fn jobs_of_views(&self, runs: &[RunView]) -> store::Result<Vec<Arc<Job>>> {
        let mut wanted: Vec<_> = runs.iter().map(|run| (run.job, run.job_version)).collect();
        wanted.sort_unstable();
        // Of each job the newest version.
        wanted.reverse();
        wanted.dedup_by_key(|(job, _)| *job);
        let known = self.definitions.read(&self.store, &wanted, self.now()).await?;
        Ok(known.into_values().collect())
    }

    /// The job of each run.
    pub(super) async fn jobs_of(
        &self,
        runs: &[impl Borrow<ClaimedRun>],
    ) -> store::Result<Vec<Arc<Job>>> {
        let runs = || runs.iter().map(Borrow::borrow);
        let mut wanted: Vec<_> = runs().map(|run| (run.run.job, run.run.job_version)).collect();
        // Neighbours are often of the same job.
        wanted.dedup();
        let known = self.definitions.read(&self.store, &wanted, self.now()).await?;
        let mut jobs: Vec<Arc<Job>> = Vec::new();
        let mut deleted: HashMap<(JobId, u32), Arc<Job>> = HashMap::new();
        let mut has_steps = false;
        for run in runs() {
            let at = (run.run.job, run.run.job_version);
            let job = match known.get(&run.run.job).or_else(|| deleted.get(&at)) {
                Some(known) => Arc::clone(known),
                // The children of a run that has begun start even after its job was deleted.
                None if run.run.origin.is_child() => {
                    let job = self.job_at_version(at.0, at.1).await?;
                    let job = job.map_or_else(|| orphan(run), Arc::new);
                    deleted.insert(at, Arc::clone(&job));
                    job
                }
                None => orphan(run),
            };
            has_steps |= may_be_step(run, &job);
            jobs.push(job);
        }
        if has_steps {
            for (run, job) in runs().zip(&mut jobs) {
                if may_be_step(run, job)
                    && let Some(step) = self.job_of_step(run).await?
                {
                    *job = step;
                }
            }
        }
        Ok(jobs)
    }

    /// A job at one of its versions, also after it was deleted. A version that is no longer kept is
    /// followed as the job is now.
    pub(super) async fn job_at_version(
        &self,
        job: JobId,
        version: u32,
    ) -> store::Result<Option<Job>> {
        let Some(current) = self.store.jobs_ever(&[job]).await?.pop() else { return Ok(None) };
        if current.version == version {
            return Ok(Some(current));
        }
        Ok(Some(match self.store.job_version(job, version).await? {
            Some(old) => Job { version, definition: old.definition, name: old.name, ..current },
            None => current,
        }))
    }

    /// A job changed here: its entry is outdated.
    pub(crate) fn forget_job(&self, id: JobId) {
        self.definitions.forget(id);
    }
}

/// Whether a run may be a step of a DAG run. Steps of a DAG that was deleted go on.
fn may_be_step(run: &ClaimedRun, job: &Job) -> bool {
    let is_deleted = job.state == JobState::Deleted;
    run.run.origin.is_child() && (job.definition.is_dag() || is_deleted)
}

/// The job of a run whose job is gone.
fn orphan(run: &ClaimedRun) -> Arc<Job> {
    Arc::new(Job {
        id: run.run.job,
        tenant: run.run.tenant,
        owner: UserId::ADMIN,
        name: run.run.job.to_string(),
        version: run.run.job_version,
        state: JobState::Deleted,
        definition: Definition::default(),
        next_run: None,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    })
}
