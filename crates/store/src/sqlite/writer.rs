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

use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, oneshot};

use super::command::{Command, Group, Reply};
use super::counters::Counters;
use super::holdings::Holdings;
use super::row::us;
use super::{Clock, SqliteOptions, schema};
use crate::{Result, StoreError};

/// Commands that share a commit at most.
const GROUP_MAX: usize = 512;

/// With so many changed rows, a group is large enough: a caller that waits for its answer could go
/// on meanwhile.
const GROUP_ROWS: u64 = 1_000;

/// Receives the groups of commands, in the order of their commits.
pub type GroupRecorder = Box<dyn FnMut(Group) + Send>;

/// The caller's side.
pub(super) struct Writer {
    /// None when the store is closed.
    queue: Option<Sender<Call>>,
    thread: Option<JoinHandle<()>>,
    /// Read-locked while a node looks whether a tick may start.
    starts: Arc<RwLock<()>>,
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
        self.counters.dirty.set(true);
        self.counters.fence
    }

    /// The latest number that was allocated. A claim with a smaller or equal number was made before
    /// this moment.
    pub fn latest_number(&self) -> i64 {
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

    /// The order of the rows that this group of commands writes.
    pub fn order(&self) -> i64 {
        self.counters.use_order()
    }

    /// The latest order that a row can have.
    pub fn latest_order(&self) -> i64 {
        self.counters.order
    }

    /// The time as it is stored.
    pub fn now_us(&self) -> i64 {
        us(self.now)
    }
}

/// Parameters of the thread.
pub(super) struct Setup {
    pub path: PathBuf,
    pub options: SqliteOptions,
    pub connection: Connection,
    pub clock: Arc<dyn Clock>,
    pub counters: Counters,
    pub recorder: Option<GroupRecorder>,
}

impl Writer {
    pub(super) fn start(setup: Setup, starts: Arc<RwLock<()>>) -> Result<Self> {
        let (queue, waiting) = channel();
        let thread = std::thread::Builder::new()
            .name("punctual-store".into())
            .spawn(move || serve(setup, &waiting))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), starts })
    }

    /// Applies a command and waits until it is on disk.
    pub(super) async fn send(&self, command: Command) -> Result<Reply> {
        // Released after the commit, even if no caller waits for the reply.
        let lock = match command.excludes_starts() {
            true => Some(Arc::clone(&self.starts).write_owned().await),
            false => None,
        };
        let (reply, answer) = oneshot::channel();
        let call = Call { command, outcome: None, reply, _lock: lock };
        let gone = || StoreError::Unavailable("the writer has stopped".into());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(call).map_err(|_| gone())?;
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

/// A command whose caller waits.
struct Call {
    command: Command,
    outcome: Option<Result<Reply>>,
    reply: oneshot::Sender<Result<Reply>>,
    _lock: Option<OwnedRwLockWriteGuard<()>>,
}

impl Call {
    fn answer(self, failure: Option<&StoreError>) {
        let answer = match (failure, self.outcome) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(StoreError::Unavailable("the command was not applied".into())),
        };
        // The caller may have gone away.
        let _ = self.reply.send(answer);
    }
}

fn serve(setup: Setup, waiting: &Receiver<Call>) {
    let Setup { path, options, mut connection, clock, mut counters, mut recorder } = setup;
    let mut broken = false;
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        while !group.is_empty() {
            let applied = reopen_if(broken, &path, options, &mut connection, &mut counters)
                .and_then(|()| {
                    counters.begin(clock.now());
                    apply_calls(&connection, &mut counters, &mut group)
                });
            let failure = applied.as_ref().err().cloned();
            match &failure {
                Some(failure) if !broken => tracing::error!(%failure, "the store cannot write"),
                None if broken => tracing::info!("the store can write again"),
                _ => {}
            }
            broken = failure.is_some();
            let applied = applied.unwrap_or(group.len());
            if let (Some(recorder), None) = (&mut recorder, &failure) {
                recorder(recorded(&counters, &group[..applied]));
            }
            for call in group.drain(..applied) {
                call.answer(failure.as_ref());
            }
        }
    }
}

/// The group that was just committed.
fn recorded(counters: &Counters, calls: &[Call]) -> Group {
    let is_kept = |outcome: &Result<Reply>| outcome.as_ref().is_ok_and(|it| !it.is_refusal());
    let kept = calls.iter().filter(|call| call.outcome.as_ref().is_some_and(is_kept));
    Group {
        now: counters.clock,
        tokens: counters.tokens.drawn(),
        latest_token: counters.written_token(),
        commands: kept.map(|call| call.command.clone()).collect(),
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
        counters.reread(&fresh)?;
        *connection = fresh;
    }
    Ok(())
}

