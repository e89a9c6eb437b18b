//! Time that never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use rusqlite::Connection;

use super::Clock;
use crate::Result;

/// A clock that never goes back, not even behind the last time in the file.
pub(super) struct Steady {
    clock: Arc<dyn Clock>,
    newest: AtomicI64,
}

impl Steady {
    pub fn new(clock: Arc<dyn Clock>, connection: &Connection) -> Result<Self> {
        let newest: i64 = connection.query_row(sql!("meta_read"), [], |row| row.get(1))?;
        Ok(Steady { clock, newest: AtomicI64::new(newest) })
    }
}

impl Clock for Steady {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        let newest = self.newest.fetch_max(now.as_microsecond(), Ordering::Relaxed);
        Timestamp::from_microsecond(newest).map_or(now, |newest| newest.max(now))
    }
}
