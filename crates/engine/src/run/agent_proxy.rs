//! The proxy of a remote agent.
//!
//! ```text
//!   store ◀── exchange, attend, start ─── proxy ─── outbox ──▶ agent
//!     ▲                                                       │
//!     ├────────── renew: only when the agent asks ────────────┤
//!     └────────── results: settled as they come ──────────────┘
//! ```
//!
//! It is a node like any other, with the agent's name, labels and slots. All decisions about runs
//! (claims, placement, order, overlap, dependencies, rights) are made here, beside the store, with
//! the steps of every node. Two things differ: the lease is renewed when the agent renews it and
//! never by the proxy itself, and admitted runs wait in the outbox until the agent fetches them.
//!
//! The proxy may be lost, and the agent may go to another server. Then the same node has two
//! proxies for a while. The old one gives nothing out, because no agent polls it; it ends when the
//! agent has not polled for as long as makes the agent stop its work. Runs that it claims until
//! then are found by the new one, which reads the claims of the node again for a while.
//!
//! Time limits are enforced by the agent, and the proxy does not rely on that. An agent can renew
//! for ever and end nothing: its executor hangs, or it is another implementation. A run that has
//! not ended long after the agent should have ended it is recorded as timed out here. Its fence
//! then refuses all later reports of the agent, and the agent gets a request to stop it.
//!
//! ```text
//!   fetched ─────── timeout ──┬─ grace ─┬─ 5 s ─┬──── a lease ────┬──▶
//!                 asked to stop ┘  killed ┘  ended ┘ (by the agent)  └ ended by the proxy
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::action::Action;
use domain::cluster::{NodeRole, NodeState};
use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{AttemptEnd, AttemptResult, Grant};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, NodeInfo, NodeView};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dispatch::{AFTER_GRACE, Dispatch, refusal};
use super::driver::{Driver, std_duration};
use super::outbox::{Outbox, count};
use super::{Engine, Shared};
use crate::node::{CarriedRun, Node, RemoteAttempt, Started};
use crate::settings::{Env, Settings};

/// How long after a change of servers another proxy may still claim.
const DOUBTS: Duration = Duration::from_secs(60);

/// State that an agent reports when it reconnects.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Its node.
    pub node: NodeId,
    /// Runs that it has begun: running ones, and ended ones that are not settled.
    pub begun: HashMap<Grant, CarriedRun>,
}

/// A renewed lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Runs whose cancellation was requested.
    pub cancel: Vec<RunId>,
    /// Runs that the agent may still execute and whose claims have ended.
    pub over: Vec<Grant>,
    /// Whether the agent is to take nothing new.
    pub draining: bool,
}

/// Limits and capabilities of an agent.
#[derive(Clone)]
pub struct AgentLimits {
    /// Whether it takes only runs with a placement request for its labels.
    pub only_placed: bool,
    /// Whether it can execute a job.
    pub can: Arc<dyn Fn(&Job) -> bool + Send + Sync>,
}

impl AgentLimits {
    /// For everything that may be done anywhere.
    pub fn for_all() -> Self {
        AgentLimits { only_placed: false, can: Arc::new(|_| true) }
    }
}

/// The proxy of an agent.
pub struct AgentProxy {
    node: Arc<Node>,
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
    tasks: std::sync::Mutex<JoinSet<()>>,
    /// Since when it represents a node that had another proxy before.
    doubts_since: Option<Instant>,
}

/// Puts admitted runs into the outbox.
struct RemoteDispatch {
    outbox: Arc<Outbox>,
    /// Executes what an agent proxy executes itself.
    here: Arc<dyn Dispatch>,
    /// The server's own node, and its waker.
    host: (Arc<Node>, Arc<Shared>),
}

