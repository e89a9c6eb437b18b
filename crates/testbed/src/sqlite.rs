//! The rows of a SQLite file, to compare it with another one.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// All rows of all tables as text, sorted. Bookkeeping of migrations is left out: it has the time
/// of their application. So is the latest fencing token in `meta`: starts draw tokens in memory, and
/// opening the file moves the counter on.
pub fn rows(file: &Path) -> Vec<String> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let list = |query: &str| -> Vec<String> {
        let mut query = connection.prepare(query).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let tables = "SELECT name FROM sqlite_master
                  WHERE type = 'table' AND name NOT LIKE 'refinery%' ORDER BY name";
    let mut dump = Vec::new();
    for table in list(tables) {
        let mut columns = list(&format!("SELECT name FROM pragma_table_info('{table}')"));
        columns.retain(|column| (table.as_str(), column.as_str()) != ("meta", "token"));
        let value = |column: &String| format!("'{column} ' || quote(\"{column}\")");
        let values = columns.iter().map(value).collect::<Vec<_>>().join(" || ', ' || ");
        let mut rows = list(&format!("SELECT '{table}: ' || {values} FROM \"{table}\""));
        rows.sort_unstable();
        dump.extend(rows);
    }
    dump
}

/// Compares the rows of two files, and shows the first ones that differ.
///
/// # Panics
///
/// If they differ.
pub fn assert_same_rows(what: &str, found: &[String], expected: &[String]) {
    let absent = |of: &[String], than: &[String]| {
        let of: Vec<&String> = of.iter().filter(|row| !than.contains(row)).take(5).collect();
        format!("{of:#?}")
    };
    assert!(
        found == expected,
        "{what}: the tables differ; only there: {}\nonly in the original: {}",
        absent(found, expected),
        absent(expected, found)
    );
}
