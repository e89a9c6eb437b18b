//! SQLite files in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};
use store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::Bed;
use crate::floor;
use crate::measurement::Measurement;
use crate::present::now;

pub struct SqliteBed {
    folder: TempDir,
    /// How many databases there were.
    count: AtomicU32,
}

impl SqliteBed {
    pub fn new() -> Result<Self> {
        Ok(SqliteBed { folder: tempfile::tempdir()?, count: AtomicU32::new(0) })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.db", self.count.load(Ordering::Relaxed)))
    }

    fn reader(&self) -> Result<Connection> {
        Ok(Connection::open_with_flags(self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?)
    }
}

/// The store in a file.
pub fn open(path: &Path) -> Result<Arc<SqliteStore>> {
    Ok(Arc::new(SqliteStore::open(path, Arc::new(now))?))
}

impl Bed for SqliteBed {
    type Store = SqliteStore;

    async fn fresh(&self) -> Result<Arc<SqliteStore>> {
        for suffix in ["", "-wal", "-shm"] {
            let mut old = self.path().into_os_string();
            old.push(suffix);
            // The first time there is none.
            let _ = std::fs::remove_file(old);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        open(&self.path())
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    async fn tidy(&self) -> Result<()> {
        self.settle().await
    }

    async fn ended(&self) -> Result<u64> {
        let count: i64 =
            self.reader()?.query_row("SELECT count(*) FROM ends", [], |row| row.get(0))?;
        Ok(count as u64)
    }

    async fn live(&self) -> Result<u64> {
        let count: i64 =
            self.reader()?.query_row("SELECT count(*) FROM live", [], |row| row.get(0))?;
        Ok(count as u64)
    }

    async fn write_history(&self, rows: u64) -> Result<()> {
        let connection = Connection::open(self.path())?;
        connection.execute_batch("PRAGMA cache_size = -262144; BEGIN IMMEDIATE")?;
        // Ids of the past weeks, in the shape and the order of real ones, of a thousand jobs.
        // The open store numbers its runs from one on, so these are numbered below.
        let first = now().as_millisecond() - 20 * 86_400_000;
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
             INSERT INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard,
                 due_at, order_at, lane, origin, coalesced, ignore_dependencies, attempts,
                 lost, turn, wait, created_at)
             SELECT i - ?1, unhex(printf('%012x7%03x80%014x', ?2 + i, i % 4096, i)),
                 unhex(printf('%032x', 1000 + i % 1000)), unhex(printf('%032x', 1)), 1,
                 (?2 + i) * 1000, '', (?2 + i) * 1000, (?2 + i) * 1000, 0, 1, 0, 0, 0, 0, 0, 0,
                 (?2 + i) * 1000
             FROM n",
            (rows as i64, first),
        )?;
        connection.execute(
            "INSERT INTO ends (seq, outcome, dead_letter, attempts, lost, finished_at, number,
                 attempt_end, node_id, fence, started_at)
             SELECT seq, 1, 0, 1, 0, due_at + 500, 1, 'COMPLETED', zeroblob(16), seq, due_at + 100
             FROM runs",
            [],
        )?;
        connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(())
    }

    fn address(&self) -> String {
        self.path().display().to_string()
    }

    fn server(&self) -> Option<u32> {
        None
    }

    async fn floor(&self, runs: u32) -> Result<Vec<Measurement>> {
        floor::sqlite::measure(self.folder.path(), runs)
    }
}
