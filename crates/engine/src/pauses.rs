//! Pausing all jobs of a tenant or of the cluster.
//!
//! ```text
//!   PAUSE ALL ──▶ record ACTIVE ──▶ every enabled job becomes PAUSED, marked ──▶ acknowledged
//!   RESUME ALL, or its end ──▶ record ENDED ──▶ every marked job is resumed ──▶ record removed
//! ```
//!
//! Each job is paused and resumed as if a user had done it: prepared ticks are deleted, and missed
//! times follow the catch-up policy of the job. While the pause lasts, a job that would become
//! enabled becomes PAUSED with the mark. The leader completes changes that a node began and did not
//! finish ([`Node::reconcile_pauses`]), and ends a pause whose time has come.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use domain::id::{JobId, ObjectId, TenantId};
use domain::job::{Job, JobState};
use domain::object::{Object, ObjectKind};
use domain::pause::Pause;
use domain::schedule::CatchUpPolicy;
use jiff::{SignedDuration, Timestamp};
use store::{Put, SYSTEM, Set};

use crate::error::{EngineError, Result};
use crate::node::Node;

/// The name of the one pause of a tenant or of the cluster.
const NAME: &str = "all";

/// More pauses than a cluster has tenants that are paused at the same time.
const PAUSES_MAX: u32 = 1_000;

/// A job that is due within this time is never written without a look at the pauses.
const SOON: SignedDuration = SignedDuration::from_mins(1);

/// The pauses of more tenants than this are read again.
const TENANTS_MAX: usize = 10_000;

/// A job is resumed again so often if other changes come between.
const TRIES_MAX: u32 = 5;

/// Tenants that were under no pause when this node looked last. A new job of such a tenant that is
/// not due soon is written without another look: the look after the write has the last word
/// ([`Node::overtaken_by_pause`]), and if this node dies before it, the leader applies the pause
/// ([`Node::reconcile_pauses`]). So most creations read the pauses once instead of twice.
#[derive(Default)]
pub(crate) struct UnpausedTenants(Mutex<HashSet<TenantId>>);

impl UnpausedTenants {
    fn contains(&self, tenant: TenantId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&tenant)
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn note(&self, tenant: TenantId, is_unpaused: bool) {
        let mut unpaused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unpaused.len() >= TENANTS_MAX {
            unpaused.clear();
        }
        match is_unpaused {
            true => unpaused.insert(tenant),
            false => unpaused.remove(&tenant),
        };
    }
}

/// A pause and where it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseView {
    /// The tenant; [`TenantId::CLUSTER`] for all.
    pub tenant: TenantId,
    /// The pause.
    pub pause: Pause,
    /// When it began.
    pub since: Timestamp,
}

fn pause_of(object: &Object) -> Result<Pause> {
    Pause::from_body(&object.body).map_err(|error| {
        EngineError::WrongState(format!("the pause of all jobs cannot be read: {error}"))
    })
}

impl Node {
    /// Pauses all jobs of a tenant, or of the cluster. When this has returned, no tick of them
    /// starts. A pause that is there gets the new reason and end.
    pub async fn pause_all(&self, tenant: TenantId, pause: &Pause, by: &str) -> Result<usize> {
        if let Some(until) = pause.until
            && until <= self.store.now().await?
        {
            let problem = format!("{until} has passed; a pause ends at a time to come");
            return Err(EngineError::Invalid { field: "until", problem });
        }
        let object = self.put_pause(tenant, |_| Ok(Some(pause.clone())), by).await?;
        let Some(object) = object else { return Ok(0) };
        self.apply_pause(&object, by).await
    }

    /// Ends the pause of all jobs of a tenant, or of the cluster. Missed times follow their
    /// catch-up policies, or the one that is given.
    pub async fn resume_all(
        &self,
        tenant: TenantId,
        catch_up: Option<CatchUpPolicy>,
        by: &str,
    ) -> Result<usize> {
        let end = |before: Option<Pause>| {
            let before = before
                .ok_or_else(|| EngineError::WrongState("no jobs are paused by PAUSE ALL".into()))?;
            Ok(Some(Pause { has_ended: true, catch_up, ..before }))
        };
        let Some(object) = self.put_pause(tenant, end, by).await? else { return Ok(0) };
        self.apply_pause(&object, by).await
    }

