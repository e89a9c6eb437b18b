//! The work of one attempt in its session.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::Value;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::super::parameters::Bound;
use super::super::record::{OUTPUT_BYTES_MAX, StatementRecord};
use super::super::script::Statement;
use super::super::{Stopped, maintenance};
use super::address::PostgresDatabase;
use super::commit::TransactionId;
use super::failure::{self, describe};
use super::job::SqlWork;
use super::session::AttemptSession;
use super::value::SqlCell;
use super::{AttemptProgress, quoted, remaining};
use crate::Attempt;
use crate::context::FACTS;
use crate::exec::Failure;

/// One attempt, with an open session.
pub(super) struct Work<'w, 'a> {
    pub database: &'w PostgresDatabase,
    pub attempt: &'w Attempt<'a>,
    pub session: &'w AttemptSession,
    pub job: SqlWork<'w>,
    pub stopped: &'w Stopped,
    pub progress: &'w AttemptProgress,
}

impl Work<'_, '_> {
    pub async fn run(&self, record: &mut StatementRecord) -> Result<(), Failure> {
        match &self.job {
            SqlWork::Script { in_transaction: false, .. }
                if self.attempt.assignment.effect.is_some() =>
            {
                Err(Failure::refused(
                    "EXACTLY_ONCE",
                    "a job that runs exactly once is one transaction, and these statements cannot be in one",
                ))
            }
            SqlWork::Script { script, statements, values, in_transaction } => {
                let statements = Statements { script, all: statements, values };
                match in_transaction {
                    true => self.transact(&statements, record).await,
                    false => self.maintain(&statements, record).await,
                }
            }
            SqlWork::Call(call) => {
                let call = call.find(self.session).await?;
                let all = [call.statement];
                let statements = Statements { script: "", all: &all, values: &call.values };
                if call.may_commit && self.attempt.assignment.effect.is_some() {
                    return Err(Failure::refused(
                        "EXACTLY_ONCE",
                        "a job that runs exactly once is one transaction, and a procedure may end it; call a function",
                    ));
                }
                if call.may_commit {
                    self.prepare(false).await?;
                    self.progress.committing.store(true, Ordering::SeqCst);
                    self.progress.by_itself.store(true, Ordering::SeqCst);
                    let done = self.execute(&statements, &all[0], record).await;
                    done.map_err(failure::of_procedure)
                } else {
                    self.transact(&statements, record).await
                }
            }
        }
    }

    /// Every statement, or none.
    async fn transact(
        &self,
        statements: &Statements<'_>,
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        self.own("BEGIN READ WRITE").await?;
        let done = self.in_transaction(statements, record).await;
        match done {
            Ok(written) if !self.stopped.is_set() => self.commit(written).await,
            Ok(_) => {
                self.roll_back().await;
                Err(Failure::stopped())
            }
            Err(failure) => {
                self.roll_back().await;
                Err(failure)
            }
        }
    }

    /// Executes the statements, and returns the transaction id of their writes.
    async fn in_transaction(
        &self,
        statements: &Statements<'_>,
        record: &mut StatementRecord,
    ) -> Result<Option<TransactionId>, Failure> {
        self.prepare(true).await?;
        for statement in statements.all {
            if self.stopped.is_set() {
                return Err(Failure::stopped());
            }
            self.execute(statements, statement, record).await?;
        }
        self.record_effect().await?;
        self.written().await
    }

