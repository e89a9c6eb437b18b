//! The budget of a statement: time, steps and memory, counted while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::engine::{Cancel, Limits};
use crate::error::{QueryError, State};
use crate::memory;
use crate::pool::Account;
use crate::turns::tick;

/// A statement reports its memory to the pool when it has changed by this many bytes.
const TELL_BYTES: i64 = 64 << 10;

/// A statement yields its turn after this time.
const SLICE: Duration = Duration::from_millis(20);

/// The budget of the running statement, shared by the virtual tables, functions and the progress
/// handler of a connection.
pub(crate) struct Budget {
    account: Account,
    limits: Limits,
    state: Mutex<Running>,
    bytes: AtomicU64,
    steps: AtomicU64,
}

#[derive(Default)]
struct Running {
    now: Option<Timestamp>,
    ends: Option<Instant>,
    time: Duration,
    cancel: Cancel,
    fault: Option<QueryError>,
    /// When its turn began; none if it has none.
    turn: Option<Instant>,
    /// The bytes that were reported to the pool.
    told: i64,
}

impl Running {
    /// Why the statement must end now, if it must.
    fn over(&self) -> Option<QueryError> {
        if self.cancel.is_cancelled() {
            return Some(QueryError::new(State::Cancelled, "statement cancelled"));
        }
        if self.ends.is_some_and(|ends| tick() >= ends) {
            let text = format!("statement timeout exceeded ({:?})", self.time);
            let hint = "Select less, or raise sql.statement_timeout.".to_owned();
            return Some(QueryError::new(State::Cancelled, text).hint(hint));
        }
        None
    }
}

/// A statement that runs on this thread until it is dropped.
pub(crate) struct Statement<'a>(&'a Budget);

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        let budget = self.0;
        let mut running = budget.running();
        if let Some(since) = running.turn.take() {
            budget.account.pool.turns.release(budget.account.claimant(), since);
        }
        budget.account.end(running.told);
        running.told = 0;
        memory::end();
    }
}

impl Budget {
    pub fn new(account: Account, limits: Limits) -> Self {
        let (bytes, steps) = (AtomicU64::new(0), AtomicU64::new(0));
        Budget { account, limits, state: Mutex::default(), bytes, steps }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a statement on this thread as soon as it has a turn.
    pub fn begin(&self, now: Timestamp, cancel: Cancel) -> Result<Statement<'_>, QueryError> {
        self.bytes.store(0, Ordering::Relaxed);
        self.steps.store(0, Ordering::Relaxed);
        let time = cancel.time_or_less(self.limits.time);
        let ends = tick().checked_add(time);
        *self.running() = Running { now: Some(now), ends, time, cancel, ..Running::default() };
        memory::begin(self.limits.memory);
        self.account.begin();
        let statement = Statement(self);
        self.take_turn()?;
        Ok(statement)
    }

    /// Waits for a turn.
    fn take_turn(&self) -> Result<(), QueryError> {
        let turns = &self.account.pool.turns;
        let is_over = || self.running().over().is_some();
        let turn = turns.take(self.account.claimant(), is_over);
        let mut running = self.running();
        running.turn = turn;
        match (turn, running.over()) {
            (Some(_), _) => Ok(()),
            (None, over) => {
                Err(over
                    .unwrap_or_else(|| QueryError::new(State::Cancelled, "the statement ended")))
            }
        }
    }

    fn give_turn_back(&self) {
        let turn = self.running().turn.take();
        if let Some(since) = turn {
            self.account.pool.turns.release(self.account.claimant(), since);
        }
    }

    /// Runs a closure that does not compute, such as waiting for a reader: without a turn, and
    /// without counting its time.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> Result<T, QueryError> {
        self.give_turn_back();
        let since = tick();
        let done = work();
        let waited = tick().saturating_duration_since(since);
        {
            let mut running = self.running();
            running.ends = running.ends.and_then(|ends| ends.checked_add(waited));
        }
        self.take_turn()?;
        Ok(done)
    }

    /// The error that was recorded besides SQLite's own.
    pub fn take_fault(&self) -> Option<QueryError> {
        self.running().fault.take()
    }

    /// Records an error, and returns an error for SQLite.
    pub fn fail(&self, error: QueryError) -> rusqlite::Error {
        // Truncated, because SQLite allocates the message and may have no memory left.
        let text = error.text.chars().take(200).collect();
        self.running().fault.get_or_insert(error);
        rusqlite::Error::ModuleError(text)
    }

    /// The time of the statement.
    pub fn now(&self) -> Timestamp {
        self.running().now.unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Counts steps of SQLite; returns whether the statement must end now, and records why.
    pub fn step(&self, steps: u64) -> bool {
        let taken = self.steps.fetch_add(steps, Ordering::Relaxed) + steps;
        if taken > self.limits.steps {
            let max = self.limits.steps;
            let text = format!("statement step limit reached (sql.statement_steps_max = {max})");
            let hint = "Join or read fewer rows.".to_owned();
            self.running().fault.get_or_insert(QueryError::new(State::TooMuch, text).hint(hint));
            return true;
        }
        self.is_over()
    }

    /// Whether the statement must end now; records why. A statement that continues may have waited
    /// here for its next turn.
    pub fn is_over(&self) -> bool {
        match self.look() {
            Ok(()) => false,
            Err(error) => {
                self.running().fault.get_or_insert(error);
                true
            }
        }
    }

    fn look(&self) -> Result<(), QueryError> {
        let slice_is_over = {
            let running = self.running();
            if let Some(over) = running.over() {
                return Err(over);
            }
            running.turn.is_some_and(|since| tick().saturating_duration_since(since) >= SLICE)
        };
        self.tell_memory()?;
        if slice_is_over && self.account.pool.turns.is_wanted() {
            self.give_turn_back();
            self.take_turn()?;
        }
        Ok(())
    }

    /// Reports the memory of the statement to the pool.
    fn tell_memory(&self) -> Result<(), QueryError> {
        if memory::is_exceeded() {
            return Err(self.out_of_memory());
        }
        let held = memory::held();
        let mut running = self.running();
        let more = held - running.told;
        if more.abs() < TELL_BYTES {
            return Ok(());
        }
        running.told = held;
        drop(running);
        self.account.hold(held, more)
    }

    /// The error for a statement that exceeds its memory limit.
    pub fn out_of_memory(&self) -> QueryError {
        let max = self.limits.memory;
        let text =
            format!("statement memory limit reached (sql.statement_memory_max = {max} bytes)");
        let hint = "Sort, group and select less at a time.".to_owned();
        QueryError::new(State::OutOfMemory, text).hint(hint)
    }

    /// Counts bytes outside of SQLite that the statement holds from now on.
    pub fn hold(&self, bytes: u64) -> rusqlite::Result<()> {
        memory::count(i64::try_from(bytes).unwrap_or(i64::MAX));
        match memory::is_exceeded() {
            true => Err(self.fail(self.out_of_memory())),
            false => Ok(()),
        }
    }

    /// Counts bytes that are passed to SQLite.
    pub fn spend(&self, bytes: u64) -> rusqlite::Result<()> {
        let spent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let max = self.limits.bytes;
        if spent <= max {
            return Ok(());
        }
        let text = format!("statement data limit reached ({max} bytes)");
        let hint = "Select fewer rows or columns.".to_owned();
        Err(self.fail(QueryError::new(State::TooMuch, text).hint(hint)))
    }
}
