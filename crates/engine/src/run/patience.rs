//! How loops wait: for a store that is away, and for a moment that must not be missed.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use store::StoreError;
use tokio::time::Instant;

use super::Shared;

/// A timer may be late by a millisecond or two. This long before its time, the clock is polled.
pub(super) const WATCH: Duration = Duration::from_millis(2);

/// Error bound of the estimated store clock. A call before the time has come by the store's clock
/// is rejected and has to be repeated.
pub(super) const NOT_EARLY: SignedDuration = SignedDuration::from_micros(250);

/// Times that follow each other more closely than this are left to the timer.
const WATCH_REST: Duration = Duration::from_millis(100);

/// Looks at the clock in one watch at most.
const WATCH_LOOKS_MAX: u32 = 10_000;

/// Number of failures in a row of a step that the scheduler can do without, after which it is
/// logged as a warning while the store answers other steps.
const FAILURES_TOLD: u32 = 5;

/// Whether the store answers the steps of a process. All of its steps share it, so that an outage
/// of the store is logged once and not once for each of them.
#[derive(Default)]
pub(super) struct StoreHealth(Mutex<StoreOutage>);

#[derive(Default)]
struct StoreOutage {
    /// Steps that the store did not answer and has not answered since. While there is one, the
    /// store is away.
    failing: u32,
    /// When the last outage ended.
    back_at: Option<Instant>,
}

impl StoreHealth {
    fn outage(&self) -> MutexGuard<'_, StoreOutage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store did not answer a call of a step. Returns whether the step counts as failing, and
    /// whether an outage begins with it. A call that was under way when the last outage ended
    /// belongs to that one.
    fn fails(&self, began_at: Instant) -> (bool, bool) {
        let mut outage = self.outage();
        let is_first = outage.failing == 0;
        let is_late = outage.back_at.is_some_and(|back_at| began_at < back_at);
        let counts = !is_first || !is_late;
        outage.failing += u32::from(counts);
        (counts, counts && is_first)
    }

    /// The store answered a step that counted as failing, or the step ended. Returns whether the
    /// outage ends with it.
    fn recovers(&self) -> bool {
        let mut outage = self.outage();
        outage.failing = outage.failing.saturating_sub(1);
        let is_last = outage.failing == 0;
        if is_last {
            outage.back_at = Some(Instant::now());
        }
        is_last
    }

    /// Whether the store answers.
    fn is_well(&self) -> bool {
        self.outage().failing == 0
    }
}

/// Backoff of a step while the store is unreachable, longer after each failure. The first step of a
/// process that meets an outage of the store logs it, and the last one to recover logs its end.
pub(super) struct Backoff<'a> {
    shared: &'a Shared,
    step: &'static str,
    /// Whether the scheduler needs the step. Other steps call the store too rarely to detect the
    /// end of an outage.
    is_vital: bool,
    failures: u32,
    /// Whether it is among the steps that the store does not answer.
    is_failing: bool,
    /// The call whose result comes next began after this.
    began_at: Instant,
}

impl<'a> Backoff<'a> {
    /// Of a step that the scheduler needs, and that is repeated every few seconds at least.
    pub fn new(shared: &'a Shared, step: &'static str) -> Self {
        let began_at = Instant::now();
        Backoff { shared, step, is_vital: true, failures: 0, is_failing: false, began_at }
    }

    /// Of a step that the scheduler can do without for a while.
    pub fn in_background(shared: &'a Shared, step: &'static str) -> Self {
        Backoff { is_vital: false, ..Backoff::new(shared, step) }
    }

    pub async fn after<T>(&mut self, result: store::Result<T>) -> Option<T> {
        let value = match result {
            Ok(value) => {
                self.recover();
                Some(value)
            }
            Err(error) => {
                self.fail(&error);
                self.shared.errors.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100 << self.failures.min(5))).await;
                None
            }
        };
        self.began_at = Instant::now();
        value
    }

    fn recover(&mut self) {
        self.failures = 0;
        if std::mem::take(&mut self.is_failing) && self.shared.store_health.recovers() {
            tracing::info!("the store is back");
        }
    }

    fn fail(&mut self, error: &StoreError) {
        let (step, health) = (self.step, &self.shared.store_health);
        self.failures += 1;
        if !matches!(error, StoreError::Unavailable(_)) {
            if self.failures == 1 {
                tracing::error!(step, %error, "step failed; it is repeated");
            }
        } else if !self.is_vital {
            if self.failures == FAILURES_TOLD && health.is_well() {
                tracing::warn!(step, %error, "step keeps failing");
            }
        } else if !self.is_failing {
            let (counts, is_first) = health.fails(self.began_at);
            self.is_failing = counts;
            if is_first {
                tracing::error!(step, %error, "waiting for the store");
            }
        }
    }
}

impl Drop for Backoff<'_> {
    fn drop(&mut self) {
        if self.is_failing {
            self.shared.store_health.recovers();
        }
    }
}

/// Watching the clock costs a core as long as it lasts, so it is followed by a rest.
#[derive(Default)]
pub(super) struct Watch {
    looks: u32,
    rests_until: Option<Instant>,
}

impl Watch {
    pub fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        if self.rests_until.is_none_or(|until| until <= now) {
            *self = Watch { looks: 0, rests_until: Some(now + WATCH_REST) };
        }
        self.looks += 1;
        // A clock that stands still is not worth watching.
        self.looks <= WATCH_LOOKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> store::Result<()> {
        Err(StoreError::Unavailable("connection closed".to_owned()))
    }

    fn is_well(shared: &Shared) -> bool {
        shared.store_health.is_well()
    }

    #[tokio::test]
    async fn an_outage_begins_with_the_first_failure_and_ends_with_the_last_recovery() {
        let shared = Shared::default();
        let health = &shared.store_health;
        assert_eq!(health.fails(Instant::now()), (true, true), "an outage begins");
        assert_eq!(health.fails(Instant::now()), (true, false), "the same outage");
        assert!(!health.recovers() && health.recovers());
        let [mut plan, mut claim, mut late] =
            ["plan", "claim", "attend"].map(|step| Backoff::new(&shared, step));
        let mut prune = Backoff::in_background(&shared, "prune");
        for patience in [&mut plan, &mut claim, &mut prune] {
            assert_eq!(patience.after(away()).await, None);
        }
        plan.after(away()).await;
        assert_eq!(health.outage().failing, 2, "a step in the background does not count");
        assert!(plan.after(Ok(())).await.is_some());
        assert!(!is_well(&shared), "the store has not answered every step yet");
        assert!(claim.after(Ok(())).await.is_some());
        assert!(is_well(&shared));
        // Its call began before the store was back, and fails only now.
        late.after(away()).await;
        assert!(is_well(&shared), "that was the same outage");
        late.after(away()).await;
        assert!(!is_well(&shared), "that is another one");
        drop(late);
        assert!(is_well(&shared), "a step that ended waits for nothing");
    }

    #[tokio::test]
    async fn an_error_that_is_not_about_the_connection_is_no_outage() {
        let shared = Shared::default();
        let mut plan = Backoff::new(&shared, "plan");
        let unreadable = || store::Result::<()>::Err(StoreError::Unreadable("a job".to_owned()));
        plan.after(unreadable()).await;
        assert!(is_well(&shared));
        plan.after(away()).await;
        assert!(!is_well(&shared));
    }
}
