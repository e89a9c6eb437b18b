//! Databases, alert channels, shards and other named resources, and the deliveries of channels.

use domain::access::Deed;
use domain::id::{ObjectId, TenantId};
use domain::job::{Definition, Job};
use domain::object::{Object, ObjectKind};
use domain::pause::Pause;
use domain::pool::PoolRun;
use domain::schedule::CatchUpPolicy;
use store::{DeliveryKey, DeliveryView, JobFilter, Page, Put, Set};

use super::AuthorizedEngine;
use crate::error::{EngineError, Result};
use crate::pauses::PauseView;

/// Where a blackout or a pause holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the tenant of the actor.
    Tenant,
    /// In all tenants.
    Cluster,
}

/// The most blackouts of a tenant that are listed.
const BLACKOUTS_MAX: u32 = 1_000;

impl AuthorizedEngine<'_> {
    /// Whether the actor may change an object.
    fn may_change(&self, object: &Object) -> Result<()> {
        // Every user may change their own preferences.
        if object.kind == ObjectKind::Preferences && object.name == self.actor.user.to_string() {
            return Ok(());
        }
        self.may(object.kind.changing())
    }

    /// Makes an object of the tenant, or changes the one that still has the expected version.
    pub async fn put_object(&self, object: &Object, expected: u32) -> Result<Put> {
        self.may_change(object)?;
        let object = Object { tenant: self.actor.tenant, ..object.clone() };
        if object.kind == ObjectKind::Calendar && expected > 0 {
            let old = self.node().object(object.id).await?;
            if let Some(old) = old.filter(|old| old.name != object.name) {
                self.refuse_used_calendar(&old).await?;
            }
        }
        let put = self.node().put_object(&object, expected, self.author()).await?;
        if let Put::Done(object) = &put {
            self.schedules_changed(object).await?;
        }
        if object.kind == ObjectKind::Shard {
            self.engine.shards_changed();
        }
        Ok(put)
    }

    /// Removes an object if it still has the version that was seen.
    pub async fn remove_object(&self, object: &Object) -> Result<Set> {
        self.may_change(object)?;
        if object.kind == ObjectKind::Calendar {
            self.refuse_used_calendar(object).await?;
        }
        let removed = self
            .node()
            .remove_object(self.actor.tenant, object.id, object.version, self.author())
            .await?;
        self.blackouts_changed(object).await?;
        Ok(removed)
    }

    /// A calendar that jobs use keeps its name and cannot be deleted.
    async fn refuse_used_calendar(&self, calendar: &Object) -> Result<()> {
        let users = self.node().jobs_with_calendar(self.actor.tenant, &calendar.name).await?;
        if users.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = users.iter().take(10).map(|(_, name)| name.as_str()).collect();
        let more = match users.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(EngineError::WrongState(format!(
            "calendar {:?} is used by {}{more}",
            calendar.name,
            names.join(", ")
        )))
    }

    /// Plans again the jobs that use the changed object.
    async fn schedules_changed(&self, object: &Object) -> Result<()> {
        if object.kind == ObjectKind::Calendar {
            self.node().replan_calendar(object, self.author()).await?;
            self.engine.planned_soon();
        }
        self.blackouts_changed(object).await
    }

    async fn blackouts_changed(&self, object: &Object) -> Result<()> {
        if object.kind == ObjectKind::Blackout {
            self.node().read_blackouts().await?;
        }
        Ok(())
    }

    /// Pauses all jobs of the tenant, or of the cluster, and answers how many were running by their
    /// schedules until then. When this has returned, no tick of them starts.
    pub async fn pause_all(&self, scope: Scope, pause: &Pause) -> Result<usize> {
        self.may_in(scope)?;
        let pause = Pause { by: self.actor.name.clone(), ..pause.clone() };
        self.node().pause_all(self.tenant_of(scope), &pause, self.author()).await
    }

    /// Ends the pause of all jobs of the tenant, or of the cluster.
    pub async fn resume_all(&self, scope: Scope, catch_up: Option<CatchUpPolicy>) -> Result<usize> {
        self.may_in(scope)?;
        let resumed =
            self.node().resume_all(self.tenant_of(scope), catch_up, self.author()).await?;
        self.engine.planned_soon();
        Ok(resumed)
    }

    /// The blackouts that hold for the tenant's jobs: its own by name, then those of the cluster.
    pub async fn blackouts(&self) -> Result<Vec<Object>> {
        self.may_see(ObjectKind::Blackout)?;
        let mut found = Vec::new();
        for tenant in [self.actor.tenant, TenantId::CLUSTER] {
            let page = self.node().list_objects(tenant, ObjectKind::Blackout, None, BLACKOUTS_MAX);
            found.extend(page.await?.items);
        }
        Ok(found)
    }

    /// Gives the calendars of a definition that is only looked at their days.
    pub async fn resolve_calendars(&self, definition: &mut Definition) -> Result<()> {
        self.may(Deed::CreateJob)?;
        self.node().resolve_calendars(self.actor.tenant, definition, None).await
    }

    /// The names of the tenant's jobs that use a calendar.
    pub async fn calendar_users(&self, name: &str) -> Result<Vec<String>> {
        self.may_see(ObjectKind::Calendar)?;
        let users = self.node().jobs_with_calendar(self.actor.tenant, name).await?;
        Ok(users.into_iter().map(|(_, name)| name).collect())
    }

    /// The pauses that hold for the tenant's jobs.
    pub async fn pauses(&self) -> Result<Vec<PauseView>> {
        self.may_see(ObjectKind::Pause)?;
        self.node().pauses(self.actor.tenant).await
    }

    fn may_in(&self, scope: Scope) -> Result<()> {
        self.may(match scope {
            Scope::Tenant => Deed::ChangeAccess,
            Scope::Cluster => Deed::ChangeCluster,
        })
    }

    fn tenant_of(&self, scope: Scope) -> TenantId {
        match scope {
            Scope::Tenant => self.actor.tenant,
            Scope::Cluster => TenantId::CLUSTER,
        }
    }

    /// An object of the tenant by its id.
    pub async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        let found = self.node().object(id).await?;
        let found = found.filter(|object| object.tenant == self.actor.tenant);
        if let Some(object) = &found {
            self.may_see(object.kind)?;
        }
        Ok(found)
    }

    /// Whether the actor may see objects of a kind. Calendars and blackouts concern every user that
    /// creates jobs.
    pub fn may_see(&self, kind: ObjectKind) -> Result<()> {
        match kind {
            ObjectKind::Calendar | ObjectKind::Blackout | ObjectKind::Pause => {
                // The refusal names the privilege that most users lack.
                self.may(Deed::SeeAccess).or_else(|_| self.may(Deed::CreateJob))
            }
            _ => self.may(Deed::SeeAccess),
        }
    }

    /// An object of the tenant by its name.
    pub async fn object_by_name(&self, kind: ObjectKind, name: &str) -> Result<Option<Object>> {
        self.may_see(kind)?;
        self.node().object_by_name(self.actor.tenant, kind, name).await
    }

    /// Dashboard preferences of the actor.
    pub async fn preferences(&self) -> Result<Option<Object>> {
        let (tenant, name) = (self.actor.tenant, self.actor.user.to_string());
        self.node().object_by_name(tenant, ObjectKind::Preferences, &name).await
    }

    /// The tenant's objects of a kind, by name.
    pub async fn list_objects(
        &self,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        self.may_see(kind)?;
        self.node().list_objects(self.actor.tenant, kind, after, limit).await
    }

    /// The runs that have a place in pools of the tenant, or in one of them, and those in line.
    pub async fn pool_runs(&self, pool: Option<&str>) -> Result<Vec<PoolRun>> {
        self.may(Deed::SeeAccess)?;
        Ok(self.node().store.pool_runs(self.actor.tenant, pool).await?)
    }

    /// The names of the tenant's jobs that use a pool; at most ten.
    pub async fn jobs_of_pool(&self, pool: &str) -> Result<Vec<String>> {
        self.may(Deed::SeeAccess)?;
        let filter = JobFilter::of_tenant(self.actor.tenant);
        let mut names = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.node().store.list_jobs(&filter, after.as_deref(), 500).await?;
            let uses = |job: &&Job| job.definition.pool.as_ref().is_some_and(|it| it.name == pool);
            names.extend(page.items.iter().filter(uses).map(|job| job.name.clone()));
            after = page.next;
            if after.is_none() || names.len() >= 10 {
                names.truncate(10);
                return Ok(names);
            }
        }
    }

    /// The size of a pool was changed: runs in line may begin.
    pub async fn wake_pools(&self) -> Result<()> {
        if self.node().store.wake_pools().await? > 0 {
            self.node().hint();
        }
        Ok(())
    }

    /// Makes something of the cluster's: an agent, or the right to become one.
    pub async fn put_cluster_object(&self, object: &Object, expected: u32) -> Result<Put> {
        self.may(Deed::ChangeCluster)?;
        let object = Object { tenant: TenantId::CLUSTER, ..object.clone() };
        let put = self.node().put_object(&object, expected, self.author()).await?;
        self.blackouts_changed(&object).await?;
        Ok(put)
    }

    /// Removes something of the cluster's if it still has the version that was seen.
    pub async fn remove_cluster_object(&self, object: &Object) -> Result<Set> {
        self.may(Deed::ChangeCluster)?;
        let removed = self
            .node()
            .remove_object(TenantId::CLUSTER, object.id, object.version, self.author())
            .await?;
        self.blackouts_changed(object).await?;
        Ok(removed)
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

    /// Deliveries of a channel of the tenant, newest first.
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