impl Dispatch for RemoteDispatch {
    fn take(self: Arc<Self>, driver: Driver, run: Started) {
        // Rows by which a run is split are for the node that splits it.
        let action = &run.job.definition.action;
        if run.asks_rows || matches!(action, Action::Backup(_) | Action::Queue(_)) {
            return Arc::clone(&self.here).take(driver, run);
        }
        tokio::spawn(async move {
            // The proxy ends when the agent stops polling, and this with it.
            let never = std::future::pending();
            if !driver.node.can(&run.run, &run.job) {
                if self.a_server_executes().await {
                    return self.pass_on(&driver.node, &run).await;
                }
                // No executor could do it. The error of the agent is the most specific one.
                driver.node.note_alone();
            }
            let Some(refused) = refusal(&driver.node, &run, never).await else {
                return self.outbox.add(run, driver.node.now());
            };
            driver.node.complete(run.run.grant, refused);
            driver.shared.news.notify_one();
        });
    }
}

impl RemoteDispatch {
    /// Whether there is a server that executes. Others do not reach agents elsewhere.
    async fn a_server_executes(&self) -> bool {
        let executes = |node: &NodeView| {
            let NodeInfo { address, roles, .. } = &node.info;
            let is_there = matches!(node.state, NodeState::Active | NodeState::Draining);
            is_there && address.is_some() && roles.contains(&NodeRole::Agent)
        };
        // A store that does not reply gives out no runs, either.
        self.host.0.store.nodes().await.map_or(true, |nodes| nodes.iter().any(executes))
    }

    /// Releases a run that the agent cannot execute, and wakes the server's own node.
    async fn pass_on(&self, node: &Node, run: &Started) {
        tracing::debug!(run = %run.run.grant.run, "a run is for a server, not for this agent");
        if let Err(error) = node.pass_on(&[run.run.grant]).await {
            tracing::warn!(run = %run.run.grant.run, %error, "a run is passed on a little later");
        }
        let (host, shared) = &self.host;
        host.hint();
        shared.news.notify_one();
    }
}

impl Engine {
    /// Stands in for an agent: as a new node, or as the one that the agent was. None when that one
    /// is not there any more, or is not this agent's.
    pub async fn host(
        &self,
        info: NodeInfo,
        stay: AgentLimits,
        carried: Option<Carried>,
    ) -> store::Result<Option<Arc<AgentProxy>>> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(store::StoreError::Unavailable("the server stops".into()));
        }
        let settings = Settings {
            max_concurrent_jobs: info.capacity.process,
            max_http_calls: info.capacity.http,
            info: NodeInfo { roles: vec![NodeRole::Agent], address: None, ..info },
            only_placed: stay.only_placed,
            ..self.node.settings.clone()
        };
        let store = self.node.store.clone();
        // Runs of an agent are not written to the start log of this process.
        let parts = Env { start_log: None, ..self.node.parts.clone() };
        let node =
            Node::new(store, settings, parts).with_skill(stay.can).sharing_definitions(&self.node);
        let node = Arc::new(node);
        // Until it polls, it gets no work.
        node.set_away(true);
        let outbox = Arc::new(Outbox::default());
        let doubts_since = carried.as_ref().map(|_| Instant::now());
        match carried {
            None => node.join().await?,
            Some(carried) => {
                if !self.is_of(carried.node, &node.settings.info.name).await? {
                    return Ok(None);
                }
                let Some(begun) = node.resume(carried.node, &carried.begun).await? else {
                    return Ok(None);
                };
                // A begun run without a claim occupies its slot until the agent has stopped it.
                let mut over: HashMap<Grant, SlotKind> =
                    carried.begun.iter().map(|(grant, run)| (*grant, run.slot)).collect();
                let now = node.now();
                for run in begun {
                    over.remove(&run.run.grant);
                    outbox.note(run, now);
                }
                node.take_slots(count(over.values()));
                outbox.note_over(over);
            }
        }
        let store_health = Arc::clone(&self.shared.store_health);
        let shared = Arc::new(Shared { store_health, ..Shared::default() });
        let host = (Arc::clone(&self.node), Arc::clone(&self.shared));
        let hands =
            RemoteDispatch { outbox: Arc::clone(&outbox), here: Arc::clone(&self.here), host };
        let driver =
            Driver { node: Arc::clone(&node), shared: Arc::clone(&shared), hands: Arc::new(hands) };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(driver.clone().start_prepared(), &self.runtime);
        tasks.spawn_on(driver.clone().attend(), &self.runtime);
        tasks.spawn_on(driver.clone().listen(), &self.runtime);
        tasks.spawn_on(driver.clone().listen_for_places(), &self.runtime);
        tasks.spawn_on(oversee(driver.clone(), Arc::clone(&outbox)), &self.runtime);
        tasks.spawn_on(driver.exchange(), &self.runtime);
        let tasks = std::sync::Mutex::new(tasks);
        let proxy = Arc::new(AgentProxy { node, shared, outbox, tasks, doubts_since });
        let mut proxies = self.proxies();
        proxies.retain(|proxy| proxy.strong_count() > 0);
        proxies.push(Arc::downgrade(&proxy));
        Ok(Some(proxy))
    }

    /// Whether a node that lives has this name.
    async fn is_of(&self, node: NodeId, name: &str) -> store::Result<bool> {
        let alive = |state| matches!(state, NodeState::Active | NodeState::Draining);
        let nodes = self.node.store.nodes().await?;
        Ok(nodes.iter().any(|it| it.id == node && it.info.name == name && alive(it.state)))
    }

    /// Settles attempts that were made for a node of a name that has no proxy here.
    pub async fn settle_late(
        &self,
        node: NodeId,
        name: &str,
        ended: &[RemoteAttempt],
    ) -> store::Result<Vec<Applied>> {
        if !self.is_of(node, name).await? {
            return Ok(vec![Applied::Stale; ended.len()]);
        }
        self.node.settle_for(node, ended).await
    }
}

