//! Opening the file, and bringing its tables to this release's shape.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;
use crate::lineage::{self, Recorded};
use crate::{Result, StoreError};

mod embedded {
    use refinery::embed_migrations;
    embed_migrations!("migrations/sqlite");
}

/// The writer's connection.
pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA busy_timeout = 5000;",
    )?;
    if !options.durable {
        connection.execute_batch("PRAGMA synchronous = OFF;")?;
    }
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// A statement is planned once. Without this, SQLite looks at the values of some parameters while
/// it plans, and plans anew each time that another value is bound.
fn keep_plans(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -16384;")?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// The newest version that this release knows.
pub(super) fn newest() -> i64 {
    let runner = embedded::migrations::runner();
    let versions = runner.get_migrations().iter().map(|migration| i64::from(migration.version()));
    versions.max().unwrap_or(0)
}

/// The version of a database; none before its first migration.
pub(super) fn version(connection: &Connection) -> Option<i64> {
    let sql = "SELECT max(version) FROM refinery_schema_history";
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_default()
}

/// The migrations that a database recorded; none before the first.
fn recorded(connection: &Connection) -> Result<Vec<Recorded>> {
    if version(connection).is_none() {
        return Ok(Vec::new());
    }
    let mut query = connection.prepare(lineage::RECORDED)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Applies missing migrations. Refuses a file that a newer release has written, and one that was
/// made before the first release.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    let runner = embedded::migrations::runner();
    lineage::check(runner.get_migrations(), &recorded(connection)?, "an empty data folder")?;
    let (found, known) = (version(connection), newest());
    if let Some(found) = found.filter(|found| *found > known) {
        return Err(StoreError::TooNew { found, known });
    }
    // A migration may sort more than fits into memory.
    connection.execute_batch("PRAGMA temp_store = FILE;")?;
    runner
        .run(connection)
        .map_err(|error| StoreError::Unavailable(format!("migrating the database: {error}")))?;
    connection.execute_batch("PRAGMA temp_store = MEMORY;")?;
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..) => StoreError::Unreadable(error.to_string()),
            _ => StoreError::Unavailable(error.to_string()),
        }
    }
}
