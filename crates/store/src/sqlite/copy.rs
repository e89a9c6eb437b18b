//! A copy of a database while others work on it, and the steps that make a store of a copy.
//!
//! The copy is made by a reader that holds one snapshot from the first page to the last. In WAL
//! mode that blocks no writer: the writer goes on, and only the end of its log waits for the
//! reader. SQLite would begin anew whenever another connection wrote between two steps; holding the
//! snapshot prevents that.

use std::fs::File;
use std::path::Path;

use domain::artifact::ArchiveFacts;
use jiff::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::holdings::Holdings;
use super::{SqliteOptions, lock, schema};
use crate::{Result, StoreError};

/// Pages of one step: about a megabyte, so that a request to stop the copy is seen soon.
const STEP_PAGES: i32 = 256;

/// The bits of a fence below its epoch.
///
/// An epoch is a second: that of the restore, counted from [`EPOCH_ZERO`]. Fences that were
/// allocated after the backup was made are not in it, yet no new one may repeat them, so a restore
/// cannot count on from its own data. It can use the time: as long as a store allocates fewer than
/// four million numbers a second, none has reached the epoch of a future second. All of it stays
/// below 2^53 until 2094, the limit of integers in JavaScript.
const EPOCH_SHIFT: u32 = 22;

/// The second 0 of epochs: the first of 2026.
const EPOCH_ZERO: i64 = 1_767_225_600;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Pages that are copied.
    pub done: u64,
    /// Pages in all.
    pub total: u64,
}

/// Contents of a restored database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revived {
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Runs that nodes held when the copy was made: they are lost, and attempted again by the
    /// policies of their jobs.
    pub running: u64,
    /// The counter of fences before.
    pub fence_before: i64,
    /// The counter of fences now.
    pub fence: i64,
}

/// Every version of an artifact in a database that is not deleted, of all tenants: name, version and
/// archive, by name. Blocks.
pub fn artifacts_in(path: &Path) -> Result<Vec<(String, u32, ArchiveFacts)>> {
    let connection = Connection::open(path)?;
    let sql = "SELECT name, version, digest, bytes, unpacked_bytes, entries FROM artifacts
               WHERE deleted_at IS NULL ORDER BY name, version";
    let mut query = connection.prepare(sql)?;
    let mut rows = query.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let digest: String = row.get(2)?;
        let unreadable = |_| StoreError::Unreadable("digest of an artifact".to_owned());
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let archive = ArchiveFacts {
            digest: digest.parse().map_err(unreadable)?,
            bytes: number(3)?,
            unpacked_bytes: number(4)?,
            entries: number(5)?,
        };
        found.push((row.get(0)?, row.get(1)?, archive));
    }
    Ok(found)
}

/// Copies a database as it is now into a file that does not exist, and waits for the disk. Blocks.
///
/// `go_on` is called after each step; when it returns false, the copy is given up. Returns whether
/// it is complete. The caller deletes the file when it is not.
pub fn copy(from: &Path, to: &Path, mut go_on: impl FnMut(CopyProgress) -> bool) -> Result<bool> {
    let source = schema::open_reader(from)?;
    // The snapshot begins with the first row that is read, not with BEGIN.
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut target = Connection::open(to)?;
    // No process opens the file before it is complete, so it needs neither a journal nor a wait per
    // page.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let backup = Backup::new(&source, &mut target)?;
    loop {
        let step = backup.step(STEP_PAGES)?;
        let progress = backup.progress();
        let total = u64::try_from(progress.pagecount).unwrap_or(0);
        let left = u64::try_from(progress.remaining).unwrap_or(0);
        let go_on = go_on(CopyProgress { done: total.saturating_sub(left), total });
        match step {
            StepResult::Done => break,
            StepResult::More if !go_on => return Ok(false),
            StepResult::More => {}
            _ => {
                let text = format!("{} is locked by another process", from.display());
                return Err(StoreError::Unavailable(text));
            }
        }
    }
    drop(backup);
    target.close().map_err(|(_, error)| error)?;
    let synced = File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| StoreError::Unavailable(format!("{}: {error}", to.display())))?;
    Ok(true)
}

/// The schema version of a database that is not a store of a running process.
pub fn schema_version(path: &Path) -> Result<i64> {
    let connection = schema::open_reader(path)?;
    Ok(schema::version(&connection).unwrap_or(0))
}

/// The newest schema version that this release knows.
pub fn newest_schema_version() -> i64 {
    schema::newest()
}

/// A restore, as the audit records it.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// When it is made.
    pub at: Timestamp,
    /// Actor of the restore. It runs without a server, so this is no user of Punctual.
    pub by: &'a str,
    /// Which backup it is made from, as JSON.
    pub details: &'a str,
}

/// Makes a copied database one that a server may open: checks it, migrates its tables to this
/// release, declares its nodes dead and moves fences to a new epoch. Runs that were under way when
/// the copy was made cannot report any more. Blocks.
pub fn revive(path: &Path, restore: Restore<'_>) -> Result<Revived> {
    let now = restore.at;
    let _lock = lock::lock(path)?;
    let mut connection = schema::open(path, SqliteOptions { durable: true })?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(StoreError::Unreadable(verdict));
    }
    schema::migrate(&mut connection)?;
    let tx = connection.transaction()?;
    let fence = |tx: &Connection| tx.query_row(sql!("meta_read"), [], |row| row.get(0));
    let fence_before = fence(&tx)?;
    let mut running = 0;
    let holdings = Holdings::read(&tx)?;
    {
        // Every node of a database that was restored: none of them works on this copy.
        let sql = "UPDATE nodes SET dead = 1 RETURNING id";
        let mut expire = tx.prepare(sql)?;
        let mut nodes = expire.query([])?;
        while let Some(row) = nodes.next()? {
            running += holdings.of_node(domain::id::NodeId(row.get(0)?)).len() as u64;
        }
    }
    let epoch = (now.as_second() - EPOCH_ZERO).max(0) << EPOCH_SHIFT;
    // Fences after a restore are larger than all that were ever given, also by the database that
    // the copy was made of.
    let sql = "UPDATE meta SET fence = max(?1, ((fence >> ?2) + 1) << ?2)";
    tx.execute(sql, (epoch, EPOCH_SHIFT))?;
    // Epochs after a restore are larger than all that were ever begun, also by the database that
    // the copy was made of.
    let sql = "UPDATE roles SET epoch = max(?1, epoch + 1), node_id = NULL";
    tx.execute(sql, ((now.as_second() - EPOCH_ZERO).max(0),))?;
    let restored = (now.as_microsecond(), restore.by, restore.details);
    // The store was restored from a backup, by a user of the operating system.
    let sql = "INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
               VALUES (zeroblob(16), ?1, ?2, 'BACKUP', 'RESTORED', ?3, x'')";
    tx.execute(sql, restored)?;
    let revived = Revived {
        jobs: tx.query_row(sql!("count_jobs"), [], |row| row.get(0)).map(i64::cast_unsigned)?,
        running,
        fence_before,
        fence: fence(&tx)?,
    };
    tx.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(revived)
}
