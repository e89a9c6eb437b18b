//! Portable statements in PostgreSQL: a transaction is one pipeline.

use std::error::Error;

use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::PostgresStore;
use super::pipeline::{Pipeline, Value};
use super::row::text;
use crate::Result;
use crate::records::{Cell, Param, RecordAnswer, Records, Row, Statement, Transaction};

impl Records for PostgresStore {
    async fn commit(&self, transaction: Transaction) -> Result<Option<Vec<RecordAnswer>>> {
        if transaction.statements().is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut pipeline = Pipeline::default();
        for statement in transaction.statements() {
            pipeline.push_statement(statement);
        }
        let Some(answers) = pipeline.commit_expecting(&self.shared.pool).await? else {
            return Ok(None);
        };
        let answers = answers.into_iter().map(|answer| {
            Ok(RecordAnswer { rows: rows(&answer.rows)?, affected: answer.affected })
        });
        answers.collect::<Result<_>>().map(Some)
    }

    async fn query_each(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::default();
        for statement in &statements {
            pipeline.push_statement(statement);
        }
        let answers = pipeline.read(&self.shared.pool).await?;
        answers.iter().map(|answer| rows(answer)).collect()
    }
}

fn rows(found: &[tokio_postgres::Row]) -> Result<Vec<Row>> {
    let row = |row: &tokio_postgres::Row| {
        let cells = (0..row.len()).map(|column| Ok(row.try_get(column)?));
        Ok(Row::new(cells.collect::<Result<_>>()?))
    };
    found.iter().map(row).collect()
}

/// A parameter, and the type that its statement is prepared with.
pub(super) fn bind(param: &Param) -> (Type, Value<'_>) {
    match param {
        Param::Int(value) => (Type::INT8, Box::new(*value)),
        Param::Bool(value) => (Type::BOOL, Box::new(*value)),
        Param::Text(value) => (Type::TEXT, Box::new(value.as_deref().map(text))),
        Param::Bytes(value) => (Type::BYTEA, Box::new(value.as_deref())),
        Param::Uuid(value) => (Type::UUID, Box::new(*value)),
    }
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Cell::Int(bool::from_sql(kind, raw)?.into()),
            Type::INT2 => Cell::Int(i16::from_sql(kind, raw)?.into()),
            Type::INT4 => Cell::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Cell::Int(i64::from_sql(kind, raw)?),
            Type::UUID => Cell::Bytes(Uuid::from_sql(kind, raw)?.as_bytes().to_vec()),
            Type::BYTEA => Cell::Bytes(raw.to_vec()),
            _ => Cell::Text(String::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Cell::Null)
    }

    fn accepts(kind: &Type) -> bool {
        let known = [Type::BOOL, Type::INT2, Type::INT4, Type::INT8, Type::UUID, Type::BYTEA];
        known.contains(kind) || <String as FromSql>::accepts(kind)
    }
}
