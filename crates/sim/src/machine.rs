//! A machine: one node at a time, its unfinished steps, and its executors.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use domain::cluster::Labels;
use domain::id::RunId;
use domain::schedule::Zones;
use engine::{Attended, Env, Node, PlanReport, ReapReport, Settings, StartLog, Started};
use store::sqlite::SqliteStore;
use store::{NodeInfo, Replaces};

use crate::clock::MachineClock;
use crate::executor::SimAttempt;
use crate::faulty::FaultyStore;
use crate::link::StoreLink;
use crate::random::Random;
use crate::start_log::SimLog;

/// A node of the simulation.
pub type SimNode = Node;

pub struct Machine {
    /// Which one.
    pub index: usize,
    /// Its wall clock.
    pub clock: MachineClock,
    /// Its node; none while it is off.
    pub node: Option<Arc<SimNode>>,
    /// Whether it stands still.
    pub paused: bool,
    /// When it goes on or comes back, in true time.
    pub back_at: i64,
    /// Steps that it is in the middle of.
    pub steps: Vec<MachineStep>,
    /// The attempts that it executes.
    pub attempts: Vec<SimAttempt>,
    /// When the last renewal that succeeded was asked for, in true time.
    pub renewed_at: i64,
    /// Whether the store knows the node.
    pub joined: bool,
    /// How often it was booted.
    pub lives: u64,
    /// Start log of its processes.
    pub log: Arc<SimLog>,
    /// Whether its node has taken over from the process before.
    pub recovered: bool,
}

/// A step under way.
pub struct MachineStep {
    pub kind: StepKind,
    /// When it began, in true time.
    pub began_at: i64,
    /// The rest of it.
    pub future: Pin<Box<dyn Future<Output = StepResult>>>,
}

/// The steps of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Plans jobs.
    Plan,
    /// Reports results and claims runs.
    Exchange,
    /// Starts due runs.
    Start,
    /// Renews the lease.
    Renew,
    /// Takes over from nodes that missed heartbeats.
    Reap,
    /// Deletes old history.
    Prune,
    /// Takes part in the cluster: leadership, acknowledgements, claims by placement.
    Attend,
    /// Registers the node.
    Join,
    /// Goes in good order.
    Leave,
    /// Does the request of a client.
    Command,
}

impl StepKind {
    /// How many of these run side by side in a real node.
    pub fn side_by_side(self) -> usize {
        match self {
            StepKind::Exchange => 2,
            StepKind::Start | StepKind::Command => 3,
            _ => 1,
        }
    }
}

/// How a step ended.
pub enum StepResult {
    /// It planned.
    Plan(store::Result<PlanReport>),
    /// It exchanged.
    Exchange(store::Result<bool>),
    /// It started these.
    Start(store::Result<Vec<Started>>),
    /// It renewed.
    Renew(store::Result<Option<Vec<RunId>>>),
    /// It reaped.
    Reap(store::Result<ReapReport>),
    /// It pruned.
    Prune(store::Result<u64>),
    /// It attended.
    Attend(store::Result<Attended>),
    /// It joined.
    Join(store::Result<()>),
    /// It left.
    Leave(store::Result<()>),
    /// Result of a command.
    Command(String),
}

impl Machine {
    /// A machine that is off.
    pub fn new(index: usize, clock: MachineClock) -> Self {
        Machine {
            index,
            clock,
            node: None,
            paused: false,
            back_at: 0,
            steps: Vec::new(),
            attempts: Vec::new(),
            renewed_at: 0,
            joined: false,
            lives: 0,
            log: Arc::default(),
            recovered: false,
        }
    }

    /// Whether it can do something.
    pub fn is_awake(&self) -> bool {
        self.node.is_some() && !self.paused
    }

    /// Whether one more step of a kind may begin.
    pub fn has_room_for(&self, kind: StepKind) -> bool {
        self.steps.iter().filter(|step| step.kind == kind).count() < kind.side_by_side()
    }

