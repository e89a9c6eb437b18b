//! State in memory: sequence numbers, claims, and the order of events. All of it is read back from
//! the tables when the file is opened, so that it changes no result.

use std::cell::Cell;

use jiff::Timestamp;
use rusqlite::Connection;

use super::holdings::Holdings;
use super::row::us;
use super::tokens::DrawnTokens;
use crate::Result;

/// Read when the file is opened, and written with the commands that move them.
pub(super) struct Counters {
    /// The latest number that was allocated to a claim or a run. None is allocated twice.
    pub fence: i64,
    /// The fencing tokens of starts.
    pub tokens: DrawnTokens,
    /// The time of the last group of commands.
    pub clock: Timestamp,
    /// Whether the counters must be written.
    pub dirty: Cell<bool>,
    /// Order of a group of commands: later than all orders that were used, and than everything that
    /// was due by then, even if the clock stands still.
    pub order: i64,
    /// The latest order that was used.
    used_order: Cell<i64>,
    /// The latest token when the counters were written.
    written_token: Cell<i64>,
    pub holdings: Holdings,
}

/// The counters before a command.
pub(super) struct Mark {
    fence: i64,
    dirty: bool,
    used_order: i64,
    tokens: usize,
}

impl Counters {
    pub fn read(connection: &Connection, tokens: DrawnTokens) -> Result<Self> {
        // The counters, when the database is opened.
        let sql = "SELECT fence, clock, used_order FROM meta";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (fence, clock, used_order): (i64, i64, i64) = connection.query_row(sql, [], row)?;
        Ok(Counters {
            fence,
            tokens,
            clock: Timestamp::from_microsecond(clock).unwrap_or(Timestamp::UNIX_EPOCH),
            dirty: Cell::new(false),
            order: used_order,
            used_order: Cell::new(used_order),
            written_token: Cell::new(0),
            holdings: Holdings::read(connection)?,
        })
    }

    /// A group of commands begins.
    pub fn begin(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
        self.order = us(self.clock).max(self.used_order.get()) + 1;
        self.tokens.begin();
    }

    /// The order of rows that are written by this group.
    pub fn use_order(&self) -> i64 {
        self.used_order.set(self.order);
        self.dirty.set(true);
        self.order
    }

    pub fn mark(&self) -> Mark {
        Mark {
            fence: self.fence,
            dirty: self.dirty.get(),
            used_order: self.used_order.get(),
            tokens: self.tokens.count(),
        }
    }

    /// A command was rolled back: no caller has seen a number of it. Tokens are not drawn again.
    pub fn return_to(&mut self, mark: Mark) {
        self.fence = mark.fence;
        self.dirty.set(mark.dirty);
        self.used_order.set(mark.used_order);
        self.tokens.forget_after(mark.tokens);
    }

    /// A group was rolled back, or its commit failed and may have happened nevertheless.
    pub fn reread(&mut self, connection: &Connection) -> Result<()> {
        let sql = "SELECT fence, used_order FROM meta";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (fence, used_order) = connection.query_row(sql, [], row)?;
        self.fence = fence;
        self.used_order.set(used_order);
        self.dirty.set(false);
        self.recount(connection)
    }

    /// A command was rolled back: claims are read again.
    pub fn recount(&mut self, connection: &Connection) -> Result<()> {
        self.holdings = Holdings::read(connection)?;
        Ok(())
    }

    /// The latest token that was written.
    pub fn written_token(&self) -> i64 {
        self.written_token.get()
    }

    /// Writes the counters, once in a group of commands that moved them.
    pub fn write(&self, connection: &Connection) -> Result<()> {
        if self.dirty.replace(false) {
            self.written_token.set(self.tokens.latest());
            let sql = "UPDATE meta SET fence = ?1, clock = ?2, token = ?3, used_order = ?4";
            let values =
                (self.fence, us(self.clock), self.written_token.get(), self.used_order.get());
            connection.prepare_cached(sql)?.execute(values)?;
        }
        Ok(())
    }
}
