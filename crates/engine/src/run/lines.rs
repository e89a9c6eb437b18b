//! Workers that wait for messages: one line for each queue, and one call of the store for all that
//! wait in it.
//!
//! A task serves the line as long as there is one. It leases as many messages as are wanted, deals
//! them out in the order in which the workers came, and then sleeps until something changes or the
//! next delayed message is ready. Once a second, and after each hint of the store, one call asks
//! which of all queues with an empty line have messages. A worker that comes while its queue is
//! known to be empty costs no call at all.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::JobId;
use domain::queue::BATCH_MAX;
use jiff::{SignedDuration, Timestamp};
use store::{LeasedMessage, SettledMessage, StoreError, Verdict};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{Engine, Shared};
use crate::error::{EngineError, Result};
use crate::node::Node;

/// How often empty queues are checked in the store: a hint may be missing.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The least time between two of these calls, so that many hints are one.
const CHECK_PAUSE: Duration = Duration::from_millis(10);

/// How long a line sleeps at least until the next delayed message.
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// How long a line is known to be empty after its last worker left: workers come back soon.
const LINGER: Duration = Duration::from_secs(120);

type Reply = store::Result<Vec<LeasedMessage>>;

/// The lines of a process.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<HashMap<JobId, Line>>,
    /// Messages of some queue may be ready.
    check: Notify,
}

struct Line {
    waiters: VecDeque<Waiter>,
    wake: Arc<Notify>,
    /// Whether a task serves it.
    is_served: bool,
    /// Whether the last lease found less than was wanted, and nothing has changed since.
    is_dry: bool,
    /// When the next delayed message of a dry line becomes ready.
    next_at: Option<Timestamp>,
    /// Grows with every change that becomes known.
    changes: u64,
    /// When it was last not empty.
    used_at: Instant,
}

/// How messages are leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// How long.
    pub lease: SignedDuration,
    /// Whether the time limit of a message begins with the lease, and not when the worker reports
    /// that it has begun.
    pub limit_begins: bool,
}

struct Waiter {
    max: u32,
    terms: LeaseTerms,
    /// Whether it is answered at once, also with nothing.
    is_hasty: bool,
    reply: oneshot::Sender<Reply>,
}

/// Next step of the task of a line.
enum Step {
    Lease(Wanted),
    Sleep(Arc<Notify>, Option<Timestamp>),
    Leave,
}

impl Lines {
    fn lines(&self) -> MutexGuard<'_, HashMap<JobId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages of a queue may be ready.
    pub fn wake(&self, queue: JobId) {
        if let Some(line) = self.lines().get_mut(&queue) {
            line.changed();
        }
    }

    /// Messages of some queue may be ready: [`check`](watch) finds out which.
    pub fn check(&self) {
        self.check.notify_one();
    }

