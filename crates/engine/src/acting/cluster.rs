//! Commands and queries about the cluster, its nodes and its settings.

use std::collections::HashMap;

use domain::access::Deed;
use domain::id::{JobId, NodeId, RunId};
use domain::partition::{Part, Progress};
use store::{
    Acknowledgement, Answer, NodeControl, NodeControlOutcome, NodeView, OwnedShard, POLICY,
    RequestState, RunView, Set, Setting,
};

use super::{AuthorizedEngine, no_run};
use crate::error::Result;
use crate::stats::{HourlyStats, Stats};

impl AuthorizedEngine<'_> {
    /// How the tenant's jobs are doing.
    pub async fn stats(&self) -> Result<Stats> {
        self.may(Deed::SeeAllRuns)?;
        self.node().stats(self.actor.tenant).await
    }

    /// How the tenant's runs ended in this hour and so many before, by hour.
    pub async fn hourly_stats(&self, hours: u32) -> Result<Vec<HourlyStats>> {
        self.may(Deed::SeeAllRuns)?;
        self.node().hourly_stats(self.actor.tenant, JobId::NONE, hours).await
    }

    /// How the runs of a job ended in this hour and so many before, by hour.
    pub async fn hourly_job_stats(&self, job: JobId, hours: u32) -> Result<Vec<HourlyStats>> {
        self.job_for(job, Deed::SeeRuns).await?;
        self.node().hourly_stats(self.actor.tenant, job, hours).await
    }

    /// The nodes of the cluster.
    pub async fn nodes(&self) -> Result<Vec<NodeView>> {
        self.may(Deed::SeeNodes)?;
        self.node().nodes().await
    }

    /// The shards of the tenant and their owners.
    pub async fn shards(&self) -> Result<Vec<OwnedShard>> {
        self.may(Deed::SeeNodes)?;
        Ok(self.node().store.shards(Some(self.actor.tenant)).await?)
    }

    /// The parts of a run, in their order; none when it was not split.
    pub async fn parts(&self, run: RunId) -> Result<Vec<Part>> {
        if self.run(run).await?.is_none() {
            return Err(no_run(run));
        }
        Ok(self.node().store.parts(&[run]).await?)
    }

    /// Progress of those of these runs that are parent runs. A caller that has a run was allowed to
    /// see it, so nothing is checked here.
    pub async fn progress(&self, seen: &[RunView]) -> Result<HashMap<RunId, Progress>> {
        let wholes: Vec<RunId> = seen.iter().map(|run| run.id).filter(|id| !id.is_part()).collect();
        let parts = self.node().store.parts(&wholes).await?;
        Ok(Progress::by_run(&parts))
    }

    /// The parent runs of those of these runs that have one.
    pub async fn parents(&self, seen: &[RunView]) -> Result<HashMap<RunId, RunId>> {
        let parts: Vec<RunId> = seen.iter().map(|run| run.id).filter(|id| id.is_part()).collect();
        Ok(self.node().store.parents(&parts).await?.into_iter().collect())
    }

    /// Drains, resumes or removes a node.
    pub async fn steer(&self, node: NodeId, steer: NodeControl) -> Result<NodeControlOutcome> {
        self.may(Deed::ChangeCluster)?;
        Ok(self.node().store.steer(node, steer, self.author()).await?)
    }

    /// Settings that every node should have; none until a leader has recorded them.
    pub async fn policy(&self) -> Result<Option<Setting>> {
        self.may(Deed::SeeNodes)?;
        let settings = self.node().settings().await?;
        Ok(settings.into_iter().find(|setting| setting.name == POLICY))
    }

    /// The nodes that have acknowledged a run.
    pub async fn acknowledgements(&self, run: RunId) -> Result<Vec<Acknowledgement>> {
        if self.run(run).await?.is_none() {
            return Err(no_run(run));
        }
        Ok(self.node().store.acknowledgements(run).await?)
    }

    /// Settings of the whole cluster.
    pub async fn settings(&self) -> Result<Vec<Setting>> {
        self.may(Deed::SeeCluster)?;
        self.node().settings().await
    }

    /// Changes a setting, or removes it.
    pub async fn set(&self, name: &str, value: Option<&str>, expected: u32) -> Result<Set> {
        self.may(Deed::ChangeCluster)?;
        self.node().set(name, value, expected, self.author()).await
    }

    /// A request begins that the actor may send again under the same key. The key of another user
    /// is never the same.
    pub async fn begin_request(&self, key: &str, fingerprint: &[u8]) -> Result<RequestState> {
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
