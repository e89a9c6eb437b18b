//! The engine in a real process: each step of the node as a loop with a rhythm of its own.
//!
//! A loop wakes by a hint or by time, and time alone is enough: hints make things fast, the clock
//! makes them right. A loop that finds the store unavailable says so once, waits a little longer
//! each time, and goes on by itself.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::cluster::NodeRole;
use domain::id::RunId;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode, Grant, NewRun, Outcome};
use jiff::SignedDuration;
use store::{FullStore, StoreError, Submitted};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::batch::Batcher;
use crate::courier::{Courier, Couriers};
use crate::error::{EngineError, Result};
use crate::node::{Node, Started};
use crate::settings::{Parts, Settings};

/// Pumps that run side by side, so that the store works while results come in.
const PUMPS: usize = 2;

/// How much longer than its grace period a stopped run may take: its executor stops what it
/// started, and tells what came of it, by itself.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// How often what ended is added up.
const TALLY_EVERY: Duration = Duration::from_secs(15);

/// How often the leader looks for nodes with other settings.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// How often what was recorded is sealed.
const SEAL_EVERY: Duration = Duration::from_secs(1);

/// Couriers that are on their way at the same time.
const COURIERS_AT_ONCE: usize = 16;

/// What carries out a run.
pub trait Executor: Send + Sync + 'static {
    /// Does the work of a run. It must end soon after `stop` says so.
    fn execute(&self, run: Started, stop: Stop) -> impl Future<Output = AttemptResult> + Send;
}

type StopSender = watch::Sender<Option<AttemptEnd>>;

/// Tells an executor to stop.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<AttemptEnd>>);

impl Stop {
    /// The wish itself, for an executor that hands it on.
    pub fn into_requests(self) -> watch::Receiver<Option<AttemptEnd>> {
        self.0
    }

    /// Waits until the run must stop, and says why: cancelled, or out of time.
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
pub struct Engine<S> {
    node: Arc<Node<S>>,
    submits: Batcher<NewRun, std::result::Result<Submitted, String>>,
    shared: Arc<Shared>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// What the loops and the executors share.
#[derive(Default)]
struct Shared {
    /// Results came in, or there is work to fetch.
    news: Notify,
    /// Runs were taken in and may be due.
    prepared: Notify,
    /// A job may be due earlier than the planner thinks.
    plan: Notify,
    /// Runs were recorded here that ask for something of their node.
    places: Notify,
    /// The executors' stop signals, each with the fence that it belongs to: a run can be here
    /// again while the executor of an older grant has not stopped yet.
    stops: Mutex<HashMap<RunId, (i64, StopSender)>>,
    ready: AtomicBool,
    stopping: AtomicBool,
    idle: Notify,
    /// Steps that met an error.
    errors: AtomicU64,
    /// Runs that were planned.
    planned: AtomicU64,
}

/// What a process has done since its start.
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
}

impl<S: FullStore> Engine<S> {
    /// Joins the cluster and starts to work. Each courier is told every alert.
    pub async fn start<E: Executor>(
        store: Arc<S>,
        executor: E,
        couriers: Vec<Box<dyn Courier>>,
        settings: Settings,
        parts: Parts,
    ) -> store::Result<Self> {
        let node = Arc::new(Node::new(store, settings, parts));
        node.found().await?;
        node.join().await?;
        let shared = Arc::new(Shared::default());
        shared.ready.store(true, Ordering::Relaxed);
        let driver = Driver {
            node: Arc::clone(&node),
            shared: Arc::clone(&shared),
            executor: Arc::new(executor),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.clone().start_prepared());
        tasks.spawn(driver.clone().renew());
        tasks.spawn(driver.clone().attend());
        tasks.spawn(driver.clone().listen());
        if node.has_role(NodeRole::Scheduler) {
            tasks.spawn(driver.clone().plan());
            tasks.spawn(driver.clone().reap());
            tasks.spawn(driver.clone().prune());
            tasks.spawn(driver.clone().tally());
            tasks.spawn(driver.clone().seal());
        }
        for courier in couriers {
            tasks.spawn(driver.clone().notify(courier));
        }
        for _ in 0..PUMPS {
            tasks.spawn(driver.clone().pump());
        }
        let submits = Batcher::start(node.settings.batch_max as usize * 5, move |runs, sizes| {
            let driver = driver.clone();
            async move { driver.submit(runs, &sizes).await }
        });
        Ok(Engine { node, submits, shared, tasks: tokio::sync::Mutex::new(tasks) })
    }

