//! Time that moves only when the simulation advances it.
//!
//! There is one true time. The store's wall clock and every machine's wall clock lie an offset
//! away from it, and the offsets can be stepped. Leases, durations and the executor's timers are
//! measured in true time, as a process measures them with its monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// One second, in the unit of all times here.
pub const SECOND: i64 = 1_000_000;

/// The true time, and the store's clock.
#[derive(Clone)]
pub struct VirtualClock(Arc<Times>);

struct Times {
    true_us: AtomicI64,
    store_offset: AtomicI64,
    store_newest: AtomicI64,
}

impl VirtualClock {
    /// A clock that stands at an instant.
    pub fn new(start: Timestamp) -> Self {
        VirtualClock(Arc::new(Times {
            true_us: AtomicI64::new(start.as_microsecond()),
            store_offset: AtomicI64::new(0),
            store_newest: AtomicI64::new(start.as_microsecond()),
        }))
    }

    /// The true time in microseconds.
    pub fn true_us(&self) -> i64 {
        self.0.true_us.load(Ordering::SeqCst)
    }

    /// Lets time pass.
    pub fn advance(&self, us: i64) {
        self.0.true_us.fetch_add(us, Ordering::SeqCst);
    }

    /// The wall clock of the store's machine.
    pub fn store_wall(&self) -> Timestamp {
        timestamp(self.true_us() + self.0.store_offset.load(Ordering::SeqCst))
    }

    /// How far the store's clock is ahead of the true time.
    pub fn store_ahead_us(&self) -> i64 {
        self.stamp().as_microsecond() - self.true_us()
    }

    /// Steps the clock of the store's machine.
    pub fn step_store(&self, by_us: i64) {
        self.0.store_offset.fetch_add(by_us, Ordering::SeqCst);
    }

    /// The store looks at it.
    pub fn look(&self) -> Timestamp {
        let wall = self.store_wall();
        self.0.store_newest.fetch_max(wall.as_microsecond(), Ordering::SeqCst);
        wall
    }

    /// The timestamp of a write at this moment: the store's clock, which never goes back behind its
    /// last value.
    pub fn stamp(&self) -> Timestamp {
        self.store_wall().max(timestamp(self.0.store_newest.load(Ordering::SeqCst)))
    }
}

/// The wall clock of one machine.
#[derive(Clone)]
pub struct MachineClock {
    clock: VirtualClock,
    offset: Arc<AtomicI64>,
}

impl MachineClock {
    /// A clock that shows the true time.
    pub fn new(clock: VirtualClock) -> Self {
        MachineClock { clock, offset: Arc::new(AtomicI64::new(0)) }
    }

    /// The wall clock of the machine.
    pub fn now(&self) -> Timestamp {
        timestamp(self.clock.true_us() + self.offset_us())
    }

    /// The monotonic clock, which no fault changes.
    pub fn steady(&self) -> Timestamp {
        timestamp(self.clock.true_us())
    }

    /// How far it is ahead.
    pub fn offset_us(&self) -> i64 {
        self.offset.load(Ordering::SeqCst)
    }

    /// Sets the wall clock.
    pub fn set_offset(&self, us: i64) {
        self.offset.store(us, Ordering::SeqCst);
    }
}

/// An instant of microseconds.
pub fn timestamp(us: i64) -> Timestamp {
    Timestamp::from_microsecond(us).unwrap_or(Timestamp::UNIX_EPOCH)
}
