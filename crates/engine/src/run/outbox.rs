//! Started runs that wait for a remote agent to fetch them.
//!
//! ```text
//!   admitted ──▶ waiting ──(poll n)──▶ sent in n ──(result)──▶ gone
//!                   ▲                      │
//!                   └── poll m > n does not name it: the answer to n was lost
//! ```
//!
//! An agent has one poll at a time. A later one ends those before it, so a run that an earlier poll
//! has taken and the later one does not name has never arrived.
//!
//! A sent run that did not end in its time is taken from the agent: it is *over*. The agent may
//! still execute it, so its slot becomes free when a poll does not name it any more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::RunId;
use domain::run::Grant;
use domain::slot::{PerSlot, SlotKind};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::node::Started;

/// How many slots these are, by their kind.
pub(super) fn count<'a>(slots: impl IntoIterator<Item = &'a SlotKind>) -> PerSlot<u32> {
    let mut counts = PerSlot::default();
    slots.into_iter().for_each(|slot| counts[*slot] += 1);
    counts
}

/// Runs on their way to an agent.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<Out>,
    /// There is something to fetch, or nothing will ever be.
    pub wake: Notify,
}

#[derive(Default)]
struct Out {
    /// With the time when it was admitted, or returned.
    waiting: VecDeque<(Started, Timestamp)>,
    /// With when the agent was given it.
    sent: HashMap<Grant, (Started, Timestamp)>,
    /// Runs whose claims have ended and that the agent may still execute, with the slots they
    /// occupy.
    over: HashMap<Grant, SlotKind>,
    poll: u64,
    is_closed: bool,
}

impl Outbox {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an admitted run.
    pub fn add(&self, run: Started, now: Timestamp) {
        let mut out = self.out();
        if !out.is_closed {
            out.waiting.push_back((run, now));
            drop(out);
            self.wake.notify_waiters();
        }
    }

    /// The agent has this one already.
    pub fn note(&self, run: Started, now: Timestamp) {
        let since = run.started_at.min(now);
        self.out().sent.insert(run.run.grant, (run, since));
    }

    /// The agent may be at work on these and has no right to them.
    pub fn note_over(&self, grants: impl IntoIterator<Item = (Grant, SlotKind)>) {
        self.out().over.extend(grants);
    }

    /// Runs that the agent has to stop.
    pub fn over(&self) -> Vec<Grant> {
        let mut over: Vec<Grant> = self.out().over.keys().copied().collect();
        over.sort_unstable_by_key(|grant| grant.fence);
        over
    }

    /// A poll begins. Returns how many slots it has freed; none when a later one has begun before
    /// it.
    pub fn begin(&self, poll: u64, has: &HashSet<Grant>, now: Timestamp) -> Option<PerSlot<u32>> {
        let mut out = self.out();
        if poll <= out.poll || out.is_closed {
            return None;
        }
        out.poll = poll;
        let freed: Vec<_> = out.over.extract_if(|grant, _| !has.contains(grant)).collect();
        let freed = count(freed.iter().map(|(_, slot)| slot));
        let lost: Vec<Grant> =
            out.sent.keys().filter(|grant| !has.contains(grant)).copied().collect();
        for grant in lost {
            if let Some((run, _)) = out.sent.remove(&grant) {
                out.waiting.push_front((run, now));
            }
        }
        drop(out);
        // An earlier poll that still waits ends.
        self.wake.notify_waiters();
        Some(freed)
    }

    /// Whether this is the poll under way.
    pub fn is_current(&self, poll: u64) -> bool {
        self.out().poll == poll
    }

    /// Runs for a poll, at most so many of each kind of slot; none when the poll should wait.
    pub fn take(&self, poll: u64, mut most: PerSlot<u32>, now: Timestamp) -> Option<Vec<Started>> {
        let mut out = self.out();
        if out.is_closed || out.poll != poll {
            return Some(Vec::new());
        }
        let mut taken: Vec<Started> = Vec::new();
        out.waiting.retain(|(run, _)| {
            let room = &mut most[run.run.run.slot];
            if *room > 0 {
                *room -= 1;
                taken.push(run.clone());
                return false;
            }
            true
        });
        if taken.is_empty() {
            return None;
        }
        for run in &taken {
            out.sent.insert(run.run.grant, (run.clone(), now));
        }
        Some(taken)
    }

    /// Takes runs from the agent that it should have ended by now. Their slots are still occupied.
    pub fn take_overdue(&self, is_overdue: impl Fn(&Started, Timestamp) -> bool) -> Vec<Started> {
        let mut out = self.out();
        let overdue = out.sent.values().filter(|(run, since)| is_overdue(run, *since));
        let overdue: Vec<Started> = overdue.map(|(run, _)| run.clone()).collect();
        for run in &overdue {
            out.sent.remove(&run.run.grant);
            out.over.insert(run.run.grant, run.run.run.slot);
        }
        overdue
    }

    /// Takes back runs that have waited since before then.
    pub fn take_unfetched(&self, before: Timestamp) -> Vec<Started> {
        let mut out = self.out();
        let is_late = |(_, since): &(Started, Timestamp)| *since < before;
        let late: Vec<Started> =
            out.waiting.iter().filter(|it| is_late(it)).map(|(run, _)| run.clone()).collect();
        out.waiting.retain(|it| !is_late(it));
        late
    }

    /// A run has ended. Returns the slot that is free now if it had no right to go on.
    pub fn forget(&self, grant: Grant) -> Option<SlotKind> {
        let mut out = self.out();
        out.sent.remove(&grant);
        out.waiting.retain(|(run, _)| run.run.grant != grant);
        out.over.remove(&grant)
    }

    /// Takes back a run that the agent has not fetched.
    pub fn recall(&self, run: RunId) -> Option<Started> {
        let mut out = self.out();
        let place = out.waiting.iter().position(|(waiting, _)| waiting.run.grant.run == run)?;
        out.waiting.remove(place).map(|(run, _)| run)
    }

    /// Run that the agent got under a claim.
    pub fn sent(&self, grant: Grant) -> Option<Started> {
        self.out().sent.get(&grant).map(|(run, _)| run.clone())
    }

    /// The first that the agent was given and that a question is about.
    pub fn find(&self, is_meant: impl Fn(&Started) -> bool) -> Option<Started> {
        self.out().sent.values().map(|(run, _)| run).find(|run| is_meant(run)).cloned()
    }

    /// Takes back all runs that the agent has not fetched.
    pub fn empty(&self) -> Vec<Started> {
        self.out().waiting.drain(..).map(|(run, _)| run).collect()
    }

    /// Whether the outbox is closed.
    pub fn is_closed(&self) -> bool {
        self.out().is_closed
    }

    /// Closes the outbox: nothing is added or fetched any more.
    pub fn close(&self) {
        let mut out = self.out();
        *out = Out { is_closed: true, ..Out::default() };
        drop(out);
        self.wake.notify_waiters();
    }
}