    /// Carries alerts to these couriers too, as they come and go.
    pub async fn carry_to(&self, couriers: Arc<dyn Couriers>) {
        let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
        self.tasks.lock().await.spawn(notify_present(node, shared, couriers));
    }

    /// The node, for commands and questions.
    pub fn node(&self) -> &Node<S> {
        &self.node
    }

    /// Whether the store answers.
    pub fn is_ready(&self) -> bool {
        self.shared.ready.load(Ordering::Relaxed)
    }

    /// What this process has done since its start.
    pub fn activity(&self) -> Activity {
        Activity {
            errors: self.shared.errors.load(Ordering::Relaxed),
            planned: self.shared.planned.load(Ordering::Relaxed),
            ended: self.node.outcomes(),
            dead_letters: self.node.ends.dead_letters(),
            clock_offset: self.node.offset(),
        }
    }

    /// Records runs; callers that come at the same time share a commit. Durable when it returns.
    pub async fn submit(&self, runs: Vec<NewRun>) -> Result<Vec<bool>> {
        let stopped =
            || EngineError::Store(StoreError::Unavailable("the engine has stopped".into()));
        let submitted = self.submits.send(runs).await.ok_or_else(stopped)?;
        Ok(submitted.map_err(|error| EngineError::Store(StoreError::Unavailable(error)))?.accepted)
    }

    /// Starts a run that did not succeed once more, as a new run. If it was a dead letter, it is
    /// seen to now.
    pub async fn redrive(&self, run: RunId) -> Result<NewRun> {
        let again = self.node.redriven(run).await?;
        self.submit(vec![again.clone()]).await?;
        // In this order: a crash in between leaves a letter too many rather than a run too few.
        self.node.store.acknowledge(&[run]).await?;
        Ok(again)
    }

    /// A job was defined: plan it now instead of at the next look.
    pub fn planned_soon(&self) {
        self.shared.plan.notify_one();
    }

    /// Asks a run of this node to stop at once; others learn of it with their next renewal.
    pub fn stop_run(&self, run: RunId) {
        self.shared.stop(run, AttemptEnd::Cancelled);
    }

    /// Stops gracefully: claims nothing more, gives back what has not started, lets what runs
    /// finish within `grace`, and stops the rest.
    pub async fn stop(&self, grace: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.node.drain();
        self.node.hand_back();
        self.shared.news.notify_one();
        let finished = async {
            while self.node.running() > 0 {
                self.shared.idle.notified().await;
            }
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            tracing::warn!(running = self.node.running(), "stopping what did not finish in time");
        }
        while let Ok(true) = self.node.pump().await {}
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
        let mut stops = self.stops();
        if stops.get(&grant.run).is_some_and(|(fence, _)| *fence == grant.fence) {
            stops.remove(&grant.run);
        }
    }

    fn stop_all(&self, end: AttemptEnd) {
        for (_, stop) in self.stops().values() {
            stop.send_replace(Some(end));
        }
    }
}

/// What a loop works with.
struct Driver<S, E> {
    node: Arc<Node<S>>,
    shared: Arc<Shared>,
    executor: Arc<E>,
}

impl<S, E> Clone for Driver<S, E> {
    fn clone(&self) -> Self {
        Driver {
            node: Arc::clone(&self.node),
            shared: Arc::clone(&self.shared),
            executor: Arc::clone(&self.executor),
        }
    }
}

/// Says once that the store is away and once that it is back, and waits in between.
struct Patience<'a> {
    shared: &'a Shared,
    what: &'static str,
    failures: u32,
}