    /// Records, in the transaction of the statements, that they were executed. The store's function
    /// refuses if the claim of the attempt has ended.
    async fn record_effect(&self) -> Result<(), Failure> {
        let Some(effect) = &self.attempt.assignment.effect else { return Ok(()) };
        let run = self.attempt.assignment.run.to_string();
        let generation = effect.generation.cast_signed();
        let sql = "SELECT punctual.record_effect($1::text::uuid, $2, $3)";
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&run, Type::TEXT), (&generation, Type::INT4), (&effect.secret, Type::TEXT)];
        let recorded = self.session.client.query_typed(sql, &values).await;
        recorded.map(drop).map_err(|error| match error.code().map(SqlState::code) {
            Some("3F000" | "42883" | "42501") => Failure::refused(
                "EXACTLY_ONCE",
                "this is not the database of the store: it has no function punctual.record_effect",
            ),
            _ => describe(&error, None),
        })
    }

    async fn maintain(
        &self,
        statements: &Statements<'_>,
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        self.prepare(false).await?;
        let client = &self.session.client;
        let row = client
            .query_one("SELECT pg_catalog.quote_ident(pg_catalog.current_database())", &[])
            .await;
        let database: String =
            row.and_then(|row| row.try_get(0)).map_err(|error| describe(&error, None))?;
        for statement in statements.all {
            if self.stopped.is_set() {
                return Err(Failure::stopped());
            }
            let mut statement = statement.clone();
            maintenance::for_postgres(&mut statement, &database);
            self.execute(statements, &statement, record).await?;
        }
        Ok(())
    }

    /// Sets the facts about the run, the time limit and the role in the session; for the present
    /// transaction only, or for the whole session.
    async fn prepare(&self, local: bool) -> Result<(), Failure> {
        let assignment = self.attempt.assignment;
        let mut names: Vec<&str> = FACTS.iter().map(|fact| fact.setting).collect();
        let mut values: Vec<String> = FACTS.iter().map(|fact| (fact.value)(assignment)).collect();
        // The server stops by itself when no cancel request can be sent.
        names.push("statement_timeout");
        values.push(statement_timeout(remaining(assignment)).to_string());
        let sql = "SELECT pg_catalog.set_config(name, value, $3)
                   FROM unnest($1, $2) AS facts (name, value)";
        let texts = Type::TEXT_ARRAY;
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&names, texts.clone()), (&values, texts), (&local, Type::BOOL)];
        let set = self.session.client.query_typed(sql, &values).await;
        set.map_err(|error| describe(&error, None))?;
        let Some(role) = &assignment.run_as else { return Ok(()) };
        // PostgreSQL takes this name for "no role".
        if role == "none" || role.contains('\0') {
            return Err(Failure::other("UNKNOWN_ROLE", format!("{role:?} is no role")));
        }
        let scope = if local { "LOCAL" } else { "SESSION" };
        let set = format!("SET {scope} ROLE {}", quoted(role));
        let set = self.session.client.batch_execute(&set).await;
        set.map_err(|error| failure::of_role(&error, role))
    }

    async fn execute(
        &self,
        statements: &Statements<'_>,
        statement: &Statement,
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        let client = &self.session.client;
        let failed =
            |error: tokio_postgres::Error| describe(&error, Some((statements.script, statement)));
        let prepared = client.prepare(&statement.text).await.map_err(failed)?;
        let mut bound = Vec::with_capacity(statement.parameters.len());
        for (name, kind) in statement.parameters.iter().zip(prepared.params()) {
            let value = statements.value(name);
            bound.push(Bound::new(value, kind).map_err(|problem| {
                Failure::other("BAD_PARAMETER", format!("the parameter {name:?} {problem}"))
            })?);
        }
        let rows = client.query_raw(&prepared, bound).await.map_err(failed)?;
        let mut rows = std::pin::pin!(rows);
        let columns = prepared.columns();
        if !columns.is_empty() {
            record.columns(columns.iter().map(|column| column.name()));
        }
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if record.is_full() || row.raw_size_bytes() > OUTPUT_BYTES_MAX {
                record.row_unseen();
            } else {
                let cells = (0..columns.len()).map(|at| row.try_get::<_, SqlCell>(at));
                let cells = cells.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                record.row(cells.into_iter().map(|cell| cell.0));
            }
        }
        if columns.is_empty() || is_change(statement) {
            record.rows_affected += rows.rows_affected().unwrap_or(0);
        }
        record.statements += 1;
        Ok(())
    }

    /// A statement of ours.
    async fn own(&self, sql: &str) -> Result<(), Failure> {
        self.session.client.batch_execute(sql).await.map_err(|error| describe(&error, None))
    }

    /// Rolls back at once. The server would do so anyhow when the connection ends.
    async fn roll_back(&self) {
        let _ = timeout(Duration::from_secs(1), self.own("ROLLBACK")).await;
    }
}

/// Statements with what belongs to them.
struct Statements<'s> {
    script: &'s str,
    all: &'s [Statement],
    values: &'s [(String, Value)],
}

impl Statements<'_> {
    fn value(&self, name: &str) -> &Value {
        let found = self.values.iter().find(|(known, _)| known == name);
        found.map_or(&Value::Null, |(_, value)| value)
    }
}

/// Whether the rows that a statement counts are changed ones, not returned ones.
fn is_change(statement: &Statement) -> bool {
    let verb = statement.words.iter().find(|word| {
        matches!(
            word.as_str(),
            "SELECT" | "VALUES" | "TABLE" | "INSERT" | "UPDATE" | "DELETE" | "MERGE"
        )
    });
    matches!(verb.map(String::as_str), Some("INSERT" | "UPDATE" | "DELETE" | "MERGE"))
        && !matches!(statement.words.first().map(String::as_str), Some("EXPLAIN"))
}

/// The server's limit in milliseconds: a little later than our own, so that ours speaks first; 0
/// where it has no number that large.
fn statement_timeout(remaining: Duration) -> i32 {
    let limit = remaining.saturating_add(Duration::from_secs(1));
    i32::try_from(limit.as_millis()).unwrap_or(0)
}
