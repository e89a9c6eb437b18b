//! The engine in a real process: each step of the node as a loop with an interval of its own.
//!
//! A loop wakes by a hint or by time, and time alone is enough: hints make things fast, the clock
//! makes them right. A loop that finds the store unavailable waits a little longer each time and
//! goes on by itself; an outage of the store is logged once for all of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::cluster::NodeRole;
use domain::id::{NodeId, RunId, UserId};
use domain::run::{AttemptEnd, AttemptResult, Grant, NewRun, Outcome};
use domain::slot::PerSlot;
use jiff::SignedDuration;
use store::{
    Applied, Extended, LeaseExtension, SettledMessage, SharedStore, StoreError, Submitted,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::batch::Batcher;
use crate::error::{EngineError, Result};
use crate::node::{ClockHealth, Node, SlotUse, Started};
use crate::notifier::{Notifier, Notifiers};
use crate::settings::{Env, Settings};

mod agent_proxy;
mod dispatch;
mod driver;
mod enrol;
mod lines;
mod outbox;
mod patience;
mod pulse;
mod sessions;

pub use agent_proxy::{AgentLimits, AgentProxy, Carried, Renewal};
use dispatch::{Dispatch, LocalDispatch};
use driver::{Driver, notify_present};
pub(crate) use lines::LeaseTerms;
use lines::Lines;
use patience::StoreHealth;
pub use pulse::Stalled;
use pulse::{Pulse, Vital};
use sessions::Sessions;
pub(crate) use sessions::{LastPolls, to_cancel};
pub use sessions::{PollAnswer, SessionView, WorkerState};

/// Exchanges that run side by side, so that the store works while results come in.
const EXCHANGES_AT_ONCE: usize = 3;

/// Reports of workers that share a commit at most.
const SETTLE_MAX: usize = 10_000;

/// How long a stop waits until the store has recorded it.
const RETIRE_WAIT: Duration = Duration::from_secs(1);

/// How long a shutdown waits for executors that have to stop at once.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// How often a run is built again because its job changed in between.
const STALE_TRIES_MAX: u32 = 8;

fn changed_meanwhile() -> EngineError {
    EngineError::WrongState("the job was changed at the same time; try again".to_owned())
}

/// Executes the attempts of runs.
pub trait Executor: Send + Sync + 'static {
    /// Executes an attempt. It must end soon after `stop` requests it.
    fn execute(&self, run: Started, stop: Stop) -> impl Future<Output = AttemptResult> + Send;
}

type StopSender = watch::Sender<Option<AttemptEnd>>;

/// Requests an executor to stop.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<AttemptEnd>>);

impl Stop {
    /// The request itself, for an executor that passes it on.
    pub fn into_requests(self) -> watch::Receiver<Option<AttemptEnd>> {
        self.0
    }

    /// Waits until the run must stop, and returns the cause: cancelled, or timed out.
    pub async fn requested(&mut self) -> AttemptEnd {
        loop {
            if let Some(end) = *self.0.borrow_and_update() {
                return end;
            }
            if self.0.changed().await.is_err() {
                return AttemptEnd::Cancelled;
            }
        }
    }
}

/// An engine that runs.
pub struct Engine {
    node: Arc<Node>,
    submits: Batcher<NewRun, store::Result<Submitted>>,
    /// Reports of workers about messages.
    settles: Batcher<SettledMessage, store::Result<Vec<Applied>>>,
    /// Leases of messages that are to end later.
    extends: Batcher<LeaseExtension, store::Result<Vec<Option<Extended>>>>,
    shared: Arc<Shared>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
    /// Dispatch to the executor in this process.
    here: Arc<dyn Dispatch>,
    /// The runtime of its loops, on whichever thread they are started.
    runtime: tokio::runtime::Handle,
    /// The agents elsewhere that this process stands in for.
    proxies: Mutex<Vec<Weak<AgentProxy>>>,
}

/// State that loops and executors share.
#[derive(Default)]
struct Shared {
    /// Results came in, or there is work to fetch.
    news: Notify,
    /// Runs were taken in and may be due.
    prepared: Notify,
    /// A job may be due earlier than the planner thinks.
    plan: Notify,
    /// Runs with a placement request were recorded here.
    places: Notify,
    /// Workers that wait for messages.
    lines: Lines,
    /// Sessions of workers.
    sessions: Sessions,
    /// The executors' stop signals, each with its fence: a run can be here again while the executor
    /// of an older claim has not stopped yet.
    stops: Mutex<HashMap<RunId, (i64, StopSender)>>,
    pulse: Pulse,
    /// Whether the store answers; the same for every agent that this process stands in for.
    store_health: Arc<StoreHealth>,
    stopping: AtomicBool,
    idle: Notify,
    /// Steps that met an error.
    errors: AtomicU64,
    /// Runs that were planned.
    planned: AtomicU64,
}

/// Whether the scheduler of a process does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The loop that has had no answer for longest, if that is too long.
    pub stalled: Option<Stalled>,
    /// How far the clock is off, if so far that this node plans and claims nothing.
    pub distrusted_clock: Option<SignedDuration>,
    /// Whether the process stops: it begins nothing new.
    pub is_stopping: bool,
}

