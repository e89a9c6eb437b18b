//! Turns: how many statements compute at the same time, and in which order.
//!
//! A statement computes only while it has a turn. After a time slice it yields the turn if others
//! wait, and while it waits for its reader it has none. The next turn goes to the tenant that has
//! used the least time, and within a tenant to the statement that has waited longest.
//! Administrators have one extra turn, and come first.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// How often a waiting statement checks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Turns that are reserved for administrators.
const RESERVED: usize = 1;

/// The owner of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// A statement of a tenant.
    Tenant(Uuid),
    /// A statement of an administrator.
    Administrator,
}

pub(crate) struct Turns {
    state: Mutex<State>,
    max: usize,
}

#[derive(Default)]
struct State {
    taken: usize,
    administrators: VecDeque<Arc<Waiter>>,
    tenants: HashMap<Uuid, Tenant>,
    /// The used time of the tenant that got the last turn. A returning tenant begins here: unused
    /// time is not saved up.
    floor: Duration,
}

#[derive(Default)]
struct Tenant {
    waiting: VecDeque<Arc<Waiter>>,
    /// The number of its statements with a turn.
    running: usize,
    /// The time that it has used.
    used: Duration,
}

#[derive(Default)]
struct Waiter {
    wake: Condvar,
    /// Written and read under the lock of the state.
    is_granted: AtomicBool,
}

impl Waiter {
    fn is_granted(&self) -> bool {
        self.is_granted.load(Ordering::Relaxed)
    }

    fn grant(&self) {
        self.is_granted.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a turn takes")]
pub(crate) fn tick() -> Instant {
    Instant::now()
}

impl Turns {
    pub fn new(max: usize) -> Self {
        Turns { state: Mutex::default(), max: max.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn; returns its start, or none if `is_over` returned true first.
    pub fn take(&self, who: Claimant, is_over: impl Fn() -> bool) -> Option<Instant> {
        let mut state = self.state();
        let waiter = Arc::new(Waiter::default());
        state.enqueue(who, Arc::clone(&waiter));
        state.hand_out(self.max);
        while !waiter.is_granted() {
            let waited = waiter.wake.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !waiter.is_granted() && is_over() {
                state.dequeue(who, &waiter);
                return None;
            }
        }
        drop(state);
        Some(tick())
    }

    /// Returns a turn that began at this time.
    pub fn release(&self, who: Claimant, since: Instant) {
        let used = tick().saturating_duration_since(since);
        let mut state = self.state();
        state.taken -= 1;
        if let Claimant::Tenant(id) = who {
            state.used(id, used);
        }
        state.hand_out(self.max);
    }

    /// Whether a statement with a turn should yield it.
    pub fn is_wanted(&self) -> bool {
        let state = self.state();
        !state.administrators.is_empty()
            || state.tenants.values().any(|tenant| !tenant.waiting.is_empty())
    }
}

impl State {
    fn enqueue(&mut self, who: Claimant, waiter: Arc<Waiter>) {
        match who {
            Claimant::Administrator => self.administrators.push_back(waiter),
            Claimant::Tenant(id) => {
                let tenant = self.tenants.entry(id).or_default();
                if tenant.waiting.is_empty() && tenant.running == 0 {
                    tenant.used = tenant.used.max(self.floor);
                }
                tenant.waiting.push_back(waiter);
            }
        }
    }

    fn dequeue(&mut self, who: Claimant, waiter: &Arc<Waiter>) {
        let others = |other: &Arc<Waiter>| !Arc::ptr_eq(other, waiter);
        match who {
            Claimant::Administrator => self.administrators.retain(others),
            Claimant::Tenant(id) => {
                if let Some(tenant) = self.tenants.get_mut(&id) {
                    tenant.waiting.retain(others);
                }
                self.forget(id);
            }
        }
    }

    fn used(&mut self, id: Uuid, time: Duration) {
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.running -= 1;
            tenant.used += time;
        }
        self.forget(id);
    }

    /// Removes a tenant without statements, unless its used time must be kept.
    fn forget(&mut self, id: Uuid) {
        let floor = self.floor;
        let idle = |tenant: &Tenant| tenant.waiting.is_empty() && tenant.running == 0;
        if self.tenants.get(&id).is_some_and(|it| idle(it) && it.used <= floor) {
            self.tenants.remove(&id);
        }
        // No tenant competes any more: all start again from zero.
        if self.tenants.values().all(idle) {
            self.tenants.clear();
            self.floor = Duration::ZERO;
        }
    }

    fn hand_out(&mut self, max: usize) {
        while self.taken < max + RESERVED
            && let Some(waiter) = self.administrators.pop_front()
        {
            self.taken += 1;
            waiter.grant();
        }
        while self.taken < max {
            let next = self.tenants.values_mut().filter(|tenant| !tenant.waiting.is_empty());
            let Some(tenant) = next.min_by_key(|tenant| (tenant.used, tenant.running)) else {
                return;
            };
            let Some(waiter) = tenant.waiting.pop_front() else { return };
            tenant.running += 1;
            self.floor = self.floor.max(tenant.used);
            self.taken += 1;
            waiter.grant();
        }
    }
}

#[cfg(test)]
mod tests;
