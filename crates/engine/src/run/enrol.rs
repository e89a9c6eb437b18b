//! Agents and the tokens with which they join: records of the cluster.

use domain::id::{RunId, TenantId};
use domain::object::{Object, ObjectKind};
use store::{Put, Set};

use super::{AgentProxy, Engine};
use crate::error::Result;
use crate::node::Started;

impl Engine {
    /// The record of an agent.
    pub async fn agent(&self, name: &str) -> Result<Option<Object>> {
        self.node().object_by_name(TenantId::CLUSTER, ObjectKind::Agent, name).await
    }

    /// The record of a join token.
    pub async fn join_token(&self, id: &str) -> Result<Option<Object>> {
        self.node().object_by_name(TenantId::CLUSTER, ObjectKind::JoinToken, id).await
    }

    /// Spends a join token. Of several callers, one is answered true.
    pub async fn spend(&self, token: &Object, by: &str) -> Result<bool> {
        let (id, version) = (token.id, token.version);
        let spent = self.node().remove_object(TenantId::CLUSTER, id, version, by).await?;
        Ok(matches!(spent, Set::Done(_)))
    }

    /// Keeps the record of an agent; false if another agent has its name.
    pub async fn enrol(&self, agent: &Object, by: &str) -> Result<bool> {
        Ok(matches!(self.node().put_object(agent, 0, by).await?, Put::Done(_)))
    }
}

impl AgentProxy {
    /// The run that the agent was given under a fencing token.
    pub fn sent_run(&self, run: RunId, fence: i64) -> Option<Started> {
        self.find(|started| started.run.grant.run == run && started.token == fence)
    }

    /// Whether the agent was given a run of a tenant that uses something.
    pub fn uses(&self, tenant: TenantId, is_meant: &dyn Fn(&Started) -> bool) -> bool {
        self.find(|started| started.job.tenant == tenant && is_meant(started)).is_some()
    }
}
