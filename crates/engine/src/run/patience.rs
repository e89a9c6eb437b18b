//! How loops wait: for a store that is away, and for a moment that must not be missed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::SignedDuration;

use super::Shared;

/// A timer may be late by a millisecond or two. So long before its time, the clock is watched.
pub(super) const WATCH: Duration = Duration::from_millis(2);

/// What is known of the store's clock may be off by about so much. Who asks before the time has
/// come there is sent away, and asks twice.
pub(super) const NOT_EARLY: SignedDuration = SignedDuration::from_micros(250);

/// Times that follow each other more closely than this are left to the timer.
const WATCH_REST: Duration = Duration::from_millis(100);

/// Looks at the clock in one watch at most.
const WATCH_LOOKS_MAX: u32 = 10_000;

/// Says once that the store is away and once that it is back, and waits in between.
pub(super) struct Patience<'a> {
    shared: &'a Shared,
    what: &'static str,
    failures: u32,
}

impl<'a> Patience<'a> {
    pub fn new(shared: &'a Shared, what: &'static str) -> Self {
        Patience { shared, what, failures: 0 }
    }

    pub async fn after<T>(&mut self, result: store::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                if self.failures > 0 {
                    tracing::info!(step = self.what, "the store is back");
                    self.failures = 0;
                }
                Some(value)
            }
            Err(error) => {
                if self.failures == 0 {
                    tracing::error!(step = self.what, %error, "waiting for the store");
                }
                self.failures += 1;
                self.shared.errors.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100 << self.failures.min(5))).await;
                None
            }
        }
    }
}

/// Watching the clock costs a core as long as it lasts, so it is followed by a rest.
#[derive(Default)]
pub(super) struct Watch {
    looks: u32,
    rests_until: Option<tokio::time::Instant>,
}

impl Watch {
    pub fn goes_on(&mut self) -> bool {
        let now = tokio::time::Instant::now();
        if self.rests_until.is_none_or(|until| until <= now) {
            *self = Watch { looks: 0, rests_until: Some(now + WATCH_REST) };
        }
        self.looks += 1;
        // A clock that stands still is not worth watching.
        self.looks <= WATCH_LOOKS_MAX
    }
}
