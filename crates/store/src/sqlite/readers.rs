//! The threads that read beside the writer.
//!
//! ```text
//!   caller ─┐                ┌─▶ thread with a connection ──▶ answer
//!   caller ─┼─▶ queue, FIFO ─┤
//!   caller ─┘                └─▶ thread with a connection ──▶ answer
//! ```
//!
//! A pool has a fixed number of threads, and each keeps one read-only connection open with its
//! statements prepared: however many callers wait, no connection is opened and no SQL is parsed for
//! them. A thread opens its connection with the first query that it gets, and opens it again after
//! a query panicked.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::schema;
use crate::{Result, StoreError};

/// A query that waits for a thread. It gets a connection, or the reason why there is none.
type Query = Box<dyn FnOnce(Result<&Connection>) + Send>;

/// A fixed number of reader threads.
pub(super) struct Readers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    queries: VecDeque<Query>,
    /// Threads that have nothing to do.
    idle: usize,
    closed: bool,
}

impl Readers {
    /// Starts so many threads on a file.
    pub fn start(path: &Path, name: &str, threads: usize) -> Result<Self> {
        let mut readers = Readers { queue: Arc::default(), threads: Vec::with_capacity(threads) };
        for _ in 0..threads {
            let (queue, path) = (Arc::clone(&readers.queue), path.to_owned());
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(&queue, &path))
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Runs a query on one of the threads.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Box::new(move |connection| {
            // A caller that went away does not need the answer.
            let _ = reply.send(connection.and_then(query));
        }));
        let lost = |_| StoreError::Unavailable("the reader has stopped".into());
        answer.await.map_err(lost)?
    }
}

impl Drop for Readers {
    /// Waits for the queries under way, so that the next process to open the file finds it at rest.
    fn drop(&mut self) {
        self.queue.waiting().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, query: Query) {
        let mut waiting = self.waiting();
        waiting.queries.push_back(query);
        // A busy thread looks into the queue by itself.
        let wake = waiting.idle > 0;
        drop(waiting);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// The next query; none when the store is closed.
    fn pop(&self) -> Option<Query> {
        let mut waiting = self.waiting();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(query) = waiting.queries.pop_front() {
                return Some(query);
            }
            waiting.idle += 1;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

fn serve(queue: &Queue, path: &Path) {
    let mut open: Option<Connection> = None;
    while let Some(query) = queue.pop() {
        let connection = match open.take() {
            Some(connection) => connection,
            None => match schema::open_reader(path) {
                Ok(connection) => connection,
                Err(error) => {
                    query(Err(error));
                    continue;
                }
            },
        };
        if catch_unwind(AssertUnwindSafe(|| query(Ok(&connection)))).is_ok() {
            open = Some(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)").unwrap();
        (folder, path)
    }

    fn seven(connection: &Connection) -> Result<i64> {
        Ok(connection.prepare_cached("SELECT n FROM t")?.query_row([], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn a_query_that_panics_takes_only_its_own_answer_with_it() {
        let (_folder, path) = file();
        let readers = Readers::start(&path, "test", 1).unwrap();
        let panicked = readers.read(|_| -> Result<i64> { panic!("on purpose") }).await;
        assert!(matches!(panicked, Err(StoreError::Unavailable(_))), "{panicked:?}");
        assert_eq!(readers.read(seven).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_the_answer_and_is_tried_again() {
        let (_folder, path) = file();
        let elsewhere = path.with_extension("away");
        std::fs::rename(&path, &elsewhere).unwrap();
        let readers = Readers::start(&path, "test", 1).unwrap();
        assert!(readers.read(seven).await.is_err());
        std::fs::rename(&elsewhere, &path).unwrap();
        assert_eq!(readers.read(seven).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn queries_side_by_side_share_the_threads() {
        let (_folder, path) = file();
        let readers = Arc::new(Readers::start(&path, "test", 2).unwrap());
        let at_once = Arc::new(Mutex::new((0, 0)));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (readers, at_once) = (Arc::clone(&readers), Arc::clone(&at_once));
            callers.spawn(async move {
                let query = move |connection: &Connection| {
                    {
                        let mut count = at_once.lock().unwrap();
                        count.0 += 1;
                        count.1 = count.1.max(count.0);
                    }
                    let answer = seven(connection);
                    at_once.lock().unwrap().0 -= 1;
                    answer
                };
                assert_eq!(readers.read(query).await.unwrap(), 7);
            });
        }
        while let Some(done) = callers.join_next().await {
            done.unwrap();
        }
        drop(Arc::into_inner(readers).unwrap());
        let most = Arc::into_inner(at_once).unwrap().into_inner().unwrap().1;
        assert!((1..=2).contains(&most), "{most} at once");
    }
}
