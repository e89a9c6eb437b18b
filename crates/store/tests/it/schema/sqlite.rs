//! The tables of the embedded store.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use store::StoreError;
use store::sqlite::SqliteStore;

use super::{compare, furnish, goes_on, is_update, newest_database, old_databases, upgraded};
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

/// The tables and what is in them, as statements.
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

/// Tables of every release, with rows in them, become those of this one and go on working.
#[tokio::test]
async fn an_old_database_with_data_becomes_a_new_one() {
    if is_update() {
        let bench = SqliteBench::open().await;
        let store = bench.door().await;
        let lab = Lab::new(bench, store);
        furnish(&lab).await;
        std::fs::write(newest_database("sqlite"), dump_with_rows(&lab.bench.path())).unwrap();
    }
    for old in old_databases("sqlite") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("punctual.db");
        let script = std::fs::read_to_string(&old).unwrap();
        Connection::open(&file).unwrap().execute_batch(&script).unwrap();
        let clock = ManualClock::new();
        let store = Arc::new(upgraded(SqliteStore::open(&file, clock.reader()), &old));
        compare(&dump(&file), "sqlite.sql");
        goes_on(store).await;
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
