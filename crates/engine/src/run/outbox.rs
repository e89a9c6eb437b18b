//! What was let in and waits for an agent elsewhere to fetch it.
//!
//! ```text
//!   let in ──▶ waiting ──(poll n)──▶ sent in n ──(result)──▶ gone
//!                 ▲                      │
//!                 └── poll m > n does not name it: the answer to n was lost
//! ```
//!
//! An agent has one poll at a time. A later one ends those before it, so what an earlier poll has
//! taken and the later one does not name has never arrived.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::RunId;
use domain::run::Grant;
use tokio::sync::Notify;

use crate::node::Started;

/// Runs on their way to an agent.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<Out>,
    /// There is something to fetch, or nothing will ever be.
    pub wake: Notify,
}

#[derive(Default)]
struct Out {
    waiting: VecDeque<Started>,
    /// With the poll that took it.
    sent: HashMap<Grant, (Started, u64)>,
    poll: u64,
    is_closed: bool,
}

impl Outbox {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run was let in.
    pub fn add(&self, run: Started) {
        let mut out = self.out();
        if !out.is_closed {
            out.waiting.push_back(run);
            drop(out);
            self.wake.notify_waiters();
        }
    }

    /// The agent has this one already.
    pub fn note(&self, run: Started) {
        let mut out = self.out();
        let poll = out.poll;
        out.sent.insert(run.run.grant, (run, poll));
    }

    /// A poll begins. Answers false when a later one has begun before it.
    pub fn begin(&self, poll: u64, has: &HashSet<Grant>) -> bool {
        let mut out = self.out();
        if poll <= out.poll || out.is_closed {
            return false;
        }
        out.poll = poll;
        let lost: Vec<Grant> =
            out.sent.keys().filter(|grant| !has.contains(grant)).copied().collect();
        for grant in lost {
            if let Some((run, _)) = out.sent.remove(&grant) {
                out.waiting.push_front(run);
            }
        }
        drop(out);
        // Whoever waits for an earlier poll ends.
        self.wake.notify_waiters();
        true
    }

    /// Whether this is the poll under way.
    pub fn is_current(&self, poll: u64) -> bool {
        self.out().poll == poll
    }

    /// What a poll brings; none when it should wait.
    pub fn take(&self, poll: u64, most: usize) -> Option<Vec<Started>> {
        let mut out = self.out();
        if out.is_closed || out.poll != poll {
            return Some(Vec::new());
        }
        let count = most.min(out.waiting.len());
        if count == 0 {
            return None;
        }
        let taken: Vec<Started> = out.waiting.drain(..count).collect();
        for run in &taken {
            out.sent.insert(run.run.grant, (run.clone(), poll));
        }
        Some(taken)
    }

    /// A run has ended.
    pub fn forget(&self, grant: Grant) {
        let mut out = self.out();
        out.sent.remove(&grant);
        out.waiting.retain(|run| run.run.grant != grant);
    }

    /// Takes back a run that nobody has fetched.
    pub fn recall(&self, run: RunId) -> Option<Started> {
        let mut out = self.out();
        let place = out.waiting.iter().position(|waiting| waiting.run.grant.run == run)?;
        out.waiting.remove(place)
    }

    /// What the agent was given under a grant.
    pub fn sent(&self, grant: Grant) -> Option<Started> {
        self.out().sent.get(&grant).map(|(run, _)| run.clone())
    }

    /// The first that the agent was given and that a question is about.
    pub fn find(&self, is_meant: impl Fn(&Started) -> bool) -> Option<Started> {
        self.out().sent.values().map(|(run, _)| run).find(|run| is_meant(run)).cloned()
    }

    /// Takes back everything that nobody has fetched.
    pub fn empty(&self) -> Vec<Started> {
        self.out().waiting.drain(..).collect()
    }

    /// Whether nothing comes and goes any more.
    pub fn is_closed(&self) -> bool {
        self.out().is_closed
    }

    /// Nothing comes and goes any more.
    pub fn close(&self) {
        let mut out = self.out();
        *out = Out { is_closed: true, ..Out::default() };
        drop(out);
        self.wake.notify_waiters();
    }
}