    /// Puts a waiter in line. Returns whether the line needs to be served.
    fn push(&self, queue: JobId, waiter: Waiter) -> bool {
        let mut lines = self.lines();
        let line = match lines.entry(queue) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Line::new()),
        };
        if waiter.is_hasty || !line.is_dry {
            line.wake.notify_one();
        }
        line.waiters.push_back(waiter);
        line.used_at = Instant::now();
        !std::mem::replace(&mut line.is_served, true)
    }

    /// Next step for the workers at the front of a line.
    fn step(&self, queue: JobId) -> Step {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(&queue) else { return Step::Leave };
        line.waiters.retain(|waiter| !waiter.reply.is_closed());
        let Some(terms) = line.waiters.front().map(|waiter| waiter.terms) else {
            line.is_served = false;
            return Step::Leave;
        };
        line.used_at = Instant::now();
        if line.is_dry && !line.waiters.iter().any(|waiter| waiter.is_hasty) {
            return Step::Sleep(Arc::clone(&line.wake), line.next_at);
        }
        let alike = line.waiters.iter().filter(|waiter| waiter.terms == terms);
        let sum = alike.fold(0_u32, |sum, waiter| sum.saturating_add(waiter.max));
        Step::Lease(Wanted { max: sum.min(BATCH_MAX as u32), terms, changes: line.changes })
    }

    /// Deals messages out, in the order in which the workers came. Returns those that no worker
    /// wants any more.
    fn deal(&self, queue: JobId, wanted: &Wanted, leased: store::Leased) -> Vec<LeasedMessage> {
        let mut messages = VecDeque::from(leased.messages);
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(&queue) else { return messages.into() };
        let is_dry = messages.len() < wanted.max as usize;
        line.is_dry = is_dry && line.changes == wanted.changes;
        line.next_at = leased.next_at;
        let mut waiting = VecDeque::with_capacity(line.waiters.len());
        for waiter in std::mem::take(&mut line.waiters) {
            let is_served = waiter.terms == wanted.terms && !messages.is_empty();
            if is_served && !waiter.reply.is_closed() {
                let count = messages.len().min(waiter.max as usize);
                let part: Vec<LeasedMessage> = messages.drain(..count).collect();
                if let Err(Ok(unsent)) = waiter.reply.send(Ok(part)) {
                    unsent.into_iter().rev().for_each(|message| messages.push_front(message));
                }
            } else if is_dry && waiter.is_hasty {
                let _ = waiter.reply.send(Ok(Vec::new()));
            } else {
                waiting.push_back(waiter);
            }
        }
        line.waiters = waiting;
        messages.into()
    }

    /// The queues that had no message when they were asked last. Lines that no worker needs end.
    fn dry_queues(&self) -> Vec<JobId> {
        let mut lines = self.lines();
        lines.retain(|_, line| {
            let is_left = line.waiters.iter().all(|waiter| waiter.reply.is_closed());
            if is_left && line.is_served {
                line.wake.notify_one();
            }
            line.is_served || line.used_at.elapsed() < LINGER
        });
        lines.iter().filter(|(_, line)| line.is_dry).map(|(queue, _)| *queue).collect()
    }

    /// Wakes all waiters without messages: the process stops.
    pub fn close(&self) {
        for (_, line) in self.lines().drain() {
            line.wake.notify_one();
            for waiter in line.waiters {
                let _ = waiter.reply.send(Ok(Vec::new()));
            }
        }
    }

    /// Returns an error to all waiters: the store does not answer.
    fn fail(&self, queue: JobId, error: &StoreError) {
        if let Some(line) = self.lines().remove(&queue) {
            for waiter in line.waiters {
                let _ = waiter.reply.send(Err(error.clone()));
            }
        }
    }
}

impl Line {
    fn new() -> Self {
        Line {
            waiters: VecDeque::new(),
            wake: Arc::default(),
            is_served: false,
            is_dry: false,
            next_at: None,
            changes: 0,
            used_at: Instant::now(),
        }
    }

    fn changed(&mut self) {
        self.is_dry = false;
        self.changes += 1;
        self.wake.notify_one();
    }
}

/// Request of the workers at the front of a line.
struct Wanted {
    max: u32,
    terms: LeaseTerms,
    changes: u64,
}

/// Serves the line of a queue until no worker is in it.
async fn serve(node: Arc<Node>, shared: Arc<Shared>, queue: JobId) {
    loop {
        match shared.lines.step(queue) {
            Step::Leave => return,
            Step::Lease(wanted) => {
                let leased = match lease(&node, queue, &wanted).await {
                    Ok(leased) => leased,
                    Err(error) => return shared.lines.fail(queue, &error),
                };
                let unwanted = shared.lines.deal(queue, &wanted, leased);
                if !unwanted.is_empty() {
                    release(&node, queue, &unwanted).await;
                }
            }
            Step::Sleep(wake, None) => wake.notified().await,
            Step::Sleep(wake, Some(next_at)) => {
                let until = Duration::try_from(next_at.duration_since(node.now()));
                let until = until.unwrap_or_default().max(SLEEP_MIN);
                if tokio::time::timeout(until, wake.notified()).await.is_err() {
                    shared.lines.wake(queue);
                }
            }
        }
    }
}

/// Checks for all empty lines together whether their queues have messages by now.
pub(super) async fn watch(node: Arc<Node>, shared: Arc<Shared>) {
    loop {
        let _ = tokio::time::timeout(CHECK_EVERY, shared.lines.check.notified()).await;
        let mut asked = shared.lines.dry_queues();
        asked.extend(node.waited_queues());
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            continue;
        }
        // Without an answer every line queries for itself, and reports the error to its workers.
        let ready = node.store.ready_queues(&asked).await.unwrap_or(asked);
        deal_to_steps(&node, &shared, &ready).await;
        ready.into_iter().for_each(|queue| shared.lines.wake(queue));
        tokio::time::sleep(CHECK_PAUSE).await;
    }
}