/// Counters of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Steps that met an error.
    pub errors: u64,
    /// Runs of nominal times that were planned.
    pub planned: u64,
    /// Runs, and times without a run, that this process saw end; in the order of [`Outcome::ALL`].
    pub ended: [u64; Outcome::ALL.len()],
    /// Runs that became dead letters here.
    pub dead_letters: u64,
    /// How far the store's clock is ahead of this process's.
    pub clock_offset: SignedDuration,
    /// The slots of this process, by their kind.
    pub slots: PerSlot<SlotUse>,
}

impl Engine {
    /// Joins the cluster and starts to work. Each notifier gets every alert.
    pub async fn start<E: Executor>(
        store: impl Into<SharedStore>,
        executor: E,
        notifiers: Vec<Box<dyn Notifier>>,
        settings: Settings,
        parts: Env,
    ) -> store::Result<Self> {
        let node = Arc::new(Node::new(store, settings, parts));
        node.found().await?;
        node.join().await?;
        node.recover().await?;
        let shared = Arc::new(Shared::default());
        let here: Arc<dyn Dispatch> = Arc::new(LocalDispatch(Arc::new(executor)));
        let driver = Driver {
            node: Arc::clone(&node),
            shared: Arc::clone(&shared),
            hands: Arc::clone(&here),
        };
        let mut tasks = JoinSet::new();
        shared.pulse.begin(&[Vital::Claim, Vital::Renew, Vital::Attend]);
        tasks.spawn(driver.clone().start_prepared());
        tasks.spawn(driver.clone().renew());
        tasks.spawn(driver.clone().attend());
        tasks.spawn(driver.clone().listen());
        tasks.spawn(driver.clone().listen_for_places());
        if node.has_role(NodeRole::Scheduler) {
            shared.pulse.begin(&[Vital::Plan, Vital::Reap]);
            tasks.spawn(driver.clone().plan());
            tasks.spawn(driver.clone().reap());
            tasks.spawn(driver.clone().prune());
            tasks.spawn(driver.clone().tally());
            tasks.spawn(driver.clone().seal());
            tasks.spawn(driver.clone().reconcile());
        }
        for notifier in notifiers {
            tasks.spawn(driver.clone().deliver(notifier));
        }
        tasks.spawn(driver.clone().raise());
        for _ in 1..EXCHANGES_AT_ONCE {
            tasks.spawn(driver.clone().help_exchange());
        }
        tasks.spawn(driver.clone().exchange());
        let settling = driver.clone();
        let settles = Batcher::start(SETTLE_MAX, move |settled, sizes| {
            let driver = settling.clone();
            async move { driver.settle_messages(settled, &sizes).await }
        });
        let extending = driver.clone();
        let extends = Batcher::start(SETTLE_MAX, move |leases, sizes| {
            let driver = extending.clone();
            async move { driver.extend_leases(leases, &sizes).await }
        });
        tasks.spawn(lines::watch(Arc::clone(&node), Arc::clone(&shared)));
        let submits = Batcher::start(node.settings.batch_max as usize * 5, move |runs, sizes| {
            let driver = driver.clone();
            async move { driver.submit(runs, &sizes).await }
        });
        let tasks = tokio::sync::Mutex::new(tasks);
        let (runtime, proxies) = (tokio::runtime::Handle::current(), Mutex::default());
        Ok(Engine { node, submits, settles, extends, shared, tasks, here, runtime, proxies })
    }

    /// Delivers alerts to these notifiers too, as they come and go.
    pub async fn deliver_to(&self, notifiers: Arc<dyn Notifiers>) {
        let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
        self.tasks.lock().await.spawn(notify_present(node, shared, notifiers));
    }

    /// The node, for commands and questions.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Whether the scheduler of this process does its work. A loop without an answer for longer
    /// than `limit` has stalled.
    pub fn health(&self, limit: Duration) -> Health {
        Health {
            stalled: self.shared.pulse.stalled(limit),
            distrusted_clock: match self.node.clock() {
                ClockHealth::Refused(offset) => Some(offset),
                ClockHealth::Good | ClockHealth::Off(_) => None,
            },
            is_stopping: self.shared.stopping.load(Ordering::Relaxed),
        }
    }

    /// Whether a node is this process, or an agent that it stands in for.
    pub fn is_here(&self, node: NodeId) -> bool {
        let proxies = self.proxies();
        let mut proxies = proxies.iter().filter_map(Weak::upgrade);
        self.node.id() == node || proxies.any(|proxy| proxy.id() == node)
    }

    /// Counters of this process since its start.
    pub fn activity(&self) -> Activity {
        Activity {
            errors: self.shared.errors.load(Ordering::Relaxed),
            planned: self.shared.planned.load(Ordering::Relaxed),
            ended: self.node.outcomes(),
            dead_letters: self.node.ends.dead_letters(),
            clock_offset: self.node.offset(),
            slots: self.node.slot_use(),
        }
    }