    /// Switches it on.
    pub fn boot(
        &mut self,
        store: Arc<SqliteStore>,
        link: Arc<StoreLink>,
        settings: &Settings,
        random: Random,
        zones: Zones,
    ) {
        self.lives += 1;
        self.paused = false;
        self.joined = false;
        self.recovered = false;
        self.log = Arc::new(self.log.reopen());
        let replaces = self.log.predecessor().map_or(Replaces::None, |it| Replaces::Node {
            node: it.node,
            begun: it.begun.as_ref().map(|begun| begun.keys().copied().collect()),
        });
        let acted = self.log.predecessor().and_then(|it| Some((it.node, it.acted_at?)));
        let settings = Settings {
            // The first machine is the one that some jobs ask for.
            info: NodeInfo {
                labels: Labels(BTreeMap::from([("machine".into(), self.index.to_string())])),
                replaces,
                acted,
                ..NodeInfo::named(&format!("m{}", self.index))
            },
            ..settings.clone()
        };
        let [clock, steady] = [0; 2].map(|_| self.clock.clone());
        let random = Mutex::new(random);
        let parts = Env {
            clock: Arc::new(move || clock.now()),
            steady: Arc::new(move || steady.steady()),
            random: Arc::new(move || random.lock().unwrap_or_else(PoisonError::into_inner).wide()),
            zones,
            tracer: None,
            start_log: Some(Arc::clone(&self.log) as Arc<dyn StartLog>),
        };
        let store = Arc::new(FaultyStore::new(store, link, self.index));
        self.node = Some(Arc::new(Node::new(store, settings, parts)));
    }

    /// Everything that was in its memory is gone.
    pub fn kill(&mut self) -> Vec<SimAttempt> {
        self.node = None;
        self.paused = false;
        self.joined = false;
        self.steps.clear();
        std::mem::take(&mut self.attempts)
    }

    /// Begins a step.
    pub fn begin(&mut self, kind: StepKind, now: i64) {
        let Some(node) = self.node.clone() else { return };
        let future: Pin<Box<dyn Future<Output = StepResult>>> = match kind {
            StepKind::Plan => Box::pin(async move { StepResult::Plan(node.plan().await) }),
            StepKind::Exchange => {
                Box::pin(async move { StepResult::Exchange(node.exchange().await) })
            }
            StepKind::Start => Box::pin(async move { StepResult::Start(node.start_due().await) }),
            StepKind::Renew => Box::pin(async move { StepResult::Renew(node.renew().await) }),
            StepKind::Reap => Box::pin(async move { StepResult::Reap(node.reap().await) }),
            StepKind::Prune => Box::pin(async move { StepResult::Prune(node.prune().await) }),
            StepKind::Attend => Box::pin(async move { StepResult::Attend(node.attend().await) }),
            // A process takes over from the one before it when it joins for the first time.
            StepKind::Join if self.recovered => {
                Box::pin(async move { StepResult::Join(node.join().await) })
            }
            StepKind::Join => Box::pin(async move {
                let joined = node.join().await;
                StepResult::Join(match joined {
                    Ok(()) => node.recover().await,
                    Err(error) => Err(error),
                })
            }),
            StepKind::Leave => Box::pin(async move {
                let _unreachable = node.retire().await;
                node.drain();
                node.release_prepared();
                while let Ok(true) = node.exchange().await {}
                StepResult::Leave(node.leave().await)
            }),
            StepKind::Command => return,
        };
        self.steps.push(MachineStep { kind, began_at: now, future });
    }

    /// Begins a request of a client.
    pub fn command(&mut self, now: i64, future: impl Future<Output = String> + 'static) {
        let future = Box::pin(async move { StepResult::Command(future.await) });
        self.steps.push(MachineStep { kind: StepKind::Command, began_at: now, future });
    }
}