/// Steps of DAG runs that wait for messages of these queues get them before the workers in line.
async fn deal_to_steps(node: &Node, shared: &Shared, ready: &[JobId]) {
    let dealt = match node.deal_messages_of(ready).await {
        Ok(0) => return,
        Ok(_) => node.advance_dags().await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = dealt {
        // Leased messages are ready again when their leases end; every step of a DAG run tries
        // again.
        tracing::warn!(%error, "messages for steps of DAG runs wait");
    }
    node.hint();
    shared.news.notify_one();
}

async fn lease(node: &Node, queue: JobId, wanted: &Wanted) -> store::Result<store::Leased> {
    let nothing = || store::Leased { messages: Vec::new(), next_at: None };
    let Some(job) = node.recall_job(queue).await? else { return Ok(nothing()) };
    match node.lease_request(&job, wanted.max, wanted.terms) {
        Ok(request) => node.store.lease_messages(&request).await,
        Err(_) => Ok(nothing()),
    }
}

/// Gives messages back that no worker has seen.
async fn release(node: &Node, queue: JobId, messages: &[LeasedMessage]) {
    let settled: Vec<SettledMessage> = messages
        .iter()
        .map(|message| SettledMessage {
            queue,
            message: message.id,
            fence: Some(message.fence),
            verdict: Verdict::Release,
            result: None,
            is_forgotten: false,
        })
        .collect();
    if let Err(error) = node.store.settle_messages(node.id(), &settled).await {
        tracing::warn!(%error, count = settled.len(), "unread messages wait for the end of their leases");
    }
}

/// A worker in line. If it goes away, messages that it was dealt are released.
struct WaitingWorker {
    reply: oneshot::Receiver<Reply>,
    queue: JobId,
    node: Arc<Node>,
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
}

impl Drop for WaitingWorker {
    fn drop(&mut self) {
        self.reply.close();
        let Ok(Ok(unread)) = self.reply.try_recv() else { return };
        if unread.is_empty() {
            return;
        }
        let (node, shared, queue) = (Arc::clone(&self.node), Arc::clone(&self.shared), self.queue);
        self.runtime.spawn(async move {
            release(&node, queue, &unread).await;
            shared.lines.wake(queue);
        });
    }
}

impl Engine {
    /// Leases messages of a queue; waits until there is one, at most so long.
    pub(crate) async fn lease_messages(
        &self,
        queue: JobId,
        max: u32,
        terms: LeaseTerms,
        wait: Duration,
    ) -> Result<Vec<LeasedMessage>> {
        if self.shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { max, terms, is_hasty: wait.is_zero(), reply };
        if self.shared.lines.push(queue, waiter) {
            let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
            self.runtime.spawn(serve(node, shared, queue));
        }
        let mut place = WaitingWorker {
            reply: answer,
            queue,
            node: Arc::clone(&self.node),
            shared: Arc::clone(&self.shared),
            runtime: self.runtime.clone(),
        };
        let answer = if wait.is_zero() {
            (&mut place.reply).await.ok()
        } else {
            match tokio::time::timeout(wait, &mut place.reply).await {
                Ok(answer) => answer.ok(),
                Err(_) => {
                    // It may have been answered in this moment.
                    place.reply.close();
                    place.reply.try_recv().ok()
                }
            }
        };
        match answer {
            Some(leased) => Ok(leased?),
            None => Ok(Vec::new()),
        }
    }

    /// How many workers wait for messages here.
    pub fn waiting_workers(&self) -> usize {
        self.shared.lines.lines().values().map(|line| line.waiters.len()).sum()
    }

    /// Messages of a queue may be ready.
    pub(crate) fn messages_changed(&self, queue: JobId) {
        self.shared.lines.wake(queue);
        if self.node.is_waited_for(queue) {
            self.shared.lines.check();
        }
    }

    /// Applies reports of workers; callers that come at the same time share a commit.
    pub(crate) async fn settle_messages(
        &self,
        settled: Vec<SettledMessage>,
    ) -> Result<Vec<store::Applied>> {
        if settled.is_empty() {
            return Ok(Vec::new());
        }
        let queues: HashSet<JobId> = settled.iter().map(|it| it.queue).collect();
        let stopped =
            || EngineError::Store(StoreError::Unavailable("the engine has stopped".into()));
        let applied = self.settles.send(settled).await.ok_or_else(stopped)?;
        queues.into_iter().for_each(|queue| self.messages_changed(queue));
        Ok(applied?)
    }
}