/// Applies the first calls, and commits. Returns how many.
fn apply_calls(
    connection: &Connection,
    counters: &mut Counters,
    calls: &mut [Call],
) -> Result<usize> {
    let mut transaction = OpenGroup::begin(connection, counters)?;
    let mut applied = 0;
    for call in calls {
        call.outcome = Some(transaction.apply(counters, &call.command)?);
        applied += 1;
        if transaction.is_large() {
            break;
        }
    }
    transaction.commit(counters)?;
    Ok(applied)
}

/// The transaction of a group of commands.
pub(super) struct OpenGroup<'a> {
    connection: &'a Connection,
    /// Changed rows of this connection before it.
    before: u64,
    /// Whether a command was applied that must be kept.
    has_written: bool,
}

impl<'a> OpenGroup<'a> {
    pub fn begin(connection: &'a Connection, counters: &mut Counters) -> Result<Self> {
        // A failed commit may have left its transaction open.
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
            counters.reread(connection)?;
        }
        let before = connection.total_changes();
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(OpenGroup { connection, before, has_written: false })
    }

    /// Applies a command. One that fails, or whose reply is a refusal, is rolled back, and leaves
    /// nothing in memory either.
    pub fn apply(&mut self, counters: &mut Counters, command: &Command) -> Result<Result<Reply>> {
        let connection = self.connection;
        let go = |sql| connection.prepare_cached(sql)?.execute([]);
        // The first command of a group needs no savepoint: nothing before it must be kept.
        let guard = self.has_written;
        if guard {
            go("SAVEPOINT command")?;
        }
        let before = counters.mark();
        let outcome =
            command.apply(&mut Tx { connection, now: counters.clock, counters: &mut *counters });
        if outcome.as_ref().is_ok_and(|reply| !reply.is_refusal()) {
            counters.holdings.write(connection)?;
            self.has_written = true;
        } else {
            go(if guard { "ROLLBACK TO command" } else { "ROLLBACK" })?;
            if !guard {
                go("BEGIN IMMEDIATE")?;
            }
            counters.return_to(before);
            counters.recount(connection)?;
        }
        if guard {
            go("RELEASE command")?;
        }
        Ok(outcome)
    }

    /// Whether the commands have changed so much that callers should not wait for more of them.
    pub fn is_large(&self) -> bool {
        self.connection.total_changes() - self.before >= GROUP_ROWS
    }

    pub fn commit(self, counters: &mut Counters) -> Result<()> {
        counters.write(self.connection)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{DrawnTokens, Tokens};
    use super::*;
    use crate::records::{Param, Statement, Transaction};

    /// A command that writes its number into so many rows, and fails afterwards or not.
    fn call(number: u32, rows: u64, fails: bool) -> Call {
        let insert = |_| Statement::new("INSERT INTO t VALUES ($1)", vec![Param::from(number)]);
        let mut transaction = Transaction::from((0..rows).map(insert).collect::<Vec<_>>());
        if fails {
            transaction.push(Statement::new("INSERT INTO absent VALUES (1)", Vec::new()));
        }
        let command = Command::Commit { transaction };
        Call { command, outcome: None, reply: oneshot::channel().0, _lock: None }
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
            let tokens = DrawnTokens::from(tokens);
            let mut counters = Counters::read(&connection, tokens).unwrap();
            let calls = (0..).zip(&commands);
            let mut calls: Vec<_> =
                calls.map(|(n, (rows, fails))| call(n, *rows, *fails)).collect();
            counters.begin(Timestamp::UNIX_EPOCH);
            let count = apply_calls(&connection, &mut counters, &mut calls).unwrap();
            assert_eq!(count, applied, "{name}");
            assert!(connection.is_autocommit(), "{name}: it is committed");
            let mut query = connection.prepare("SELECT DISTINCT n FROM t ORDER BY n").unwrap();
            let found: Vec<u32> = query
                .query_map([], |row| row.get(0))
                .unwrap()
                .map(std::result::Result::unwrap)
                .collect();
            assert_eq!(found, written, "{name}");
            let recorded = recorded(&counters, &calls[..count]).commands.len();
            assert_eq!(recorded, written.len(), "{name}: only what was kept is recorded");
        }
    }
}
