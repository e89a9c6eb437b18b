//! The tables of the embedded store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use store::StoreError;
use store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::{compare, databases, furnish, goes_on, golden, histories, refused, upgraded};
use crate::bench::{Bench, ManualClock, SqliteBench};
use crate::lab::Lab;

/// Every table and index, by name.
fn dump(file: &Path) -> String {
    let connection = Connection::open(file).unwrap();
    let mut query = connection
        .prepare(
            "SELECT sql FROM sqlite_master
             WHERE sql IS NOT NULL AND name NOT LIKE 'refinery%' ORDER BY tbl_name, type DESC, name",
        )
        .unwrap();
    let parts = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let parts: Vec<String> = parts.map(|part| part.unwrap() + ";\n").collect();
    parts.join("\n")
}

/// The tables and their rows, as statements.
fn dump_with_rows(file: &Path) -> String {
    let connection = Connection::open(file).unwrap();
    let list = |query: &str| -> Vec<String> {
        let mut query = connection.prepare(query).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let mut dump =
        list("SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid");
    for table in list("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid") {
        let columns = list(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let values = columns.iter().map(|column| format!("quote({column})")).collect::<Vec<_>>();
        let values = values.join(" || ', ' || ");
        dump.extend(list(&format!(
            "SELECT 'INSERT INTO {table} VALUES (' || {values} || ');' FROM {table}"
        )));
    }
    dump.join("\n") + "\n"
}

#[tokio::test]
async fn migrations_make_the_golden_schema() {
    let bench = SqliteBench::open().await;
    compare(&dump(&bench.path()), "sqlite.sql");
}

/// A database with a little of everything, as a script.
async fn furnished() -> String {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    furnish(&lab).await;
    dump_with_rows(&lab.bench.path())
}

/// A file that a script makes.
fn restored(script: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.db");
    Connection::open(&file).unwrap().execute_batch(script).unwrap();
    (folder, file)
}

/// Tables of every release, with rows in them, become those of this one and go on working.
#[tokio::test]
async fn an_old_database_with_data_becomes_a_new_one() {
    for (number, script) in databases("sqlite", furnished().await) {
        let (_folder, file) = restored(&script);
        let clock = ManualClock::new();
        let store = Arc::new(upgraded(SqliteStore::open(&file, clock.reader()), number));
        compare(&dump(&file), "sqlite.sql");
        goes_on(store).await;
    }
}

/// The comparison sees what an upgrade forgot.
#[tokio::test]
async fn an_upgrade_without_an_index_is_seen() {
    let index = "CREATE INDEX jobs_updated ON jobs (updated_at, id);\n";
    let script = furnished().await;
    assert!(script.contains(index), "{script}");
    let (_folder, file) = restored(&script.replace(index, ""));
    SqliteStore::open(&file, ManualClock::new().reader()).unwrap();
    assert_ne!(dump(&file), golden("sqlite.sql"));
}

/// Checksums that development versions recorded, in the order of their migrations.
const DEVELOPMENT: [&str; 12] = [
    "8561119941187026958",
    "2054907362045793413",
    "6428697293813571118",
    "7198267016060987981",
    "3069063680314206862",
    "7368461449916577912",
    "17381019431473044520",
    "18357554392613307412",
    "3269821675857850935",
    "1828418662725274573",
    "831897148184153625",
    "17411269084086285890",
];

#[tokio::test]
async fn a_database_of_a_development_version_is_refused_and_untouched() {
    for history in histories(&DEVELOPMENT) {
        let (_folder, file) = restored(&format!(
            "CREATE TABLE refinery_schema_history (version INT4 PRIMARY KEY, name VARCHAR(255),
                 applied_on VARCHAR(255), checksum VARCHAR(255));
             CREATE TABLE jobs (id BLOB NOT NULL UNIQUE) STRICT;
             INSERT INTO refinery_schema_history VALUES {history};"
        ));
        let before = dump_with_rows(&file);
        refused(SqliteStore::open(&file, ManualClock::new().reader()), "an empty data folder");
        assert_eq!(dump_with_rows(&file), before);
    }
}

#[tokio::test]
async fn a_database_of_a_newer_release_is_refused() {
    let bench = SqliteBench::open().await;
    let (file, clock) = (bench.path(), bench.clock.clone());
    let _folder = bench.shut();
    let connection = Connection::open(&file).unwrap();
    let newer = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
                 VALUES (99, 'from_the_future', '2099-01-01T00:00:00Z', '1')";
    connection.execute(newer, []).unwrap();
    match SqliteStore::open(&file, clock.reader()).err() {
        Some(StoreError::TooNew { found: 99, known }) => assert!(known < 99),
        other => panic!("{other:?}"),
    }
}
