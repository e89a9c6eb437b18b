//! Many rows by one statement. Its cursors stay at the last row, so that rows which come in the
//! order of a tree are put next to each other without a search from the root, and the fixed cost of
//! a statement is paid once for all of them.

use rusqlite::{CachedStatement, Connection, ToSql};

use crate::Result;

/// Rows of one statement.
const ROWS: usize = 25;

/// Inserts rows; the statement is that of one row, with a `?` for each value. Returns how many
/// were written.
pub(super) fn insert<T>(
    connection: &Connection,
    sql: &str,
    rows: &[T],
    bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
) -> Result<usize> {
    insert_alike(connection, sql, |_| Ok(()), rows, bind)
}

/// Inserts rows that have the first values in common. The statement is that of one row, with
/// `?1`, `?2` and so on for those, and a `?` for each of the others.
pub(super) fn insert_alike<T>(
    connection: &Connection,
    sql: &str,
    bind_common: impl Fn(&mut Values<'_, '_>) -> rusqlite::Result<()>,
    rows: &[T],
    bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
) -> Result<usize> {
    let (chunks, rest) = rows.as_chunks::<ROWS>();
    let mut written = 0;
    if !chunks.is_empty() {
        let mut statement = connection.prepare_cached(&repeated(sql))?;
        let mut values = Values { statement: &mut statement, count: 0 };
        bind_common(&mut values)?;
        let common = values.count;
        for chunk in chunks {
            let mut values = Values { statement: &mut statement, count: common };
            chunk.iter().try_for_each(|row| bind(row, &mut values))?;
            written += statement.raw_execute()?;
        }
    }
    if !rest.is_empty() {
        let mut statement = connection.prepare_cached(sql)?;
        let mut values = Values { statement: &mut statement, count: 0 };
        bind_common(&mut values)?;
        let common = values.count;
        for row in rest {
            bind(row, &mut Values { statement: &mut statement, count: common })?;
            written += statement.raw_execute()?;
        }
    }
    Ok(written)
}

/// The values of a statement, one after the other.
pub(super) struct Values<'a, 'c> {
    statement: &'a mut CachedStatement<'c>,
    count: usize,
}

impl Values<'_, '_> {
    pub fn push(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.count += 1;
        self.statement.raw_bind_parameter(self.count, value)
    }
}

/// The statement for several rows.
fn repeated(sql: &str) -> String {
    let sql = sql.trim_end();
    let row = sql.rsplit("VALUES ").next().unwrap_or_default();
    let mut repeated = sql.to_owned();
    for _ in 1..ROWS {
        repeated.push_str(", ");
        repeated.push_str(row);
    }
    repeated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_what_they_have_in_common() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a, b, c)").unwrap();
        let sql = "INSERT INTO t (a, b, c) VALUES (?1, ?2, ?)";
        for common in [7, 8] {
            let rows: Vec<usize> = (0..2 * ROWS + 3).collect();
            let both = |values: &mut Values<'_, '_>| {
                values.push(common)?;
                values.push("alike")
            };
            let bind = |row: &usize, values: &mut Values<'_, '_>| values.push(*row as u32);
            insert_alike(&connection, sql, both, &rows, bind).unwrap();
        }
        let found = "SELECT group_concat(DISTINCT a || b), count(*), sum(c) FROM t GROUP BY a";
        let mut query = connection.prepare(found).unwrap();
        let found = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let found: Vec<(String, u32, u32)> = found.unwrap().map(|row| row.unwrap()).collect();
        let count = 2 * ROWS as u32 + 3;
        let sum = count * (count - 1) / 2;
        assert_eq!(found, [("7alike".into(), count, sum), ("8alike".into(), count, sum)]);
    }

    #[test]
    fn every_row_is_written_whatever_their_number() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)").unwrap();
        let sql = "INSERT OR IGNORE INTO t (a, b) VALUES (?, ?)\n";
        let mut first = 0;
        for count in [0, 1, ROWS - 1, ROWS, ROWS + 1, 4 * ROWS + 3] {
            let rows: Vec<i64> = (first..first + count as i64).collect();
            let bind = |row: &i64, values: &mut Values<'_, '_>| {
                values.push(row)?;
                values.push(row * 2)
            };
            assert_eq!(insert(&connection, sql, &rows, bind).unwrap(), count);
            assert_eq!(insert(&connection, sql, &rows, bind).unwrap(), 0, "they are there");
            first += count as i64;
        }
        let wrong = "SELECT count(*), count(*) FILTER (WHERE b <> 2 * a) FROM t";
        let found = connection.query_row(wrong, [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(found.unwrap(), (first, 0));
    }
}
