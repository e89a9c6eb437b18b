//! The engine as agents elsewhere need it: the same whatever its store.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::id::{NodeId, RunId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::run::Grant;
use domain::slot::PerSlot;
use engine::{
    Applied, Carried, Elsewhere, Engine, FullStore, Guest, NodeInfo, Put, Renewal, Set, Started,
    Stay,
};
use jiff::SignedDuration;

use crate::scheduler::Answer;

/// An engine that stands in for agents.
pub trait Lodging: Send + Sync + 'static {
    /// The lease of a node: its length, how often it is renewed, how long before its end everything
    /// must have stopped.
    fn lease(&self) -> [SignedDuration; 3];
    /// Stands in for an agent; none when the node that it was is lost.
    fn host(
        &self,
        info: NodeInfo,
        stay: Stay,
        carried: Option<Carried>,
    ) -> Answer<'_, Option<Arc<dyn Lodger>>>;
    /// Settles results of a node of a name that nobody stands in for here.
    fn settle_late<'a>(
        &'a self,
        node: NodeId,
        name: &'a str,
        ended: &'a [Elsewhere],
    ) -> Answer<'a, Vec<Applied>>;
    /// The record of an agent.
    fn agent<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Object>>;
    /// The record of a token.
    fn token<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Object>>;
    /// Spends a token. Only one caller is told that it was there.
    fn spend<'a>(&'a self, token: &'a Object) -> Answer<'a, bool>;
    /// Keeps the record of an agent, if nobody has its name.
    fn enrol<'a>(&'a self, agent: &'a Object) -> Answer<'a, bool>;
}

/// The stand-in of an agent.
pub trait Lodger: Send + Sync {
    /// The node that it is.
    fn id(&self) -> NodeId;
    /// Waits for work.
    fn work<'a>(
        &'a self,
        poll: u64,
        free: PerSlot<u32>,
        has: &'a HashSet<Grant>,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Vec<Started>> + Send + 'a>>;
    /// The agent says that it lives; none when its lease is lost.
    fn renew(&self) -> Answer<'_, Option<Renewal>>;
    /// What the agent was given under a grant.
    fn sent(&self, grant: Grant) -> Option<Started>;
    /// What the agent was given of a run, under a fence.
    fn sent_run(&self, run: RunId, fence: i64) -> Option<Started>;
    /// Whether the agent was given a run of a tenant that uses this.
    fn uses(&self, tenant: TenantId, is_meant: &dyn Fn(&Started) -> bool) -> bool;
    /// Settles what has ended.
    fn settle<'a>(&'a self, ended: &'a [Elsewhere]) -> Answer<'a, Vec<Applied>>;
    /// The agent takes nothing new.
    fn drain(&self);
    /// The agent leaves.
    fn leave(&self) -> Answer<'_, ()>;
    /// Nobody stands in any more.
    fn end(&self);
    /// Whether nobody stands in any more.
    fn is_over(&self) -> bool;
}

impl<S: FullStore> Lodging for Engine<S> {
    fn lease(&self) -> [SignedDuration; 3] {
        self.lease()
    }

    fn host(
        &self,
        info: NodeInfo,
        stay: Stay,
        carried: Option<Carried>,
    ) -> Answer<'_, Option<Arc<dyn Lodger>>> {
        Box::pin(async move {
            let guest = self.host(info, stay, carried).await?;
            Ok(guest.map(|guest| guest as Arc<dyn Lodger>))
        })
    }

    fn settle_late<'a>(
        &'a self,
        node: NodeId,
        name: &'a str,
        ended: &'a [Elsewhere],
    ) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move { Ok(self.settle_late(node, name, ended).await?) })
    }

    fn agent<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Object>> {
        Box::pin(self.node().object_by_name(TenantId::CLUSTER, ObjectKind::Agent, name))
    }

    fn token<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Object>> {
        Box::pin(self.node().object_by_name(TenantId::CLUSTER, ObjectKind::JoinToken, id))
    }

    fn spend<'a>(&'a self, token: &'a Object) -> Answer<'a, bool> {
        Box::pin(async move {
            let (id, version) = (token.id, token.version);
            let spent = self.node().remove_object(TenantId::CLUSTER, id, version).await?;
            Ok(matches!(spent, Set::Done(_)))
        })
    }

    fn enrol<'a>(&'a self, agent: &'a Object) -> Answer<'a, bool> {
        Box::pin(async move { Ok(matches!(self.node().put_object(agent, 0).await?, Put::Done(_))) })
    }
}

impl<S: FullStore> Lodger for Guest<S> {
    fn id(&self) -> NodeId {
        self.id()
    }

    fn work<'a>(
        &'a self,
        poll: u64,
        free: PerSlot<u32>,
        has: &'a HashSet<Grant>,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Vec<Started>> + Send + 'a>> {
        Box::pin(self.work(poll, free, has, patience))
    }

    fn renew(&self) -> Answer<'_, Option<Renewal>> {
        Box::pin(async move { Ok(self.renew().await?) })
    }

    fn sent(&self, grant: Grant) -> Option<Started> {
        self.sent(grant)
    }

    fn sent_run(&self, run: RunId, fence: i64) -> Option<Started> {
        self.find(|started| started.run.grant.run == run && started.token == fence)
    }

    fn uses(&self, tenant: TenantId, is_meant: &dyn Fn(&Started) -> bool) -> bool {
        self.find(|started| started.job.tenant == tenant && is_meant(started)).is_some()
    }

    fn settle<'a>(&'a self, ended: &'a [Elsewhere]) -> Answer<'a, Vec<Applied>> {
        Box::pin(async move { Ok(self.settle(ended).await?) })
    }

    fn drain(&self) {
        self.drain();
    }

    fn leave(&self) -> Answer<'_, ()> {
        Box::pin(async move { Ok(self.leave().await?) })
    }

    fn end(&self) {
        self.end();
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }
}