impl<'a> Patience<'a> {
    fn new(shared: &'a Shared, what: &'static str) -> Self {
        Patience { shared, what, failures: 0 }
    }

    async fn after<T>(&mut self, result: store::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                if self.failures > 0 {
                    tracing::info!(step = self.what, "the store is back");
                    self.failures = 0;
                    self.shared.ready.store(true, Ordering::Relaxed);
                }
                Some(value)
            }
            Err(error) => {
                if self.failures == 0 {
                    tracing::error!(step = self.what, %error, "waiting for the store");
                    self.shared.ready.store(false, Ordering::Relaxed);
                }
                self.failures += 1;
                self.shared.errors.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100 << self.failures.min(5))).await;
                None
            }
        }
    }
}

/// Asks a run to stop when its time is up, and ends when it was asked, for whatever reason, and
/// has not stopped within the grace period.
async fn overdue(
    stop: watch::Sender<Option<AttemptEnd>>,
    mut stopped: Stop,
    timeout: Duration,
    grace: Duration,
) {
    if tokio::time::timeout(timeout, stopped.requested()).await.is_err() {
        stop.send_replace(Some(AttemptEnd::Timeout));
    }
    tokio::time::sleep(grace + AFTER_GRACE).await;
}

fn std_duration(duration: SignedDuration) -> Duration {
    duration.try_into().unwrap_or_default()
}

impl<S: FullStore, E: Executor> Driver<S, E> {
    async fn plan(self) {
        let mut patience = Patience::new(&self.shared, "plan");
        loop {
            if let Some(report) = patience.after(self.node.plan().await).await {
                if report.runs > 0 {
                    self.shared.planned.fetch_add(report.runs as u64, Ordering::Relaxed);
                    self.shared.news.notify_one();
                    self.seek_places();
                }
                if !report.more {
                    let pause = std_duration(self.node.settings.poll_every);
                    let _ = tokio::time::timeout(pause, self.shared.plan.notified()).await;
                }
            }
        }
    }

    async fn pump(self) {
        let mut patience = Patience::new(&self.shared, "pump");
        let poll = std_duration(self.node.settings.poll_every);
        loop {
            while self.node.has_news() {
                if patience.after(self.node.pump().await).await.is_some() {
                    self.start_due(&mut patience).await;
                    self.shared.prepared.notify_one();
                }
            }
            if tokio::time::timeout(poll, self.shared.news.notified()).await.is_err() {
                self.node.hint();
            }
        }
    }

    async fn start_prepared(self) {
        let mut patience = Patience::new(&self.shared, "start");
        loop {
            let now = self.node.now();
            let wait = self
                .node
                .next_prepared()
                .map(|due_at| std_duration(due_at.duration_since(now).max(SignedDuration::ZERO)));
            match wait {
                Some(Duration::ZERO) => self.start_due(&mut patience).await,
                Some(wait) => {
                    let _ = tokio::time::timeout(wait, self.shared.prepared.notified()).await;
                }
                None => self.shared.prepared.notified().await,
            }
        }
    }

    async fn start_due(&self, patience: &mut Patience<'_>) {
        loop {
            let Some(started) = patience.after(self.node.start_due().await).await else { continue };
            if started.is_empty() {
                break;
            }
            for run in started {
                self.execute(run);
            }
        }
        if self.node.has_news() {
            self.shared.news.notify_one();
        }
    }