impl Engine {
    /// The lease of a node: how long it is, how often it is renewed, and how long before its end
    /// everything must have stopped.
    pub fn lease(&self) -> [SignedDuration; 3] {
        let settings = &self.node.settings;
        [settings.lease, settings.renew_every, settings.stop_before_lease_end]
    }
}

impl AgentProxy {
    /// The node that it is.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// Waits for work for so many free slots, for so long. `poll` grows with every call; `has` are
    /// the runs that the agent has already.
    pub async fn work(
        &self,
        poll: u64,
        free: PerSlot<u32>,
        has: &HashSet<Grant>,
        patience: Duration,
    ) -> Vec<Started> {
        let Some(freed) = self.outbox.begin(poll, has, self.node.now()) else {
            return Vec::new();
        };
        self.node.free_slots(freed);
        let _asking = Asking { proxy: self, poll };
        self.node.set_away(false);
        self.shared.news.notify_one();
        self.shared.places.notify_one();
        let end = Instant::now() + patience;
        loop {
            let mut woken = std::pin::pin!(self.outbox.wake.notified());
            woken.as_mut().enable();
            if let Some(work) = self.outbox.take(poll, free, self.node.now()) {
                let (work, late): (Vec<Started>, Vec<Started>) =
                    work.into_iter().partition(|run| self.node.may_begin(run));
                for run in &late {
                    self.outbox.forget(run.run.grant);
                }
                if late.is_empty() || !work.is_empty() {
                    return work;
                }
                // Runs that waited too long for this poll are decided about again.
                self.shared.prepared.notify_one();
                continue;
            }
            if tokio::time::timeout_at(end, woken).await.is_err() {
                return Vec::new();
            }
        }
    }

    /// The agent renews its lease. None when the lease is lost.
    pub async fn renew(&self) -> store::Result<Option<Renewal>> {
        let renewed = self.node.renew().await?;
        let Some(cancel) = renewed else { return Ok(None) };
        self.node.raise_pending_alerts().await?;
        if self.doubts_since.is_some_and(|since| since.elapsed() < DOUBTS) {
            self.node.doubt();
            self.shared.news.notify_one();
        }
        for run in &cancel {
            self.shared.stop(*run, AttemptEnd::Cancelled);
            // A run that was not fetched is cancelled at once.
            if let Some(run) = self.outbox.recall(*run) {
                let end = AttemptEnd::Cancelled;
                let result = AttemptResult { end, ..AttemptResult::completed() };
                self.node.complete(run.run.grant, result);
                self.shared.news.notify_one();
            }
        }
        let (over, draining) = (self.outbox.over(), self.node.is_drained());
        Ok(Some(Renewal { cancel, over, draining }))
    }

