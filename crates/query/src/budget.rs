//! What a statement may use up, counted while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{QueryError, State};

/// What virtual tables, functions and the progress handler of a connection share. It is about the
/// statement that runs.
#[derive(Default)]
pub(crate) struct Budget {
    state: Mutex<Running>,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

#[derive(Default)]
struct Running {
    now: Option<Timestamp>,
    ends: Option<(Instant, Duration)>,
    cancel: Option<Arc<AtomicBool>>,
    fault: Option<QueryError>,
}

#[expect(clippy::disallowed_methods, reason = "the only clock here: when a statement must end")]
fn tick() -> Instant {
    Instant::now()
}

impl Budget {
    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A statement begins.
    pub fn begin(&self, now: Timestamp, time: Duration, bytes: u64, cancel: Arc<AtomicBool>) {
        self.bytes.store(0, Ordering::Relaxed);
        self.bytes_max.store(bytes, Ordering::Relaxed);
        let ends = Some((tick() + time, time));
        *self.running() = Running { now: Some(now), ends, cancel: Some(cancel), fault: None };
    }

    /// What went wrong besides what SQLite says.
    pub fn take_fault(&self) -> Option<QueryError> {
        self.running().fault.take()
    }

    /// Remembers what went wrong, and answers a word for SQLite.
    pub fn fail(&self, error: QueryError) -> rusqlite::Error {
        let text = error.text.clone();
        self.running().fault.get_or_insert(error);
        rusqlite::Error::ModuleError(text)
    }

    /// The time of the statement.
    pub fn now(&self) -> Timestamp {
        self.running().now.unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Whether the statement must end now; remembers why.
    pub fn is_over(&self) -> bool {
        let mut running = self.running();
        let over = if running.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            "the statement was cancelled".to_owned()
        } else if let Some((ends, time)) = running.ends
            && tick() >= ends
        {
            format!("the statement took longer than {time:?}")
        } else {
            return false;
        };
        running.fault.get_or_insert(QueryError::new(State::Cancelled, over));
        true
    }

    /// Counts bytes that are handed to SQLite.
    pub fn spend(&self, bytes: u64) -> rusqlite::Result<()> {
        let spent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let max = self.bytes_max.load(Ordering::Relaxed);
        if spent <= max {
            return Ok(());
        }
        let text = format!("the statement reads and makes more than {max} bytes");
        let hint = "Ask for fewer rows or columns.".to_owned();
        Err(self.fail(QueryError::new(State::TooMuch, text).hint(hint)))
    }
}
