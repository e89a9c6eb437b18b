//! The stand-in of an agent that works elsewhere.
//!
//! ```text
//!   store ◀── pump, attend, start ── stand-in ── outbox ──▶ agent
//!     ▲                                                       │
//!     ├────────── renew: only when the agent asks ────────────┤
//!     └────────── results: settled as they come ──────────────┘
//! ```
//!
//! It is a node like any other, with the agent's name, labels and room. Whatever decides about runs
//! (claims, places, turns, overlap, dependencies, rights) happens here, beside the store, with the
//! steps of every node. Two things do not: the lease is renewed when the agent renews it and never
//! by itself, and what was let in waits in the outbox until the agent fetches it.
//!
//! The stand-in may be lost, and the agent may go to another server. Then the same node has two
//! stand-ins for a while. The old one hands nothing out, because nobody asks it; it ends when the
//! agent has been silent for as long as makes the agent stop its work. What it claims until then is
//! found by the new one, which asks the store again for a while what the node holds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::action::Action;
use domain::cluster::{NodeRole, NodeState};
use domain::id::{NodeId, RunId};
use domain::run::{AttemptEnd, AttemptResult, Grant};
use jiff::{SignedDuration, Timestamp};
use store::{Applied, FullStore, NodeInfo};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::driver::{Driver, Hands, refusal};
use super::outbox::Outbox;
use super::{Engine, Shared};
use crate::node::{Elsewhere, Node, Started};
use crate::settings::Settings;

/// How long after a change of servers another stand-in may still claim.
const DOUBTS: Duration = Duration::from_secs(60);

/// What an agent brings along when it comes back.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The node that it is.
    pub node: NodeId,
    /// What it has begun and when: what runs, and what has ended and is not settled.
    pub begun: HashMap<Grant, Timestamp>,
}

/// A lease that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Runs whose end was asked for.
    pub cancel: Vec<RunId>,
    /// Whether the agent is to take nothing new.
    pub draining: bool,
}

/// The stand-in of an agent.
pub struct Guest<S> {
    node: Arc<Node<S>>,
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
    tasks: std::sync::Mutex<JoinSet<()>>,
    /// Since when it stands in for a node that had another stand-in before.
    doubts_since: Option<Instant>,
}

/// Puts what was let in where the agent fetches it.
struct Away<S> {
    outbox: Arc<Outbox>,
    /// Carries out what only a server can.
    here: Arc<dyn Hands<S>>,
}

impl<S: FullStore> Hands<S> for Away<S> {
    fn take(self: Arc<Self>, driver: Driver<S>, run: Started) {
        // Rows by which a run is divided are for whoever divides it.
        if run.asks_rows || matches!(run.job.definition.action, Action::Backup(_)) {
            return Arc::clone(&self.here).take(driver, run);
        }
        tokio::spawn(async move {
            // Its stand-in ends when the agent falls silent, and this with it.
            let never = std::future::pending();
            let Some(refused) = refusal(&driver.node, &run, never).await else {
                return self.outbox.add(run);
            };
            driver.node.complete(run.run.grant, refused);
            driver.shared.news.notify_one();
        });
    }
}

impl<S: FullStore> Engine<S> {
    /// Stands in for an agent: as a new node, or as the one that the agent was. None when that one
    /// is not there any more, or is not this agent's.
    pub async fn host(
        &self,
        info: NodeInfo,
        only_placed: bool,
        carried: Option<Carried>,
    ) -> store::Result<Option<Arc<Guest<S>>>> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(store::StoreError::Unavailable("the server stops".into()));
        }
        let settings = Settings {
            max_concurrent_jobs: info.capacity,
            info: NodeInfo { roles: vec![NodeRole::Agent], address: None, ..info },
            only_placed,
            ..self.node.settings.clone()
        };
        let store = Arc::clone(&self.node.store);
        let node = Arc::new(Node::new(store, settings, self.node.parts.clone()));
        // Until it asks for work, it gets none.
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
                for run in begun {
                    outbox.note(run);
                }
            }
        }
        let shared = Arc::new(Shared::default());
        let hands = Away { outbox: Arc::clone(&outbox), here: Arc::clone(&self.here) };
        let driver =
            Driver { node: Arc::clone(&node), shared: Arc::clone(&shared), hands: Arc::new(hands) };
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.clone().start_prepared());
        tasks.spawn(driver.clone().attend());
        tasks.spawn(driver.clone().listen());
        tasks.spawn(driver.pump());
        let tasks = std::sync::Mutex::new(tasks);
        let guest = Arc::new(Guest { node, shared, outbox, tasks, doubts_since });
        let mut guests = self.guests();
        guests.retain(|guest| guest.strong_count() > 0);
        guests.push(Arc::downgrade(&guest));
        Ok(Some(guest))
    }

    /// Whether a node that lives has this name.
    async fn is_of(&self, node: NodeId, name: &str) -> store::Result<bool> {
        let alive = |state| matches!(state, NodeState::Active | NodeState::Draining);
        let nodes = self.node.store.nodes().await?;
        Ok(nodes.iter().any(|it| it.id == node && it.info.name == name && alive(it.state)))
    }

    /// Settles attempts that were made for a node of a name which nobody stands in for here.
    pub async fn settle_late(
        &self,
        node: NodeId,
        name: &str,
        ended: &[Elsewhere],
    ) -> store::Result<Vec<Applied>> {
        if !self.is_of(node, name).await? {
            return Ok(vec![Applied::Stale; ended.len()]);
        }
        self.node.settle_for(node, ended).await
    }
}

