//! Workers that wait for messages: one line for each queue, and one call of the store for all that
//! wait in it.
//!
//! A task serves the line as long as there is one. It leases as many messages as are wanted, deals
//! them out in the order in which the workers came, and then sleeps until something changes, until
//! the next delayed message is ready, or for a second. A worker that comes while the queue is known
//! to be empty costs no call at all.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::JobId;
use domain::queue::BATCH_MAX;
use jiff::SignedDuration;
use store::{LeasedMessage, SettledMessage, StoreError, Verdict};
use tokio::sync::{Notify, oneshot};

use super::{Engine, Shared};
use crate::error::{EngineError, Result};
use crate::node::Node;

/// How long a line sleeps at most: a hint may be missing.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How long a line sleeps at least after it found nothing, so that many hints are one.
const SLEEP_MIN: Duration = Duration::from_millis(2);

type Reply = store::Result<Vec<LeasedMessage>>;

/// The lines of a process.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<JobId, Line>>);

#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    wake: Arc<Notify>,
    /// Whether the last lease found less than was wanted, and nothing has changed since.
    is_dry: bool,
    /// Grows with every change that was heard of.
    changes: u64,
}

struct Waiter {
    max: u32,
    lease: SignedDuration,
    /// Whether it is answered at once, also with nothing.
    is_hasty: bool,
    reply: oneshot::Sender<Reply>,
}

impl Lines {
    fn lines(&self) -> MutexGuard<'_, HashMap<JobId, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages of a queue may be ready.
    pub fn wake(&self, queue: JobId) {
        if let Some(line) = self.lines().get_mut(&queue) {
            line.changed();
        }
    }

    /// Messages of any queue may be ready.
    pub fn wake_all(&self) {
        self.lines().values_mut().for_each(Line::changed);
    }

    /// Puts a waiter in line. Answers whether the line is new and needs to be served.
    fn push(&self, queue: JobId, waiter: Waiter) -> bool {
        let mut lines = self.lines();
        match lines.entry(queue) {
            Entry::Occupied(mut entry) => {
                let line = entry.get_mut();
                let is_hasty = waiter.is_hasty;
                line.waiters.push_back(waiter);
                if is_hasty || !line.is_dry {
                    line.wake.notify_one();
                }
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(Line::default()).waiters.push_back(waiter);
                true
            }
        }
    }

    /// What the workers at the front of a line want together, and for how long. None when nobody is
    /// left, and then there is no line any more.
    fn wanted(&self, queue: JobId) -> Option<Wanted> {
        let mut lines = self.lines();
        let line = lines.get_mut(&queue)?;
        line.waiters.retain(|waiter| !waiter.reply.is_closed());
        let Some(lease) = line.waiters.front().map(|waiter| waiter.lease) else {
            lines.remove(&queue);
            return None;
        };
        let alike = line.waiters.iter().filter(|waiter| waiter.lease == lease);
        let sum = alike.fold(0_u32, |sum, waiter| sum.saturating_add(waiter.max));
        let (wake, changes) = (Arc::clone(&line.wake), line.changes);
        Some(Wanted { max: sum.min(BATCH_MAX as u32), lease, wake, changes })
    }

    /// Deals messages out, in the order in which the workers came. Answers those that nobody wanted
    /// any more.
    fn deal(
        &self,
        queue: JobId,
        wanted: &Wanted,
        mut messages: VecDeque<LeasedMessage>,
    ) -> Vec<LeasedMessage> {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(&queue) else { return messages.into() };
        line.is_dry = messages.len() < wanted.max as usize && line.changes == wanted.changes;
        let is_dry = messages.len() < wanted.max as usize;
        let mut waiting = VecDeque::with_capacity(line.waiters.len());
        for waiter in std::mem::take(&mut line.waiters) {
            let is_served = waiter.lease == wanted.lease && !messages.is_empty();
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

    /// Answers everybody in line with nothing: the process stops.
    pub fn close(&self) {
        for (_, line) in self.lines().drain() {
            for waiter in line.waiters {
                let _ = waiter.reply.send(Ok(Vec::new()));
            }
        }
    }

    /// Tells everybody in line that the store has no answer.
    fn fail(&self, queue: JobId, error: &StoreError) {
        if let Some(line) = self.lines().remove(&queue) {
            for waiter in line.waiters {
                let _ = waiter.reply.send(Err(error.clone()));
            }
        }
    }
}

impl Line {
    fn changed(&mut self) {
        self.is_dry = false;
        self.changes += 1;
        self.wake.notify_one();
    }
}

/// What the workers at the front of a line want.
struct Wanted {
    max: u32,
    lease: SignedDuration,
    wake: Arc<Notify>,
    changes: u64,
}

/// Serves the line of a queue until nobody is in it.
async fn serve(node: Arc<Node>, shared: Arc<Shared>, queue: JobId) {
    while let Some(wanted) = shared.lines.wanted(queue) {
        let leased = match lease(&node, queue, &wanted).await {
            Ok(leased) => leased,
            Err(error) => return shared.lines.fail(queue, &error),
        };
        let is_dry = leased.messages.len() < wanted.max as usize;
        let unwanted = shared.lines.deal(queue, &wanted, leased.messages.into());
        if !unwanted.is_empty() {
            release(&node, queue, &unwanted).await;
        }
        if is_dry {
            let until = leased.next_at.map(|at| at.duration_since(node.now()));
            let until = until.map_or(SLEEP_MAX, |it| Duration::try_from(it).unwrap_or_default());
            let woken = wanted.wake.notified();
            let _ = tokio::time::timeout(until.clamp(SLEEP_MIN, SLEEP_MAX), woken).await;
        }
    }
}

async fn lease(node: &Node, queue: JobId, wanted: &Wanted) -> store::Result<store::Leased> {
    let nothing = || store::Leased { messages: Vec::new(), next_at: None };
    let Some(job) = node.recall_job(queue).await? else { return Ok(nothing()) };
    match node.lease_request(&job, wanted.max, wanted.lease) {
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
        })
        .collect();
    if let Err(error) = node.store.settle_messages(node.id(), &settled).await {
        tracing::warn!(%error, count = settled.len(), "unread messages wait for the end of their leases");
    }
}

/// A worker in line. If it goes away, what was dealt to it goes back.
struct Place {
    reply: oneshot::Receiver<Reply>,
    queue: JobId,
    node: Arc<Node>,
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
}

impl Drop for Place {
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
        lease: SignedDuration,
        wait: Duration,
    ) -> Result<Vec<LeasedMessage>> {
        if self.shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { max, lease, is_hasty: wait.is_zero(), reply };
        if self.shared.lines.push(queue, waiter) {
            let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
            self.runtime.spawn(serve(node, shared, queue));
        }
        let mut place = Place {
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
    }

    /// Applies reports of workers; callers that come at the same time share a commit.
    pub(crate) async fn settle_messages(
        &self,
        settled: Vec<SettledMessage>,
    ) -> Result<Vec<store::Applied>> {
        if settled.is_empty() {
            return Ok(Vec::new());
        }
        let queue = settled[0].queue;
        let stopped =
            || EngineError::Store(StoreError::Unavailable("the engine has stopped".into()));
        let applied = self.settles.send(settled).await.ok_or_else(stopped)?;
        self.messages_changed(queue);
        Ok(applied?)
    }
}
