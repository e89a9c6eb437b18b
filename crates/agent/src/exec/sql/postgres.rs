//! Jobs in a PostgreSQL database: one connection for each attempt, never used again.
//!
//! ```text
//!   connect ─ BEGIN READ WRITE ─ facts, time limit ─ role ─ statements ─ which xid? ─ COMMIT
//!                                                                                      │
//!       connection lost here: ask anew what became of the xid ◀────────────────────────┘
//! ```
//!
//! Statements that no transaction may hold, and procedures, which may end transactions
//! themselves, are carried out without the outer one: the same settings then belong to the
//! session, which ends with the attempt.

mod address;
mod failure;
mod procedure;
mod session;
mod value;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::action::Assignment;
use domain::run::{AttemptEnd, ErrorCode};
use futures_util::TryStreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{interval, sleep, timeout};

pub use address::PostgresDatabase;
use failure::{commit_unknown, describe, is_lost};
use session::Session;
use value::Cell;

use super::parameters::Bound;
use super::record::{Failure, Record};
use super::script::{self, Positional, SECRET, Statement};
use super::{Stopped, Task, maintenance, no_secret, parameter, patience, stopped_message};
use crate::Attempt;
use crate::context::FACTS;
use crate::secrets::resolve;

/// How long the server has to say what became of a commit whose answer was lost.
const INQUIRY: Duration = Duration::from_secs(20);

/// The processes of the server that serve nobody in particular. After a crash they are others.
const HELPERS: &str = "ARRAY(SELECT pid FROM pg_stat_activity WHERE datid IS NULL)";

/// What a transaction wrote, for whoever must ask what became of it.
struct Written {
    number: i64,
    helpers: Vec<i32>,
}

pub(super) async fn run(
    database: &PostgresDatabase,
    attempt: &Attempt<'_>,
    task: Task<'_>,
    mut record: Record,
    stopped: &Stopped,
) -> (Record, Result<(), Failure>) {
    let done = supervise(database, attempt, task, &mut record, stopped).await;
    (record, done)
}

/// Lets the work run until it ends or must.
async fn supervise(
    database: &PostgresDatabase,
    attempt: &Attempt<'_>,
    task: Task<'_>,
    record: &mut Record,
    stopped: &Stopped,
) -> Result<(), Failure> {
    let job = Job::read(attempt, task).await?;
    let mut stop = attempt.stop.clone();
    let session = tokio::select! {
        biased;
        session = Session::open(database, attempt) => session?,
        end = stop.requested() => {
            stopped.set(end);
            let fate = "it had not reached the database yet";
            return Err(Failure::other("STOPPED", stopped_message(end, fate)));
        }
    };
    let committing = AtomicBool::new(false);
    let work = Work { database, attempt, session: &session, job, stopped, committing: &committing };
    let done = {
        let mut work = std::pin::pin!(work.run(record));
        tokio::select! {
            biased;
            done = &mut work => done,
            end = stop.requested() => {
                stopped.set(end);
                let settled = async {
                    // A request that comes between two statements has no effect.
                    let mut again = interval(Duration::from_millis(200));
                    loop {
                        tokio::select! {
                            biased;
                            done = &mut work => return done,
                            _ = again.tick() => session.cancel(),
                        }
                    }
                };
                match timeout(patience(end), settled).await {
                    Ok(done) => done.map_err(|failure| after_stop(end, failure)),
                    Err(_) if committing.load(Ordering::SeqCst) => Err(Failure::other(
                        "COMMIT_UNKNOWN",
                        stopped_message(end, "the server did not say whether what was committed \
                            took effect"),
                    )),
                    Err(_) => Err(Failure::other(
                        "STOPPED",
                        stopped_message(end, "the server did not answer; it rolls the work back \
                            when it finds the connection closed"),
                    )),
                }
            }
        }
    };
    session.close().await;
    match done {
        // The server's own clock came first.
        Err(failure)
            if failure.code == ErrorCode::SqlState("57014".into())
                && stopped.end().is_none()
                && remaining(attempt.assignment).is_zero() =>
        {
            stopped.set(AttemptEnd::Timeout);
            Err(after_stop(AttemptEnd::Timeout, failure))
        }
        done => done,
    }
}

/// The words for work that failed after it was asked to stop.
fn after_stop(end: AttemptEnd, failure: Failure) -> Failure {
    let is_ours = match &failure.code {
        ErrorCode::SqlState(code) => code == "57014",
        ErrorCode::Other(name) => name == "STOPPED",
        _ => false,
    };
    let fate = if is_ours { "its transaction was rolled back" } else { &failure.message };
    Failure { message: stopped_message(end, fate), code: failure.code }
}

/// What to do, as far as it is known without the server.
enum Job<'t> {
    Script {
        script: &'t str,
        statements: Vec<Statement>,
        /// The values of the parameters and secrets, by name.
        values: Vec<(String, Value)>,
        in_transaction: bool,
    },
    Call(procedure::Call),
}