    fn execute(&self, run: Started) {
        let driver = self.clone();
        tokio::spawn(async move {
            let grant = run.run.grant;
            let definition = &run.job.definition;
            let (timeout, grace) =
                (std_duration(definition.timeout), std_duration(definition.grace_period));
            let (stop, stopped) = watch::channel(None);
            driver.shared.stops().insert(grant.run, (grant.fence, stop.clone()));
            let out_of_patience = overdue(stop, Stop(stopped.clone()), timeout, grace);
            let mut result = tokio::select! {
                // In this order, so that what ends at once needs no timer.
                biased;
                result = driver.carry_out(run, Stop(stopped.clone())) => result,
                () = out_of_patience => AttemptResult {
                    end: AttemptEnd::Failed,
                    message: "it did not stop within its grace period".into(),
                    ..AttemptResult::completed()
                },
            };
            // What was asked to stop and did not complete ended because it was asked.
            if let Some(end) = *stopped.borrow()
                && result.end != AttemptEnd::Completed
            {
                result.end = end;
            }
            driver.shared.forget(grant);
            driver.node.complete(grant, result);
            driver.shared.news.notify_one();
            driver.shared.idle.notify_waiters();
        });
    }

    /// Does the work of a run, if its owner may still have it done.
    async fn carry_out(&self, run: Started, stop: Stop) -> AttemptResult {
        match self.node.obstacle(&run.job).await {
            Ok(None) => self.executor.execute(run, stop).await,
            Ok(Some(text)) => AttemptResult::failed(ErrorCode::Refused("NOT_ALLOWED".into()), text),
            Err(error) => {
                let text = format!("the rights of the job's owner cannot be looked up: {error}");
                AttemptResult::failed(ErrorCode::Other("STORE_UNAVAILABLE".into()), text)
            }
        }
    }