    /// Run that the agent got under a claim and has not ended.
    pub fn sent(&self, grant: Grant) -> Option<Started> {
        self.outbox.sent(grant)
    }

    /// First run of the agent for which `is_meant` is true.
    pub fn find(&self, is_meant: impl Fn(&Started) -> bool) -> Option<Started> {
        self.outbox.find(is_meant)
    }

    /// Settles ended attempts. Durable when it returns.
    pub async fn settle(&self, ended: &[RemoteAttempt]) -> store::Result<Vec<Applied>> {
        let applied = self.node.settle_for(self.node.id(), ended).await?;
        for ended in ended {
            self.node.free_slots(count(&self.outbox.forget(ended.grant)));
            self.node.note_released(ended.grant);
        }
        self.shared.news.notify_one();
        self.shared.places.notify_one();
        Ok(applied)
    }

    /// The agent takes nothing new: runs that it has not begun are released.
    pub fn drain(&self) {
        self.node.drain();
        for run in self.outbox.empty() {
            self.node.return_unbegun(run.run.grant);
        }
        self.node.release_prepared();
        self.shared.news.notify_one();
    }

    /// The agent leaves in good order.
    pub async fn leave(&self) -> store::Result<()> {
        self.drain();
        self.end();
        while self.node.exchange().await? {}
        self.node.leave_idle().await
    }

    /// Whether it has stopped standing in.
    pub fn is_over(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Ends the proxy. The node keeps its lease for as long as it lasts, so that the agent can go
    /// on with another proxy.
    pub fn end(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tasks.abort_all();
        self.outbox.close();
        self.shared.stop_all(AttemptEnd::Lost);
    }
}

impl Drop for AgentProxy {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// Ends runs that the agent should have ended long ago, and releases runs that it does not fetch.
async fn oversee(driver: Driver, outbox: Arc<Outbox>) {
    let settings = &driver.node.settings;
    let every = std_duration(settings.poll_every);
    // By then an agent that ended it in time has reported it, or its lease is over.
    let margin = SignedDuration::try_from(AFTER_GRACE).unwrap_or_default() + settings.lease;
    loop {
        tokio::time::sleep(every).await;
        let now = driver.node.now();
        let overdue = outbox.take_overdue(|run, since| {
            let definition = &run.job.definition;
            let most = definition.timeout.saturating_add(definition.grace_period);
            now.duration_since(since) > most.saturating_add(margin)
        });
        for run in &overdue {
            let (id, attempt) = (run.run.grant.run, run.run.number());
            let agent = &settings.info.name;
            tracing::warn!(run = %id, attempt, agent, "an agent did not end a run in its time");
            let message = format!(
                "agent {agent} did not end it within its time limit, its grace period and {margin:#}"
            );
            let end = AttemptEnd::Timeout;
            let result = AttemptResult { end, message, ..AttemptResult::completed() };
            driver.node.take_from_executor(run.run.grant, result);
        }
        let late = now.saturating_sub(settings.lease).unwrap_or(Timestamp::MIN);
        let unfetched = outbox.take_unfetched(late);
        for run in &unfetched {
            driver.node.return_unbegun(run.run.grant);
        }
        if overdue.len() + unfetched.len() > 0 {
            driver.shared.news.notify_one();
        }
    }
}

/// An open poll of the agent.
struct Asking<'a> {
    proxy: &'a AgentProxy,
    poll: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.proxy.outbox.is_current(self.poll) {
            self.proxy.node.detach_executor();
        }
    }
}