    /// The pauses that hold for a tenant: its own and that of the cluster.
    pub async fn pauses(&self, tenant: TenantId) -> Result<Vec<PauseView>> {
        let mut found = Vec::new();
        for scope in [tenant, TenantId::CLUSTER] {
            let object = self.store.object_by_name(scope, ObjectKind::Pause, NAME).await?;
            if let Some(object) = object {
                let pause = pause_of(&object)?;
                found.push(PauseView { tenant: scope, pause, since: object.created_at });
            }
        }
        Ok(found)
    }

    /// The pause that a job of a tenant is under, if there is one that has not ended.
    pub(crate) async fn active_pause(&self, tenant: TenantId) -> Result<Option<(ObjectId, Pause)>> {
        let mut active = None;
        for object in self.store.objects_of_kind(ObjectKind::Pause, None, PAUSES_MAX).await? {
            let pause = pause_of(&object)?;
            let is_meant = object.tenant == tenant || object.tenant == TenantId::CLUSTER;
            if is_meant && !pause.has_ended {
                active = Some((object.id, pause));
                break;
            }
        }
        self.unpaused.note(tenant, active.is_none());
        Ok(active)
    }

    /// Writes what `change` makes of the pause of a tenant; none if it leaves it.
    async fn put_pause(
        &self,
        tenant: TenantId,
        change: impl Fn(Option<Pause>) -> Result<Option<Pause>>,
        by: &str,
    ) -> Result<Option<Object>> {
        loop {
            let old = self.store.object_by_name(tenant, ObjectKind::Pause, NAME).await?;
            let before = old.as_ref().map(pause_of).transpose()?;
            let Some(pause) = change(before)? else { return Ok(None) };
            let now = self.now();
            let version = old.as_ref().map_or(0, |old| old.version);
            let random = (self.parts.random)().to_be_bytes();
            let bytes = random[..10].try_into().unwrap_or([0; 10]);
            let ms = now.as_millisecond().max(0).unsigned_abs();
            let fresh = uuid::Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid();
            let object = Object {
                id: old.map_or(ObjectId(fresh), |old| old.id),
                tenant,
                kind: ObjectKind::Pause,
                name: NAME.to_owned(),
                body: pause.to_body(),
                version,
                created_at: now,
                changed_at: now,
            };
            match self.store.put_object(&object, version, by).await? {
                Put::Done(object) => {
                    self.unpaused.clear();
                    return Ok(Some(object));
                }
                // Another change came between.
                Put::Conflict(_) | Put::NameTaken => {}
            }
        }
    }

    /// Pauses or resumes the jobs that a pause is about. Returns how many.
    async fn apply_pause(&self, object: &Object, by: &str) -> Result<usize> {
        let pause = pause_of(object)?;
        let tenant = Some(object.tenant).filter(|tenant| *tenant != TenantId::CLUSTER);
        if !pause.has_ended {
            let is_job = |job: &Job| !job.definition.is_queue();
            let jobs = self.jobs_of_tenant(tenant, &[JobState::Enabled], is_job).await?;
            for job in &jobs {
                // The check of the change makes it PAUSED, with the mark.
                self.touch_job(job.id, |_| {}, by).await?;
            }
            if !jobs.is_empty() {
                tracing::info!(jobs = jobs.len(), reason = %pause.reason, "all jobs paused");
            }
            return Ok(jobs.len());
        }
        let is_marked = |job: &Job| job.definition.paused_by == Some(object.id);
        let jobs = self.jobs_of_tenant(tenant, &[], is_marked).await?;
        for job in &jobs {
            self.resume_marked(job, object.id, pause.catch_up, by).await?;
        }
        tracing::info!(jobs = jobs.len(), "pause of all jobs ended");
        match self.store.remove_object(object.tenant, object.id, object.version, by).await? {
            Set::Done(_) | Set::Conflict(_) => Ok(jobs.len()),
        }
    }