impl<S: FullStore> Engine<S> {
    /// The lease of a node: how long it is, how often it is renewed, and how long before its end
    /// everything must have stopped.
    pub fn lease(&self) -> [SignedDuration; 3] {
        let settings = &self.node.settings;
        [settings.lease, settings.renew_every, settings.stop_before_lease_end]
    }
}

impl<S: FullStore> Guest<S> {
    /// The node that it is.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// Waits for work for so many free slots, for so long. `poll` grows with every call; `has` is
    /// what the agent has already.
    pub async fn work(
        &self,
        poll: u64,
        free: usize,
        has: &HashSet<Grant>,
        patience: Duration,
    ) -> Vec<Started> {
        if !self.outbox.begin(poll, has) {
            return Vec::new();
        }
        let _asking = Asking { guest: self, poll };
        self.node.set_away(false);
        self.shared.news.notify_one();
        self.shared.places.notify_one();
        let end = Instant::now() + patience;
        loop {
            let mut woken = std::pin::pin!(self.outbox.wake.notified());
            woken.as_mut().enable();
            if let Some(work) = self.outbox.take(poll, free) {
                return work;
            }
            if tokio::time::timeout_at(end, woken).await.is_err() {
                return Vec::new();
            }
        }
    }

    /// The agent says that it lives. None when its lease is lost.
    pub async fn renew(&self) -> store::Result<Option<Renewal>> {
        let renewed = self.node.renew().await?;
        let Some(cancel) = renewed else { return Ok(None) };
        self.node.raise_noticed().await?;
        if self.doubts_since.is_some_and(|since| since.elapsed() < DOUBTS) {
            self.node.doubt();
            self.shared.news.notify_one();
        }
        for run in &cancel {
            self.shared.stop(*run, AttemptEnd::Cancelled);
            // What was not fetched is over at once.
            if let Some(run) = self.outbox.recall(*run) {
                let end = AttemptEnd::Cancelled;
                let result = AttemptResult { end, ..AttemptResult::completed() };
                self.node.complete(run.run.grant, result);
                self.shared.news.notify_one();
            }
        }
        Ok(Some(Renewal { cancel, draining: self.node.is_drained() }))
    }

    /// What the agent was given under a grant and has not ended.
    pub fn sent(&self, grant: Grant) -> Option<Started> {
        self.outbox.sent(grant)
    }

    /// What the agent was given and a question is about.
    pub fn find(&self, is_meant: impl Fn(&Started) -> bool) -> Option<Started> {
        self.outbox.find(is_meant)
    }

    /// Settles what has ended. Durable when it returns.
    pub async fn settle(&self, ended: &[Elsewhere]) -> store::Result<Vec<Applied>> {
        let applied = self.node.settle_for(self.node.id(), ended).await?;
        for ended in ended {
            self.outbox.forget(ended.grant);
            self.node.let_go(ended.grant);
        }
        self.shared.news.notify_one();
        self.shared.places.notify_one();
        Ok(applied)
    }

    /// The agent takes nothing new: what it has not begun goes back.
    pub fn drain(&self) {
        self.node.drain();
        for run in self.outbox.empty() {
            self.node.return_unbegun(run.run.grant);
        }
        self.node.hand_back();
        self.shared.news.notify_one();
    }

    /// The agent leaves in good order.
    pub async fn leave(&self) -> store::Result<()> {
        self.drain();
        self.end();
        while self.node.pump().await? {}
        self.node.leave().await
    }

    /// Whether it has stopped standing in.
    pub fn is_over(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Stops standing in. The node keeps its lease for as long as it lasts, so that the agent can
    /// go on with another stand-in.
    pub fn end(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tasks.abort_all();
        self.outbox.close();
        self.shared.stop_all(AttemptEnd::Lost);
    }
}

impl<S> Drop for Guest<S> {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// The agent asks for work.
struct Asking<'a, S> {
    guest: &'a Guest<S>,
    poll: u64,
}

impl<S> Drop for Asking<'_, S> {
    fn drop(&mut self) {
        if self.guest.outbox.is_current(self.poll) {
            self.guest.node.be_away();
        }
    }
}
