//! Portable statements in SQLite: a transaction is one command of the writer.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql};

use super::SqliteStore;
use super::row::us;
use super::writer::Tx;
use crate::Result;
use crate::records::{Cell, Param, RecordAnswer, Records, Row, Statement, Transaction};

impl Records for SqliteStore {
    async fn commit(&self, transaction: Transaction) -> Result<Option<Vec<RecordAnswer>>> {
        if transaction.statements().is_empty() {
            return Ok(Some(Vec::new()));
        }
        self.writer.commit(transaction).await
    }

    async fn query_each(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let now = us(self.clock.now());
        self.read(move |connection| {
            let rows = |statement: &Statement| Ok(run(connection, statement, now)?.rows);
            statements.iter().map(rows).collect()
        })
        .await
    }
}

/// Applies statements in the open transaction. None, and nothing is written, if one of them did not
/// have its expected result.
pub(super) fn apply(tx: &Tx<'_>, statements: &[Statement]) -> Result<Option<Vec<RecordAnswer>>> {
    let go = |sql| tx.connection.prepare_cached(sql)?.execute([]);
    let guards = statements.iter().any(|statement| statement.expected().is_some());
    if guards {
        go("SAVEPOINT record")?;
    }
    let mut answers = Vec::with_capacity(statements.len());
    for statement in statements {
        let answer = run(tx.connection, statement, tx.now_us());
        match (answer, statement.expected()) {
            (Ok(answer), None) => answers.push(answer),
            (Ok(answer), Some(expected)) if answer.affected == expected => answers.push(answer),
            (Err(error), expected) if expected.is_none() || !is_unique_violation(&error) => {
                return Err(error.into());
            }
            _ => {
                if guards {
                    go("ROLLBACK TO record")?;
                    go("RELEASE record")?;
                }
                return Ok(None);
            }
        }
    }
    if guards {
        go("RELEASE record")?;
    }
    Ok(Some(answers))
}

/// Applies one statement that has no expectations in the open transaction.
pub(super) fn execute(tx: &Tx<'_>, statement: &Statement) -> Result<()> {
    run(tx.connection, statement, tx.now_us())?;
    Ok(())
}

fn run(connection: &Connection, statement: &Statement, now: i64) -> rusqlite::Result<RecordAnswer> {
    let (sql, has_now) = statement.for_sqlite();
    let mut prepared = connection.prepare_cached(&sql)?;
    let params = statement.params();
    for (number, param) in (1..).zip(params) {
        prepared.raw_bind_parameter(number, param)?;
    }
    if has_now {
        prepared.raw_bind_parameter(params.len() + 1, now)?;
    }
    let columns = prepared.column_count();
    if columns == 0 {
        let affected = prepared.raw_execute()? as u64;
        return Ok(RecordAnswer { rows: Vec::new(), affected });
    }
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let cells = (0..columns).map(|column| Ok(cell(row.get_ref(column)?)));
        rows.push(Row::new(cells.collect::<rusqlite::Result<_>>()?));
    }
    let affected = rows.len() as u64;
    Ok(RecordAnswer { rows, affected })
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Integer(number) => Cell::Int(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        // No column holds a number with a fraction: the tables are strict.
        ValueRef::Null | ValueRef::Real(_) => Cell::Null,
    }
}

impl ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Param::Int(Some(number)) => ToSqlOutput::Owned(Value::Integer(*number)),
            Param::Bool(Some(value)) => ToSqlOutput::Owned(Value::Integer((*value).into())),
            Param::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Param::Bytes(Some(bytes)) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Param::Uuid(Some(id)) => ToSqlOutput::Borrowed(ValueRef::Blob(id.as_bytes())),
            _ => ToSqlOutput::Owned(Value::Null),
        };
        Ok(value)
    }
}

fn is_unique_violation(error: &rusqlite::Error) -> bool {
    let Some(code) = error.sqlite_error() else { return false };
    let unique =
        [rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE, rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY];
    code.code == ErrorCode::ConstraintViolation && unique.contains(&code.extended_code)
}