    /// Renews the lease. When that fails for so long that others may take over, everything that
    /// runs here is stopped before they do.
    async fn renew(self) {
        let settings = &self.node.settings;
        let every = std_duration(settings.renew_every);
        let safe = std_duration(settings.lease - settings.stop_before_lease_end);
        let mut renewed_at = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(every).await;
            let asked_at = tokio::time::Instant::now();
            let left = safe.saturating_sub(renewed_at.elapsed());
            match tokio::time::timeout(left, self.node.renew()).await {
                Ok(Ok(Some(cancel))) => {
                    renewed_at = asked_at;
                    for run in cancel {
                        self.shared.stop(run, AttemptEnd::Cancelled);
                    }
                    continue;
                }
                Ok(Ok(None)) => tracing::error!("the lease was lost; stopping what runs here"),
                Ok(Err(_)) | Err(_) if renewed_at.elapsed() < safe => continue,
                Ok(Err(_)) | Err(_) => {
                    tracing::error!("the lease could not be renewed; stopping what runs here")
                }
            }
            self.rejoin().await;
            renewed_at = tokio::time::Instant::now();
        }
    }

    async fn rejoin(&self) {
        for run in self.node.become_another() {
            self.shared.stop(run, AttemptEnd::Lost);
        }
        let mut patience = Patience::new(&self.shared, "join");
        while patience.after(self.node.join().await).await.is_none() {}
        self.shared.news.notify_one();
    }

    async fn reap(self) {
        let mut patience = Patience::new(&self.shared, "reap");
        loop {
            tokio::time::sleep(std_duration(self.node.settings.poll_every)).await;
            let report = patience.after(self.node.reap().await).await;
            if report.is_some_and(|report| report.lost > 0 || report.woken > 0) {
                self.shared.news.notify_one();
            }
        }
    }

    /// Does what a node does as one of several.
    async fn attend(self) {
        let mut patience = Patience::new(&self.shared, "attend");
        let poll = std_duration(self.node.settings.poll_every);
        let mut watched_at: Option<tokio::time::Instant> = None;
        loop {
            if let Some(attended) = patience.after(self.node.attend().await).await {
                if attended.placed > 0 {
                    self.start_due(&mut patience).await;
                    self.shared.prepared.notify_one();
                }
                if attended.acknowledged > 0 || self.node.has_news() {
                    self.shared.news.notify_one();
                }
                if watched_at.is_none_or(|at| at.elapsed() > WATCH_EVERY) {
                    patience.after(self.node.watch_settings().await).await;
                    watched_at = Some(tokio::time::Instant::now());
                }
            }
            let _ = tokio::time::timeout(poll, self.shared.places.notified()).await;
        }
    }

    async fn prune(self) {
        let mut patience = Patience::new(&self.shared, "prune");
        loop {
            let gone = patience.after(self.node.prune().await).await;
            let forgotten = patience.after(self.node.forget_requests().await).await;
            let keys = patience.after(self.node.forget_keys().await).await;
            let audit = patience.after(self.node.prune_audit().await).await;
            let busy = [gone, forgotten, keys, audit].into_iter().flatten().any(|gone| gone > 0);
            let pause = if busy { 1 } else { 60 };
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
    }

    async fn tally(self) {
        let mut patience = Patience::new(&self.shared, "tally");
        loop {
            let report = patience.after(self.node.tally().await).await;
            if !report.is_some_and(|report| report.more) {
                tokio::time::sleep(TALLY_EVERY).await;
            }
        }
    }

    async fn seal(self) {
        let mut patience = Patience::new(&self.shared, "seal");
        loop {
            let report = patience.after(self.node.seal().await).await;
            if !report.is_some_and(|report| report.more) {
                tokio::time::sleep(SEAL_EVERY).await;
            }
        }
    }

    async fn notify(self, courier: Box<dyn Courier>) {
        let mut patience = Patience::new(&self.shared, "notify");
        loop {
            tokio::time::sleep(std_duration(self.node.settings.poll_every)).await;
            patience.after(self.node.notify(courier.as_ref()).await).await;
        }
    }

    /// What was recorded here may ask for this node.
    fn seek_places(&self) {
        if self.node.seeks_place() {
            self.shared.places.notify_one();
        }
    }

    /// Passes the store's hints on.
    async fn listen(self) {
        loop {
            self.node.store.changed().await;
            self.node.hint();
            self.shared.news.notify_one();
        }
    }

    async fn submit(
        &self,
        runs: Vec<NewRun>,
        sizes: &[usize],
    ) -> Vec<std::result::Result<Submitted, String>> {
        match self.node.submit(&runs).await {
            Ok(submitted) => {
                let mut patience = Patience::new(&self.shared, "start");
                self.start_due(&mut patience).await;
                self.seek_places();
                let mut accepted = submitted.accepted.into_iter();
                let part = |size: &usize| {
                    Ok(Submitted {
                        accepted: accepted.by_ref().take(*size).collect(),
                        claimed: Vec::new(),
                    })
                };
                sizes.iter().map(part).collect()
            }
            Err(error) => sizes.iter().map(|_| Err(error.to_string())).collect(),
        }
    }
}

/// Every channel at the same time: one that does not answer keeps no other waiting.
async fn notify_present<S: FullStore>(
    node: Arc<Node<S>>,
    shared: Arc<Shared>,
    couriers: Arc<dyn Couriers>,
) {
    let mut patience = Patience::new(&shared, "notify");
    loop {
        tokio::time::sleep(std_duration(node.settings.poll_every)).await;
        let present = match couriers.present().await {
            Ok(present) => present,
            Err(problem) => {
                tracing::warn!(problem, "nobody knows whom alerts are carried to");
                continue;
            }
        };
        let mut rounds = JoinSet::new();
        for courier in present {
            if rounds.len() >= COURIERS_AT_ONCE
                && let Some(Ok(round)) = rounds.join_next().await
            {
                patience.after(round).await;
            }
            let node = Arc::clone(&node);
            rounds.spawn(async move { node.deliver(courier.as_ref()).await });
        }
        while let Some(ended) = rounds.join_next().await {
            if let Ok(round) = ended {
                patience.after(round).await;
            }
        }
    }
}
