//! The one thread that writes: what waits is applied together and shares a commit.
//!
//! ```text
//!   caller ─┐
//!   caller ─┼─▶ queue ──▶ BEGIN · savepoint, apply · savepoint, apply · … · COMMIT ──▶ answers
//!   caller ─┘                                                          (fsync)
//! ```
//!
//! An answer leaves only after the commit. A command that fails is rolled back to its savepoint
//! and its neighbours go on. When the commit itself fails (disk full, failed fsync), nobody gets
//! a yes, and the connection is opened anew: after a failed fsync, what the old one believes
//! about the file is worth nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use domain::id::TenantId;
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::row::us;
use super::{Clock, SqliteOptions, schema};
use crate::{Result, StoreError};

/// Commands that share a commit at most.
const GROUP_MAX: usize = 512;

/// The caller's side.
pub(super) struct Writer {
    queue: Sender<Box<dyn Command>>,
}

/// What a command sees: the open transaction, the time, and the counters.
pub(super) struct Tx<'a> {
    pub connection: &'a Connection,
    /// The time of the whole group; it never goes back.
    pub now: Timestamp,
    counters: &'a mut Counters,
}

/// Numbers that live in memory and are written with the commands that move them.
struct Counters {
    fence: i64,
    clock: Timestamp,
    dirty: bool,
    held: HashMap<TenantId, i64>,
}

impl Tx<'_> {
    /// A fence that is larger than all before it.
    pub fn next_fence(&mut self) -> i64 {
        self.counters.fence += 1;
        self.counters.dirty = true;
        self.counters.fence
    }

    /// How many runs of a tenant are held by nodes.
    pub fn held(&self, tenant: TenantId) -> i64 {
        self.counters.held.get(&tenant).copied().unwrap_or(0)
    }

    /// Runs of a tenant were taken or given back.
    pub fn move_held(&mut self, tenant: TenantId, by: i64) {
        *self.counters.held.entry(tenant).or_default() += by;
    }

    /// The time as it is stored.
    pub fn now_us(&self) -> i64 {
        us(self.now)
    }
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        options: SqliteOptions,
        connection: Connection,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (queue, waiting) = channel();
        let counters = Counters::read(&connection)?;
        std::thread::Builder::new()
            .name("punctual-store".into())
            .spawn(move || serve(&path, options, connection, clock.as_ref(), counters, &waiting))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Writer { queue })
    }

    /// Applies a command and waits until it is on disk.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        apply: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let call = Call { apply: Some(apply), outcome: None, reply };
        let gone = || StoreError::Unavailable("the writer has stopped".into());
        self.queue.send(Box::new(call)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

trait Command: Send {
    fn apply(&mut self, tx: &mut Tx<'_>) -> bool;
    fn answer(self: Box<Self>, failure: Option<&str>);
}

struct Call<T, F> {
    apply: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&mut Tx<'_>) -> Result<T> + Send> Command for Call<T, F> {
    fn apply(&mut self, tx: &mut Tx<'_>) -> bool {
        let outcome = match self.apply.take() {
            Some(apply) => apply(tx),
            None => Err(StoreError::Unavailable("the command was applied already".into())),
        };
        let done = outcome.is_ok();
        self.outcome = Some(outcome);
        done
    }

    fn answer(self: Box<Self>, failure: Option<&str>) {
        let answer = match (failure, self.outcome) {
            (Some(failure), _) => Err(StoreError::Unavailable(failure.to_owned())),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(StoreError::Unavailable("the command was not applied".into())),
        };
        // A caller that went away does not want to know.
        let _ = self.reply.send(answer);
    }
}

impl Counters {
    fn read(connection: &Connection) -> Result<Self> {
        let (fence, clock): (i64, i64) =
            connection.query_row(sql!("meta_read"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut held = HashMap::new();
        let mut query = connection.prepare(sql!("count_held"))?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            held.insert(TenantId(row.get(0)?), row.get(1)?);
        }
        let clock = Timestamp::from_microsecond(clock).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Counters { fence, clock, dirty: false, held })
    }
}

fn serve(
    path: &Path,
    options: SqliteOptions,
    mut connection: Connection,
    clock: &dyn Clock,
    mut counters: Counters,
    waiting: &Receiver<Box<dyn Command>>,
) {
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        let failure = apply_group(&connection, clock, &mut counters, &mut group)
            .err()
            .map(|error| error.to_string());
        for command in group {
            command.answer(failure.as_deref());
        }
        if let Some(failure) = failure {
            tracing::error!(%failure, "the store could not commit; opening the database again");
            match schema::open(path, options).and_then(|fresh| Ok((Counters::read(&fresh)?, fresh)))
            {
                Ok((fresh_counters, fresh)) => (counters, connection) = (fresh_counters, fresh),
                Err(error) => tracing::error!(%error, "the database cannot be opened"),
            }
        }
    }
}

fn apply_group(
    connection: &Connection,
    clock: &dyn Clock,
    counters: &mut Counters,
    group: &mut [Box<dyn Command>],
) -> Result<()> {
    // A failed commit may have left its transaction open.
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    counters.clock = counters.clock.max(clock.now());
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let alone = group.len() == 1;
    for command in group.iter_mut() {
        let mut tx = Tx { connection, now: counters.clock, counters: &mut *counters };
        if alone {
            if !command.apply(&mut tx) {
                connection.execute_batch("ROLLBACK")?;
                *counters = Counters::read(connection)?;
                return Ok(());
            }
            continue;
        }
        connection.prepare_cached("SAVEPOINT command")?.execute([])?;
        let done = command.apply(&mut tx);
        if !done {
            connection.prepare_cached("ROLLBACK TO command")?.execute([])?;
        }
        connection.prepare_cached("RELEASE command")?.execute([])?;
    }
    if counters.dirty {
        connection
            .prepare_cached(sql!("meta_write"))?
            .execute((counters.fence, us(counters.clock)))?;
        counters.dirty = false;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