    async fn resume_marked(
        &self,
        job: &Job,
        mark: ObjectId,
        catch_up: Option<CatchUpPolicy>,
        by: &str,
    ) -> Result<()> {
        let mut tries = 0;
        loop {
            let resume = |job: &mut Job| {
                if job.definition.paused_by == Some(mark) {
                    job.definition.paused_by = None;
                    if job.state == JobState::Paused {
                        job.state = JobState::Enabled;
                    }
                }
                Ok::<(), EngineError>(())
            };
            match self.alter_job_catching_up(job.id, catch_up, resume, by).await {
                Ok(_) | Err(EngineError::NotFound(_)) => return Ok(()),
                Err(EngineError::VersionConflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// As the leader, completes pauses that a node began and did not finish, and ends those whose
    /// time has come. Returns how many jobs were paused or resumed.
    pub async fn reconcile_pauses(&self) -> Result<usize> {
        if self.leads().is_none() {
            return Ok(0);
        }
        let mut changed = 0;
        let now = self.store.now().await?;
        for object in self.store.objects_of_kind(ObjectKind::Pause, None, PAUSES_MAX).await? {
            let pause = pause_of(&object)?;
            let is_over = pause.until.is_some_and(|until| until <= now);
            if is_over && !pause.has_ended {
                changed += self.resume_all(object.tenant, None, SYSTEM).await?;
            } else {
                changed += self.apply_pause(&object, SYSTEM).await?;
            }
        }
        Ok(changed)
    }

    /// Looks again at jobs that were just written: a pause of all jobs may have begun or ended
    /// since [`Node::under_pause`] looked, and then it has not seen them. Returns the jobs that
    /// were paused or resumed because of it.
    pub(crate) async fn overtaken_by_pause(&self, written: &[Job], by: &str) -> Result<Vec<JobId>> {
        let mut changed = Vec::new();
        let mut active: HashMap<TenantId, Option<ObjectId>> = HashMap::new();
        for job in written.iter().filter(|job| !job.definition.is_queue()) {
            let mark = job.definition.paused_by;
            if job.state != JobState::Enabled && mark.is_none() {
                continue;
            }
            let known = active.get(&job.tenant).copied();
            let pause = match known {
                Some(pause) => pause,
                None => self.active_pause(job.tenant).await?.map(|(id, _)| id),
            };
            active.insert(job.tenant, pause);
            match mark {
                None if pause.is_some() => Box::pin(self.touch_job(job.id, |_| {}, by)).await?,
                Some(mark) if pause.is_none() => {
                    Box::pin(self.resume_marked(job, mark, None, by)).await?;
                }
                _ => continue,
            }
            changed.push(job.id);
        }
        Ok(changed)
    }

    /// Applies a pause of all jobs to a job that is to be written: one that would be enabled is
    /// paused with the mark. A job that is changed is never written without a look: pausing and
    /// resuming all jobs are changes themselves.
    pub(crate) async fn under_pause(&self, job: &mut Job, old: Option<&Job>) -> Result<()> {
        // The engine owns the mark: a definition from an interface has none.
        let mark = old.and_then(|old| old.definition.paused_by);
        if job.state == JobState::Enabled && !job.definition.is_queue() {
            let soon = job.created_at.saturating_add(SOON).unwrap_or(Timestamp::MAX);
            let is_soon = job.next_run.is_some_and(|next| next <= soon);
            job.definition.paused_by = match old {
                None if !is_soon && self.unpaused.contains(job.tenant) => None,
                _ => self.active_pause(job.tenant).await?.map(|(id, _)| id),
            };
            if job.definition.paused_by.is_some() {
                job.state = JobState::Paused;
            }
        } else {
            job.definition.paused_by = mark.filter(|_| job.state == JobState::Paused);
        }
        Ok(())
    }
}
