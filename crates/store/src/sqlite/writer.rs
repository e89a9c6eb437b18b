//! The one thread that writes: waiting commands are applied together and share a commit.
//!
//! ```text
//!   caller ─┐
//!   caller ─┼─▶ queue ──▶ BEGIN · apply · savepoint, apply · … · COMMIT ──▶ answers
//!   caller ─┘                                               (fsync)
//! ```
//!
//! An answer leaves only after the commit. A command that fails is rolled back to its savepoint,
//! or to the beginning if nothing was written before it, and its neighbours go on. A command that
//! changes much is the last one of its commit: those behind it are no reason to keep its caller
//! waiting. When the commit itself fails (disk full, failed fsync), no caller gets a success, and
//! the connection is opened anew: after a failed fsync, the state of the old connection cannot be
//! trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use domain::id::JobId;
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::counters::Counters;
use super::holdings::Holdings;
use super::row::us;
use super::tokens::Tokens;
use super::{Clock, SqliteOptions, schema};
use crate::{Result, StoreError};

/// Commands that share a commit at most.
const GROUP_MAX: usize = 512;

/// With so many changed rows, a group is large enough: a caller that waits for its answer could go
/// on meanwhile.
const GROUP_ROWS: u64 = 1_000;

/// The caller's side.
pub(super) struct Writer {
    /// None when the store is closed.
    queue: Option<Sender<Box<dyn Command>>>,
    thread: Option<JoinHandle<()>>,
}

/// Context of a command: the open transaction, the time, and the counters.
pub(super) struct Tx<'a> {
    pub connection: &'a Connection,
    /// The time of the whole group; it never goes back.
    pub now: Timestamp,
    counters: &'a mut Counters,
}

impl Tx<'_> {
    /// A number for a claim or a run, larger than all before it.
    pub fn next_number(&mut self) -> i64 {
        self.counters.fence += 1;
        self.counters.dirty = true;
        self.counters.fence
    }

    /// The fencing token of a run that is due when it is claimed: if it guards nothing, it is
    /// decided with its claim.
    pub fn token_if_due(&self, due_at: Timestamp) -> i64 {
        if due_at <= self.now { self.counters.tokens.draw() } else { 0 }
    }

    /// Claims of all nodes.
    pub fn holdings(&mut self) -> &mut Holdings {
        &mut self.counters.holdings
    }

    /// A run of the job has ended or stepped aside.
    pub fn note_end(&mut self, job: JobId) {
        self.counters.ends.note(job, self.counters.fence);
    }

    /// Whether that may have happened after the claim with this fence was made.
    pub fn ended_since(&self, job: JobId, fence: i64) -> bool {
        self.counters.ends.since(job, fence)
    }

    /// The job was changed.
    pub fn note_change(&mut self, job: JobId) {
        self.counters.changes.note(job, self.counters.fence);
    }

    /// Whether that may have happened after the claim with this fence was made.
    pub fn changed_since(&self, job: JobId, fence: i64) -> bool {
        self.counters.changes.since(job, fence)
    }

    /// The order of the items of this group of commands.
    pub fn order(&self) -> i64 {
        self.counters.order
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
        tokens: Arc<Tokens>,
    ) -> Result<Self> {
        let (queue, waiting) = channel();
        let counters = Counters::read(&connection, tokens)?;
        let thread = std::thread::Builder::new()
            .name("punctual-store".into())
            .spawn(move || serve(&path, options, connection, clock.as_ref(), counters, &waiting))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread) })
    }

    /// Applies a command and waits until it is on disk.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        apply: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let call = Call { apply: Some(apply), outcome: None, reply };
        let gone = || StoreError::Unavailable("the writer has stopped".into());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Box::new(call)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    /// Waits for the last commit, so that the next process that opens the file finds it at rest.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Its result carries nothing: errors were answered and logged.
            let _ = thread.join();
        }
    }
}

trait Command: Send {
    fn apply(&mut self, tx: &mut Tx<'_>) -> bool;
    fn answer(self: Box<Self>, failure: Option<&StoreError>);
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

    fn answer(self: Box<Self>, failure: Option<&StoreError>) {
        let answer = match (failure, self.outcome) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(StoreError::Unavailable("the command was not applied".into())),
        };
        // The caller may have gone away.
        let _ = self.reply.send(answer);
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
    let mut broken = false;
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        while !group.is_empty() {
            let applied = reopen_if(broken, path, options, &mut connection, &mut counters)
                .and_then(|()| apply_group(&connection, clock, &mut counters, &mut group));
            let failure = applied.as_ref().err().cloned();
            match &failure {
                Some(failure) if !broken => tracing::error!(%failure, "the store cannot write"),
                None if broken => tracing::info!("the store can write again"),
                _ => {}
            }
            broken = failure.is_some();
            for command in group.drain(..applied.unwrap_or(group.len())) {
                command.answer(failure.as_ref());
            }
        }
    }
}

