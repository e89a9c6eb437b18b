//! Queries of clients, and records kept for them. A node passes them to the store: none of them
//! decides what runs.

use std::collections::HashSet;

use domain::audit::{Event, Record};
use domain::id::{JobId, ObjectId, RunId, TenantId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::tally::EndedRun;
use jiff::Timestamp;
use store::{
    Answer, AttemptView, AuditFilter, Counts, Cursor, DeliveryKey, DeliveryView, JobFilter,
    LastRun, NodeView, Page, Put, RecentEnd, RequestState, RunFilter, RunView, Set, Setting,
    StartFilter, StartKey,
};
use uuid::Uuid;

use crate::error::Result;
use crate::node::Node;

impl Node {
    /// Jobs by id, in no particular order; unknown and deleted ones are left out.
    pub async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Job>> {
        Ok(self.store.jobs_by_id(ids).await?)
    }

    /// All tenants' objects of a kind by id, after the given one.
    pub async fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<Object>> {
        Ok(self.store.objects_of_kind(kind, after, limit).await?)
    }

    /// The jobs of a tenant that others wait for.
    pub async fn jobs_waited_for(&self, tenant: TenantId) -> Result<HashSet<JobId>> {
        let edges = self.store.dependencies(tenant).await?;
        Ok(edges.into_iter().map(|(_, upstream)| upstream).collect())
    }

    /// A job by its name.
    pub async fn job_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Job>> {
        Ok(self.store.job_by_name(tenant, name).await?)
    }

    /// The jobs that a filter lets through by name, after the given one.
    pub async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Job, String>> {
        Ok(self.store.list_jobs(filter, after, limit).await?)
    }

    /// Whether a run of any tenant is known.
    pub async fn knows_run(&self, id: RunId) -> Result<bool> {
        Ok(self.store.run(id).await?.is_some())
    }

    /// A run, live or ended.
    pub async fn run(&self, id: RunId) -> Result<Option<RunView>> {
        let mut run = self.store.run(id).await?;
        self.with_starts(run.as_mut_slice());
        Ok(run)
    }

    /// The runs that a filter lets through, newest first, older than the given one.
    pub async fn list_runs(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        let mut page = self.store.list_runs(filter, before, limit).await?;
        self.with_starts(&mut page.items);
        Ok(page)
    }

    /// A run's ended attempts, oldest first.
    pub async fn attempts(&self, run: RunId) -> Result<Vec<AttemptView>> {
        Ok(self.store.attempts(run).await?)
    }

    /// Asks the store for its clock: whether it answers now.
    pub async fn ping(&self) -> Result<()> {
        self.store.now().await?;
        Ok(())
    }

    /// How much there is of what.
    pub async fn counts(&self) -> Result<Counts> {
        Ok(self.store.counts().await?)
    }
}

impl Node {
    /// Acknowledges dead letters. Returns for each whether it was there.
    pub async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        Ok(self.store.acknowledge(runs).await?)
    }

    /// Records that the output of an attempt of an ended run is not in files any more. Answers
    /// whether its record is this one now.
    pub async fn archive_output(&self, run: RunId, number: u32, record: &[u8]) -> Result<bool> {
        Ok(self.store.archive_output(run, number, record).await?)
    }

    /// The output of an attempt as its agent compressed it, if it is kept with the record.
    pub async fn attempt_output(&self, run: RunId, number: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.store.attempt_output(run, number).await?)
    }

    /// The identity of a role of a tenant.
    pub async fn role_id(&self, tenant: TenantId, name: &str) -> Result<Option<Uuid>> {
        let role = self.store.entry_named(domain::access::Kind::Role, tenant, name).await?;
        Ok(role.map(|role| role.entry.id()))
    }

    /// The identities of a tenant's shards, by name.
    pub async fn shard_ids(&self, tenant: TenantId) -> Result<Vec<(String, Uuid)>> {
        let shards = self.store.shards(Some(tenant)).await?;
        Ok(shards.into_iter().map(|shard| (shard.object.name, shard.object.id.0)).collect())
    }

    /// The last runs of jobs; a job without one is left out.
    pub async fn last_runs(&self, jobs: &[JobId]) -> Result<Vec<LastRun>> {
        Ok(self.store.last_runs(jobs).await?)
    }

    /// The newest ended runs of jobs, at most `limit` of each.
    pub async fn recent_ends(&self, jobs: &[JobId], limit: u32) -> Result<Vec<RecentEnd>> {
        Ok(self.store.recent_ends(jobs, limit).await?)
    }

    /// Ended runs of a job by when they began, latest first.
    pub async fn latest_starts(
        &self,
        filter: &StartFilter,
        after: Option<StartKey>,
        limit: u32,
    ) -> Result<Page<RunView, StartKey>> {
        Ok(self.store.latest_starts(filter, after, limit).await?)
    }

    /// Runs of all tenants with attempts that were not their last word, newest first.
    pub async fn retried(&self, before: Option<RunId>, limit: u32) -> Result<Page<RunView, RunId>> {
        let mut page = self.store.retried(before, limit).await?;
        self.with_starts(&mut page.items);
        Ok(page)
    }

    /// The nodes of the cluster.
    pub async fn nodes(&self) -> Result<Vec<NodeView>> {
        Ok(self.store.nodes().await?)
    }

    /// A request begins that its caller may send again under the same key.
    pub async fn begin_request(
        &self,
        tenant: TenantId,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<RequestState> {
        Ok(self.store.begin_request(tenant, key, fingerprint).await?)
    }

    /// Keeps the answer to a request, or lets it be made anew.
    pub async fn finish_request(
        &self,
        tenant: TenantId,
        key: &str,
        answer: Option<&Answer>,
    ) -> Result<()> {
        Ok(self.store.finish_request(tenant, key, answer).await?)
    }

    /// Settings of the whole cluster, by name.
    pub async fn settings(&self) -> Result<Vec<Setting>> {
        Ok(self.store.settings().await?)
    }

    /// Changes a setting, or removes it, if it still has the version that the change is based on.
    pub async fn set(
        &self,
        name: &str,
        value: Option<&str>,
        expected: u32,
        by: &str,
    ) -> Result<Set> {
        Ok(self.store.set(name, value, expected, by).await?)
    }
}