    /// Records runs; callers that come at the same time share a commit. Durable when it returns.
    /// Returns for each whether it is new; runs of a job that has changed since it was read are an
    /// error.
    pub async fn submit(&self, runs: Vec<NewRun>) -> Result<Vec<bool>> {
        let submitted = self.record(runs).await?;
        if submitted.stale.is_empty() { Ok(submitted.accepted) } else { Err(changed_meanwhile()) }
    }

    /// The same, with the runs that were not recorded because their job has changed.
    pub(crate) async fn record(&self, runs: Vec<NewRun>) -> Result<Submitted> {
        let stopped =
            || EngineError::Store(StoreError::Unavailable("the engine has stopped".into()));
        let submitted = self.submits.send(runs).await.ok_or_else(stopped)?;
        Ok(submitted?)
    }

    /// Records a run that `make` builds from its job, and builds it again while the job changes
    /// between the two: the job may have been read long ago. Returns the run, and whether it is
    /// new.
    pub(crate) async fn record_current<F>(&self, make: impl Fn() -> F) -> Result<(NewRun, bool)>
    where
        F: Future<Output = Result<NewRun>>,
    {
        for _ in 0..STALE_TRIES_MAX {
            let run = make().await?;
            let submitted = self.record(vec![run.clone()]).await?;
            if submitted.stale.is_empty() {
                return Ok((run, submitted.accepted == [true]));
            }
            self.node.forget_job(run.job);
        }
        Err(changed_meanwhile())
    }

    /// Starts a run that did not succeed once more, as a new run. If it was a dead letter, it is
    /// acknowledged.
    pub async fn redrive(&self, run: RunId, requested_by: Option<UserId>) -> Result<NewRun> {
        let again = match self.node.redrive_split(run, requested_by).await? {
            Some(again) => {
                self.shared.news.notify_one();
                self.shared.places.notify_one();
                again
            }
            None => self.record_current(|| self.node.redriven(run, requested_by)).await?.0,
        };
        // In this order: a crash in between leaves a letter too many rather than a run too few.
        self.node.store.acknowledge(&[run]).await?;
        Ok(again)
    }

    /// There are other shards: the leader, if it is this node, finds owners for them now.
    pub fn shards_changed(&self) {
        self.shared.places.notify_one();
    }

    /// A job was defined: plan it now instead of at the next look.
    pub fn planned_soon(&self) {
        self.shared.plan.notify_one();
    }

    /// Asks a run of this node to stop at once; others learn of it with their next renewal.
    pub fn stop_run(&self, run: RunId) {
        self.shared.stop(run, AttemptEnd::Cancelled);
    }

    /// Waits until no executor is at work any more, at most so long.
    async fn executors_gone(&self, most: Duration) {
        let gone = async {
            loop {
                let ended = self.shared.idle.notified();
                if self.shared.stops().is_empty() {
                    break;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(most, gone).await;
    }

    fn proxies(&self) -> MutexGuard<'_, Vec<Weak<AgentProxy>>> {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops gracefully: claims nothing more, releases runs that have not started, lets running
    /// ones finish within `grace`, and stops the rest.
    pub async fn stop(&self, grace: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Workers ask another server, or this one again.
        self.shared.lines.close();
        // Agents elsewhere find another server, or this one again.
        for proxy in self.proxies().drain(..).filter_map(|proxy| proxy.upgrade()) {
            proxy.end();
        }
        // Before the last start: a tick that begins after it has a row of its own.
        match tokio::time::timeout(RETIRE_WAIT, self.node.retire()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the stop could not be recorded"),
            Err(_) => tracing::warn!("the stop could not be recorded in time"),
        }
        self.node.drain();
        self.node.release_prepared();
        self.shared.news.notify_one();
        let finished = async {
            loop {
                // Registered before the check, so that an end after it wakes this task.
                let ended = self.shared.idle.notified();
                if self.node.running() == 0 {
                    break;
                }
                ended.await;
            }
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            let running = self.node.abandon_running();
            tracing::warn!(running = running.len(), "stopping what did not finish in time");
            self.shared.stop_all(AttemptEnd::Lost);
            self.executors_gone(STOP_WAIT).await;
        }
        while let Ok(true) = self.node.exchange().await {}
        if let Err(error) = self.node.tell_refusals(true).await {
            tracing::warn!(%error, "refused attempts could not be recorded");
        }
        if let Err(error) = self.node.leave().await {
            tracing::warn!(%error, "the node could not leave; its lease will end by itself");
        }
        self.shared.stop_all(AttemptEnd::Cancelled);
        self.tasks.lock().await.shutdown().await;
    }
}

impl Shared {
    fn stops(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, (i64, StopSender)>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, run: RunId, end: AttemptEnd) {
        if let Some((_, stop)) = self.stops().get(&run) {
            stop.send_replace(Some(end));
        }
    }

    fn forget(&self, grant: Grant) {
        if let Entry::Occupied(stop) = self.stops().entry(grant.run)
            && stop.get().0 == grant.fence
        {
            stop.remove();
        }
    }

    fn stop_all(&self, end: AttemptEnd) {
        for (_, stop) in self.stops().values() {
            stop.send_replace(Some(end));
        }
    }
}