impl<'t> Job<'t> {
    async fn read(attempt: &Attempt<'_>, task: Task<'t>) -> Result<Self, Failure> {
        let script = match task {
            Task::Script(script) => script,
            Task::Procedure(action) => {
                return Ok(Job::Call(procedure::Call::read(attempt, action).await?));
            }
        };
        let statements = script::read(script).map_err(|Positional(what)| {
            Failure::refused(
                "POSITIONAL_PARAMETER",
                format!("{what} is no parameter: write a colon and its name, as in :since"),
            )
        })?;
        let in_transaction = maintenance::share_a_transaction(&statements)?;
        let mut values: Vec<(String, Value)> = Vec::new();
        for statement in &statements {
            refuse(statement, attempt.assignment)?;
            for name in &statement.parameters {
                if values.iter().any(|(known, _)| known == name) {
                    continue;
                }
                let value = if name.starts_with(SECRET) {
                    let secret = resolve(name, attempt.assignment, attempt.secrets).await;
                    Value::String(secret.map_err(no_secret)?.into_owned())
                } else {
                    parameter(attempt, name)?.clone()
                };
                values.push((name.clone(), value));
            }
        }
        Ok(Job::Script { script, statements, values, in_transaction })
    }
}

/// Refuses what would end the transaction, leave the role, or wait for a client that we are not.
fn refuse(statement: &Statement, assignment: &Assignment) -> Result<(), Failure> {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    let (name, problem) = match words.as_slice() {
        ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => return Ok(()),
        ["BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT", ..]
        | ["PREPARE", "TRANSACTION", ..] => (
            "TRANSACTION_CONTROL",
            "the statements of a job are one transaction already, which ends with the job",
        ),
        ["SET", "ROLE", ..]
        | ["SET", "LOCAL" | "SESSION", "ROLE", ..]
        | ["SET", "SESSION", "AUTHORIZATION", ..]
        | ["SET", "LOCAL", "SESSION", "AUTHORIZATION", ..]
        | ["RESET", "ROLE" | "SESSION" | "ALL", ..]
        | ["DISCARD", ..]
            if assignment.run_as.is_some() =>
        {
            ("ROLE_CHANGE", "a job that runs as a role must stay in it")
        }
        ["COPY", rest @ ..] if rest.contains(&"STDIN") || rest.contains(&"STDOUT") => {
            ("NOT_SUPPORTED", "there is no client whose input or output could be copied")
        }
        _ => return Ok(()),
    };
    let begin = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    Err(Failure::refused(name, format!("{begin} is not allowed: {problem}")))
}

/// One attempt, with an open session.
struct Work<'w, 'a> {
    database: &'w PostgresDatabase,
    attempt: &'w Attempt<'a>,
    session: &'w Session,
    job: Job<'w>,
    stopped: &'w Stopped,
    /// Whether something may have been committed.
    committing: &'w AtomicBool,
}

