//! Requirements on a store under test: a fresh database for each test, and more than one handle to
//! it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use store::FullStore;
use store::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use crate::replay::Log;

/// A database of its own for one test.
///
/// A store may keep its own time, so tests do not turn a clock: leases run out because they are
/// negative, and runs are due because their time lies in the past of [`Store::now`]. Only where
/// time itself must pass, [`Bench::reach`] waits for it.
pub trait Bench: Sized + Send + Sync + 'static {
    /// The store.
    type S: FullStore;

    /// Makes a fresh database.
    async fn open() -> Self;

    /// The store as another process of the cluster would have it; the same one where a database
    /// belongs to one process.
    async fn handle(&self) -> Arc<Self::S>;

    /// Waits until the store's clock shows a time in the very near future, or sets it.
    async fn reach(&self, at: Timestamp);

    /// Throws the database away.
    async fn close(self);
}

/// A clock that tests set.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A moment in January 2027.
    pub fn new() -> Self {
        ManualClock(Arc::new(AtomicI64::new(1_800_000_000_000_000)))
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.as_microsecond(), Ordering::SeqCst);
    }

    /// The clock as the store wants it.
    pub fn reader(&self) -> Arc<dyn store::sqlite::Clock> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// A SQLite file in a folder of its own.
pub struct SqliteBench {
    folder: TempDir,
    store: Arc<SqliteStore>,
    /// The clock that the store reads.
    pub clock: ManualClock,
    /// Everything that was written since the file was opened.
    log: Log,
}

impl SqliteBench {
    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("punctual.db")
    }

    /// Closes the store and opens the file again.
    pub fn reopen(self) -> Self {
        let clock = self.clock.clone();
        Self::open_in(self.shut(), clock)
    }

    /// Closes the store; the file lives as long as the folder.
    pub fn shut(self) -> TempDir {
        assert_eq!(Arc::strong_count(&self.store), 1, "somebody still uses the store");
        self.folder
    }

    fn open_in(folder: TempDir, clock: ManualClock) -> Self {
        let path = folder.path().join("punctual.db");
        let (log, options) = (Log::default(), SqliteOptions { durable: true });
        let recorder = Some(log.recorder());
        let store = SqliteStore::open_recorded(&path, clock.reader(), options, recorder).unwrap();
        SqliteBench { folder, store: Arc::new(store), clock, log }
    }
}

impl Bench for SqliteBench {
    type S = SqliteStore;

    async fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), ManualClock::new())
    }

    async fn handle(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
    }

    async fn reach(&self, at: Timestamp) {
        self.clock.set(at);
    }

    /// Every promise is a test of the log too.
    async fn close(self) {
        self.log.assert_makes(&self.path());
    }
}
