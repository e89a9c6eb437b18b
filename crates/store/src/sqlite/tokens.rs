//! The fencing tokens that jobs see: allocated when a start is decided, larger each time.
//!
//! A token is allocated in memory, so that a start costs no write. The counter is written along
//! with the groups of commands, and when the file is opened it continues behind everything that can
//! have been allocated: at the next multiple of a second's tokens after the written one, or at the
//! current second, whichever is later. The second matters after a restore of an older copy.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use rusqlite::Connection;

use crate::Result;
use crate::{TOKEN_BITS, token_floor};

/// The counter of one open file.
pub(super) struct Tokens(AtomicI64);

impl Tokens {
    /// Continues after the tokens that were allocated before, and writes that to disk.
    pub fn open(connection: &Connection, now: Timestamp) -> Result<Self> {
        // The latest fencing token that was written.
        let sql = "SELECT token FROM meta";
        let written: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        let first = (((written >> TOKEN_BITS) + 1) << TOKEN_BITS).max(token_floor(now));
        // Where fencing tokens go on when the file is opened.
        let sql = "UPDATE meta SET token = ?1";
        connection.execute(sql, (first,))?;
        Ok(Tokens(AtomicI64::new(first)))
    }

    /// A token that is larger than all before it.
    pub fn draw(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The latest one.
    pub fn latest(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The tokens that the commands of a group draw, in their order: an input of the group.
pub(super) struct DrawnTokens {
    source: TokenSource,
    drawn: RefCell<Vec<i64>>,
}

enum TokenSource {
    /// The counter of the open file, which starts draw from as well.
    Counter(Arc<Tokens>),
    /// Those that were recorded, and the latest one of the group.
    Recorded(RefCell<VecDeque<i64>>, i64),
}

impl From<Arc<Tokens>> for DrawnTokens {
    fn from(tokens: Arc<Tokens>) -> Self {
        DrawnTokens { source: TokenSource::Counter(tokens), drawn: RefCell::default() }
    }
}

impl DrawnTokens {
    /// The tokens of a group that was recorded.
    pub fn recorded(tokens: &[i64], latest: i64) -> Self {
        let tokens = RefCell::new(tokens.iter().copied().collect());
        DrawnTokens { source: TokenSource::Recorded(tokens, latest), drawn: RefCell::default() }
    }

    /// A group of commands begins.
    pub fn begin(&mut self) {
        self.drawn.get_mut().clear();
    }

    /// A token that is larger than all before it; zero if fewer were recorded.
    pub fn draw(&self) -> i64 {
        let token = match &self.source {
            TokenSource::Counter(tokens) => tokens.draw(),
            TokenSource::Recorded(tokens, _) => tokens.borrow_mut().pop_front().unwrap_or(0),
        };
        self.drawn.borrow_mut().push(token);
        token
    }

    /// The latest one that anything has drawn.
    pub fn latest(&self) -> i64 {
        match &self.source {
            TokenSource::Counter(tokens) => tokens.latest(),
            TokenSource::Recorded(_, latest) => *latest,
        }
    }

    /// The tokens that the group has drawn.
    pub fn drawn(&self) -> Vec<i64> {
        self.drawn.borrow().clone()
    }

    /// How many these are.
    pub fn count(&self) -> usize {
        self.drawn.borrow().len()
    }

    /// Forgets those of a command that was rolled back.
    pub fn forget_after(&mut self, count: usize) {
        self.drawn.get_mut().truncate(count);
    }
}