impl Work<'_, '_> {
    async fn run(&self, record: &mut Record) -> Result<(), Failure> {
        match &self.job {
            Job::Script { script, statements, values, in_transaction } => {
                let statements = Statements { script, all: statements, values };
                match in_transaction {
                    true => self.transact(&statements, record).await,
                    false => self.maintain(&statements, record).await,
                }
            }
            Job::Call(call) => {
                let call = call.find(self.session).await?;
                let all = [call.statement];
                let statements = Statements { script: "", all: &all, values: &call.values };
                if call.may_commit {
                    self.prepare(false).await?;
                    self.committing.store(true, Ordering::SeqCst);
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
        record: &mut Record,
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

    /// Carries the statements out, and says under which number the server keeps what they wrote.
    async fn in_transaction(
        &self,
        statements: &Statements<'_>,
        record: &mut Record,
    ) -> Result<Option<Written>, Failure> {
        self.prepare(true).await?;
        for statement in statements.all {
            if self.stopped.is_set() {
                return Err(Failure::stopped());
            }
            self.execute(statements, statement, record).await?;
        }
        let client = &self.session.client;
        // As a number, because the type of ids is younger than some servers.
        let sql = format!("SELECT txid_current_if_assigned(), {HELPERS}");
        let row = client.query_one(&sql, &[]).await.map_err(|error| describe(&error, None))?;
        let number: Option<i64> = row.try_get(0).map_err(|error| describe(&error, None))?;
        let helpers = row.try_get(1).map_err(|error| describe(&error, None))?;
        Ok(number.map(|number| Written { number, helpers }))
    }

    /// Commits, and finds out whether it happened when the answer is lost.
    async fn commit(&self, written: Option<Written>) -> Result<(), Failure> {
        self.committing.store(written.is_some(), Ordering::SeqCst);
        let Err(error) = self.session.client.batch_execute("COMMIT").await else {
            return Ok(());
        };
        if !is_lost(&error) {
            return Err(describe(&error, None));
        }
        // Nothing was written: nothing can be lost.
        let Some(written) = written else { return Ok(()) };
        let inquiry = async {
            loop {
                match self.fate_of(&written).await {
                    Ok(Fate::Committed) => return Ok(()),
                    Ok(Fate::Aborted) => return Err(describe(&error, None)),
                    Ok(Fate::Unknown) => return Err(commit_unknown(&error)),
                    Ok(Fate::InProgress) | Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        };
        timeout(INQUIRY, inquiry).await.unwrap_or_else(|_| Err(commit_unknown(&error)))
    }

    /// What the server knows of a transaction. After a crash it may have given the number of one
    /// that left no trace to another: then only "no" is an answer.
    async fn fate_of(&self, written: &Written) -> Result<Fate, Failure> {
        let session = Session::open(self.database, self.attempt).await?;
        let sql = format!("SELECT txid_status($1), {HELPERS}");
        let answer = session.client.query_one(&sql, &[&written.number]).await;
        session.close().await;
        let row = match answer {
            Ok(row) => row,
            // A number that the server has not come to.
            Err(error) if error.as_db_error().is_some() && !is_lost(&error) => {
                return Ok(Fate::Aborted);
            }
            Err(error) => return Err(describe(&error, None)),
        };
        let status: Option<String> = row.try_get(0).map_err(|error| describe(&error, None))?;
        let helpers: Vec<i32> = row.try_get(1).map_err(|error| describe(&error, None))?;
        let crashed = !helpers.iter().any(|helper| written.helpers.contains(helper));
        Ok(match status.as_deref() {
            Some("aborted") => Fate::Aborted,
            Some("committed") if !crashed => Fate::Committed,
            Some("in progress") if !crashed => Fate::InProgress,
            _ => Fate::Unknown,
        })
    }

    async fn maintain(
        &self,
        statements: &Statements<'_>,
        record: &mut Record,
    ) -> Result<(), Failure> {
        self.prepare(false).await?;
        let client = &self.session.client;
        let row = client.query_one("SELECT quote_ident(current_database())", &[]).await;
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

    /// Tells the session about the run, limits its time and takes the role on; for the present
    /// transaction only, or for as long as the session lives.
    async fn prepare(&self, local: bool) -> Result<(), Failure> {
        let assignment = self.attempt.assignment;
        let mut names: Vec<&str> = FACTS.iter().map(|fact| fact.setting).collect();
        let mut values: Vec<String> = FACTS.iter().map(|fact| (fact.value)(assignment)).collect();
        // The server stops by itself when we no longer can tell it to.
        names.push("statement_timeout");
        values.push(statement_timeout(remaining(assignment)).to_string());
        let sql = "SELECT set_config(name, value, $3)
                   FROM unnest($1::text[], $2::text[]) AS facts (name, value)";
        let set = self.session.client.query(sql, &[&names, &values, &local]).await;
        set.map_err(|error| describe(&error, None))?;
        let Some(role) = &assignment.run_as else { return Ok(()) };
        // PostgreSQL takes this name for "no role".
        if role == "none" || role.contains('\0') {
            return Err(Failure::refused("UNKNOWN_ROLE", format!("{role:?} is no role")));
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
        record: &mut Record,
    ) -> Result<(), Failure> {
        let client = &self.session.client;
        let failed =
            |error: tokio_postgres::Error| describe(&error, Some((statements.script, statement)));
        let prepared = client.prepare(&statement.text).await.map_err(failed)?;
        let mut bound = Vec::with_capacity(statement.parameters.len());
        for (name, kind) in statement.parameters.iter().zip(prepared.params()) {
            let value = statements.value(name);
            bound.push(Bound::new(value, kind).map_err(|problem| {
                Failure::refused("BAD_PARAMETER", format!("the parameter {name:?} {problem}"))
            })?);
        }
        let rows = client.query_raw(&prepared, bound).await.map_err(failed)?;
        let mut rows = std::pin::pin!(rows);
        let columns = prepared.columns();
        if !columns.is_empty() {
            record.columns(columns.iter().map(|column| column.name()));
        }
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if !columns.is_empty() {
                let cells = (0..columns.len()).map(|at| row.try_get::<_, Cell>(at));
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

    /// What the server would do anyhow when the connection ends, but now.
    async fn roll_back(&self) {
        let _ = timeout(Duration::from_secs(1), self.own("ROLLBACK")).await;
    }
}

/// What became of a transaction.
enum Fate {
    Committed,
    Aborted,
    InProgress,
    Unknown,
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

/// A name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How long the attempt may still take.
#[expect(clippy::disallowed_methods, reason = "the server is told how much time is left")]
fn remaining(assignment: &Assignment) -> Duration {
    let left = assignment.deadline.duration_since(Timestamp::now());
    Duration::try_from(left).unwrap_or_default()
}

/// The server's limit in milliseconds: a little later than our own, so that ours speaks first; 0
/// where it has no number that large.
fn statement_timeout(remaining: Duration) -> i32 {
    let limit = remaining.saturating_add(Duration::from_secs(1));
    i32::try_from(limit.as_millis()).unwrap_or(0)
}
