//! The fencing tokens that jobs see: allocated when a start is decided, larger each time.
//!
//! A token is allocated in memory, so that a start costs no write. The counter is written along
//! with the groups of commands, and when the file is opened it continues behind everything that can
//! have been allocated: at the next multiple of a second's tokens after the written one, or at the
//! current second, whichever is later. The second matters after a restore of an older copy.

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
