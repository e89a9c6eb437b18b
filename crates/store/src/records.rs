//! Records: identity, named resources, secrets, settings, alerts, the audit log and other state
//! that no hot loop waits for. Each operation is written once, for both databases.
//!
//! ```text
//!   operation ──▶ Transaction [Statement, Statement, …] ──▶ driver ──▶ one commit ──▶ answers
//!                                                             ├── postgres/records.rs: one pipeline
//!                                                             └── sqlite/records.rs: one command
//! ```
//!
//! A transaction is a value. All of its statements are known before the first is sent, so that
//! PostgreSQL gets them in one round trip and SQLite applies them as one command of the writer. A
//! statement states how many rows it must write ([`Statement::expect_rows`]); if it writes another
//! number, or violates a unique constraint, nothing of the transaction is written.
//!
//! # The common dialect
//!
//! Statements are SQL that PostgreSQL and SQLite both run, with these conventions:
//!
//! - Parameters are `$1`, `$2` and so on. Each has a type, also when it is null, so no statement
//!   needs a cast. The SQLite driver rewrites them to `?1`.
//! - `{now}` is the store's time in microseconds.
//! - In `ON CONFLICT … DO UPDATE` and next to a subquery, columns are qualified by their table.
//! - No arrays: a list is a statement for each item, or [`Statement::of_rows`].
//! - No JSON and no text functions beyond `replace` and `||`: Rust writes the documents.
//!
//! Where the databases keep the same facts in different tables (ended runs), a statement has two
//! texts with the same parameters and columns ([`Sql::Differs`]).

mod cell;
mod statement;

use std::future::Future;

use serde::{Deserialize, Serialize};

pub use cell::{Cell, FromCell, Row};
pub(crate) use statement::params;
pub use statement::{Param, Sql, Statement};

use crate::{Result, Store};

/// A store that executes portable statements.
pub trait Records: Store {
    /// Applies a transaction. None if one of its statements did not write the expected number of
    /// rows; then nothing was written.
    fn commit(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Option<Vec<RecordAnswer>>>> + Send;

    /// Reads with several statements, which need not see the same snapshot.
    fn query_each(
        &self,
        statements: Vec<Statement>,
    ) -> impl Future<Output = Result<Vec<Vec<Row>>>> + Send;

    /// Reads with one statement.
    fn query(&self, statement: Statement) -> impl Future<Output = Result<Vec<Row>>> + Send {
        async move { Ok(self.query_each(vec![statement]).await?.pop().unwrap_or_default()) }
    }

    /// Applies one statement without expectations. Returns how many rows it has written.
    fn execute(&self, statement: Statement) -> impl Future<Output = Result<u64>> + Send {
        async move {
            let answers = self.commit(Transaction::from(vec![statement])).await?;
            Ok(answers.unwrap_or_default().iter().map(|answer| answer.affected).sum())
        }
    }
}

/// Statements that are applied together or not at all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Transaction {
    statements: Vec<Statement>,
}

impl Transaction {
    /// Adds a statement. Its answer has the place that is returned.
    pub fn push(&mut self, statement: Statement) -> usize {
        self.statements.push(statement);
        self.statements.len() - 1
    }

    /// The statements in their order.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }
}

impl From<Vec<Statement>> for Transaction {
    fn from(statements: Vec<Statement>) -> Self {
        Transaction { statements }
    }
}

/// The result of one statement.
#[derive(Clone, Debug, Default)]
pub struct RecordAnswer {
    /// The rows that it returned.
    pub rows: Vec<Row>,
    /// How many rows it returned or, if it returns none, has written.
    pub affected: u64,
}

/// The page of a list that was read with one row more than its limit.
pub(crate) fn page<T, K>(
    mut items: Vec<T>,
    limit: u32,
    key: impl Fn(&T) -> K,
) -> crate::Page<T, K> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(key) } else { None };
    crate::Page { items, next }
}

/// Names as one parameter, `,A,,B,`; none for an empty list. A name is in the list exactly if
/// `replace(list, ',' || name || ',', '') <> list`.
pub(crate) fn list_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let list = names.fold(String::new(), |list, name| list + "," + name + ",");
    Some(list).filter(|list| !list.is_empty())
}
