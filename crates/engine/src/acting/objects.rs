//! Databases, alert channels and shards: things with a name, and what a channel delivered.

use domain::access::Deed;
use domain::id::{ObjectId, TenantId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::pool::PoolRun;
use store::{DeliveryKey, DeliveryView, JobFilter, Page, Put, Set};

use super::AuthorizedEngine;
use crate::error::Result;

impl AuthorizedEngine<'_> {
    /// Whether the actor may change objects of a kind. A database is an address that this machine
    /// connects to, or a file of it: that is for the cluster to say.
    fn may_change(&self, object: &Object) -> Result<()> {
        self.may(match object.kind {
            ObjectKind::Database | ObjectKind::Shard => Deed::ChangeCluster,
            ObjectKind::AlertChannel | ObjectKind::Pool | ObjectKind::Hook => Deed::ChangeAccess,
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