fn reopen_if(
    broken: bool,
    path: &Path,
    options: SqliteOptions,
    connection: &mut Connection,
    counters: &mut Counters,
) -> Result<()> {
    if broken {
        let fresh = schema::open(path, options)?;
        counters.recount(&fresh)?;
        *connection = fresh;
    }
    Ok(())
}

/// Applies the first commands of a group, and commits. Returns how many.
fn apply_group(
    connection: &Connection,
    clock: &dyn Clock,
    counters: &mut Counters,
    group: &mut [Box<dyn Command>],
) -> Result<usize> {
    // A failed commit may have left its transaction open.
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    counters.begin(clock.now());
    let before = connection.total_changes();
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let (mut applied, mut written) = (0, false);
    for command in group.iter_mut() {
        let mut tx = Tx { connection, now: counters.clock, counters: &mut *counters };
        // The first command of a group needs no savepoint: nothing before it must be kept.
        let guard = written;
        if guard {
            connection.prepare_cached("SAVEPOINT command")?.execute([])?;
        }
        if command.apply(&mut tx) {
            counters.holdings.write(connection)?;
            written = true;
        } else {
            let back = if guard { "ROLLBACK TO command" } else { "ROLLBACK" };
            connection.prepare_cached(back)?.execute([])?;
            if !guard {
                connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            }
            counters.recount(connection)?;
        }
        if guard {
            connection.prepare_cached("RELEASE command")?.execute([])?;
        }
        applied += 1;
        if connection.total_changes() - before >= GROUP_ROWS {
            break;
        }
    }
    if counters.dirty {
        // The counters, once in a group of commands that moved them.
        let sql = "UPDATE meta SET fence = ?1, clock = ?2, token = ?3";
        connection.prepare_cached(sql)?.execute((
            counters.fence,
            us(counters.clock),
            counters.tokens.latest(),
        ))?;
        counters.dirty = false;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that writes its number into so many rows, and fails afterwards or not.
    fn command(number: u32, rows: u64, fails: bool) -> Box<dyn Command> {
        let apply = move |tx: &mut Tx<'_>| {
            for _ in 0..rows {
                tx.connection.execute("INSERT INTO t VALUES (?1)", (number,))?;
            }
            if fails { Err(StoreError::Unreadable("on purpose".to_owned())) } else { Ok(()) }
        };
        Box::new(Call { apply: Some(apply), outcome: None, reply: oneshot::channel().0 })
    }

    #[test]
    fn what_fails_leaves_its_neighbours_and_what_is_large_ends_a_group() {
        let much = GROUP_ROWS;
        for (name, commands, applied, written) in [
            ("one", vec![(1, false)], 1, vec![0]),
            ("one that fails", vec![(1, true)], 1, vec![]),
            ("the first fails", vec![(1, true), (1, false), (1, false)], 3, vec![1, 2]),
            ("the second fails", vec![(1, false), (1, true), (1, false)], 3, vec![0, 2]),
            ("only the last does not", vec![(1, true), (1, true), (1, false)], 3, vec![2]),
            ("the last fails", vec![(1, false), (1, true)], 2, vec![0]),
            ("large", vec![(1, false), (much, false), (1, false)], 2, vec![0, 1]),
            ("large and fails", vec![(much, true), (1, false)], 1, vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let options = SqliteOptions { durable: false };
            let mut connection = schema::open(&folder.path().join("store.db"), options).unwrap();
            schema::migrate(&mut connection).unwrap();
            connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
            let tokens = Arc::new(Tokens::open(&connection, Timestamp::UNIX_EPOCH).unwrap());
            let mut counters = Counters::read(&connection, tokens).unwrap();
            let group = (0..).zip(&commands);
            let mut group: Vec<_> =
                group.map(|(n, (rows, fails))| command(n, *rows, *fails)).collect();
            let clock = || Timestamp::UNIX_EPOCH;
            let count = apply_group(&connection, &clock, &mut counters, &mut group).unwrap();
            assert_eq!(count, applied, "{name}");
            assert!(connection.is_autocommit(), "{name}: it is committed");
            let mut query = connection.prepare("SELECT DISTINCT n FROM t ORDER BY n").unwrap();
            let found: Vec<u32> = query
                .query_map([], |row| row.get(0))
                .unwrap()
                .map(std::result::Result::unwrap)
                .collect();
            assert_eq!(found, written, "{name}");
        }
    }
}