impl Node {
    /// Audit rows, newest first, from the given one backwards.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        Ok(self.store.audit(filter, from, limit).await?)
    }

    /// Records what no other command does.
    pub async fn record(&self, event: Event) -> Result<()> {
        Ok(self.store.record(&[event]).await?)
    }
}

impl Node {
    /// Makes an object, or changes the one that still has the version that the change is based on.
    pub async fn put_object(&self, object: &Object, expected: u32, by: &str) -> Result<Put> {
        Ok(self.store.put_object(object, expected, by).await?)
    }

    /// Removes an object if it still has the version that was seen.
    pub async fn remove_object(
        &self,
        tenant: TenantId,
        id: ObjectId,
        expected: u32,
        by: &str,
    ) -> Result<Set> {
        Ok(self.store.remove_object(tenant, id, expected, by).await?)
    }

    /// An object by its id, whosever it is.
    pub async fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        Ok(self.store.object(id).await?)
    }

    /// An object by its name.
    pub async fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Option<Object>> {
        Ok(self.store.object_by_name(tenant, kind, name).await?)
    }

    /// A tenant's objects of a kind by name, after the given one.
    pub async fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Object, String>> {
        Ok(self.store.list_objects(tenant, kind, after, limit).await?)
    }
}

impl Node {
    /// Deliveries of a channel, newest first, before the given one.
    pub async fn deliveries(
        &self,
        channel: &str,
        before: Option<DeliveryKey>,
        limit: u32,
    ) -> Result<Page<DeliveryView, DeliveryKey>> {
        Ok(self.store.deliveries(channel, before, limit).await?)
    }
}

impl Node {
    /// Runs of all tenants that ended after the cursor and before `until`, in that order.
    pub async fn ended(
        &self,
        after: Cursor,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<EndedRun>> {
        Ok(self.store.ended(after, until, limit).await?)
    }

    /// Jobs of all tenants that were defined after the cursor, deleted ones included.
    pub async fn changed_jobs(&self, after: Cursor, limit: u32) -> Result<Vec<Job>> {
        Ok(self.store.changed_jobs(after, limit).await?)
    }
}
