//! Statements and procedures in the databases that the administrator named.
//!
//! ```text
//!   action ──▶ Databases ──▶ PostgreSQL: one connection for one attempt
//!                       └──▶ SQLite: one thread for one attempt
//! ```
//!
//! A connection serves one attempt and is closed: what a job leaves behind in its session, no
//! other job finds. `docs/sql-jobs.md` is the page for those who write such jobs.

mod maintenance;
mod parameters;
mod postgres;
mod record;
mod script;
mod sqlite;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::action::{ProcedureAction, SqlAction};
use domain::run::{AttemptEnd, AttemptResult};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use postgres::PostgresDatabase;
use record::Record;
pub use sqlite::SqliteDatabase;

use super::Failure;
use crate::Attempt;

/// The databases that jobs may work in, by name.
#[derive(Clone, Debug, Default)]
pub struct Databases {
    all: BTreeMap<String, Database>,
    default: Option<String>,
}

/// A database.
#[derive(Clone, Debug)]
pub enum Database {
    /// One of a PostgreSQL server.
    Postgres(PostgresDatabase),
    /// A file.
    Sqlite(SqliteDatabase),
}

/// Why a configuration of databases cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The default is none of them.
    #[error("{}", unknown(.name, .known))]
    UnknownDefault {
        /// The default.
        name: String,
        /// The names of all databases.
        known: Vec<String>,
    },
    /// An address that cannot be used.
    #[error("{field}: {problem}")]
    Bad {
        /// The field of the database.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
}

impl Databases {
    /// These databases, and the one that a job means that names none.
    pub fn new(
        all: BTreeMap<String, Database>,
        default: Option<String>,
    ) -> Result<Self, DatabaseError> {
        match default {
            Some(name) if !all.contains_key(&name) => {
                Err(DatabaseError::UnknownDefault { name, known: all.into_keys().collect() })
            }
            default => Ok(Databases { all, default }),
        }
    }

    /// The database that a job names.
    fn find(&self, name: Option<&str>) -> Result<(&str, &Database), Failure> {
        let Some(name) = name.or(self.default.as_deref()) else {
            let known: Vec<_> = self.all.keys().map(String::as_str).collect();
            let problem = match known.as_slice() {
                [] => "no database is configured for jobs".to_owned(),
                known => format!(
                    "the job names no database and none is the default; there are {}",
                    known.join(", ")
                ),
            };
            return Err(Failure::refused("UNKNOWN_DATABASE", problem));
        };
        match self.all.get_key_value(name) {
            Some((name, database)) => Ok((name, database)),
            None => {
                let known: Vec<_> = self.all.keys().cloned().collect();
                Err(Failure::refused("UNKNOWN_DATABASE", unknown(name, &known)))
            }
        }
    }
}

/// Says that there is no such database, and which one may have been meant.
fn unknown(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("there is no database named {name:?}: none is configured");
    }
    let near = known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, other)| *distance <= 2.max(other.len() / 3))
        .min();
    let hint = near.map(|(_, other)| format!("; did you mean {other:?}?")).unwrap_or_default();
    format!("there is no database named {name:?}, only {}{hint}", known.join(", "))
}

/// What a job wants of a database.
#[derive(Clone, Copy)]
enum Task<'t> {
    Script(&'t str),
    Procedure(&'t ProcedureAction),
}

/// Runs statements.
pub(crate) async fn script(
    attempt: Attempt<'_>,
    action: &SqlAction,
    databases: &Databases,
) -> AttemptResult {
    run(attempt, Task::Script(&action.sql), action.database.as_deref(), databases).await
}

/// Calls a procedure.
pub(crate) async fn procedure(
    attempt: Attempt<'_>,
    action: &ProcedureAction,
    databases: &Databases,
) -> AttemptResult {
    run(attempt, Task::Procedure(action), action.database.as_deref(), databases).await
}

async fn run(
    attempt: Attempt<'_>,
    task: Task<'_>,
    database: Option<&str>,
    databases: &Databases,
) -> AttemptResult {
    let begun = Instant::now();
    let (name, database) = match databases.find(database) {
        Ok(found) => found,
        Err(failure) => return AttemptResult::failed(failure.code, failure.message),
    };
    let record = Record::new(attempt.output.clone());
    let stopped = Stopped::default();
    let (record, done) = match database {
        Database::Postgres(database) => {
            postgres::run(database, &attempt, task, record, &stopped).await
        }
        Database::Sqlite(database) => sqlite::run(database, &attempt, task, record, &stopped).await,
    };
    let details = json!({
        "database": name,
        "role": attempt.assignment.run_as,
        "duration_ms": begun.elapsed().as_millis() as u64,
    });
    record.finish(done, stopped.end(), details)
}

/// Whether and why the attempt was asked to stop, for whoever works on it.
#[derive(Clone, Default)]
struct Stopped {
    flag: Arc<AtomicBool>,
    end: Arc<std::sync::OnceLock<AttemptEnd>>,
}

impl Stopped {
    fn set(&self, end: AttemptEnd) {
        let _ = self.end.set(end);
        self.flag.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    fn end(&self) -> Option<AttemptEnd> {
        self.end.get().copied()
    }
}

/// How long a database may take to stop when it is told to.
fn patience(end: AttemptEnd) -> Duration {
    match end {
        AttemptEnd::Lost => Duration::from_secs(1),
        _ => Duration::from_secs(4),
    }
}

/// Says what was asked and what became of the work.
fn stopped_message(end: AttemptEnd, fate: &str) -> String {
    let why = match end {
        AttemptEnd::Timeout => "it took too long and was stopped",
        AttemptEnd::Lost => "this node lost the right to work on it, and stopped it",
        _ => "it was cancelled",
    };
    format!("{why}: {fate}")
}

/// The value of a parameter.
fn parameter<'a>(attempt: &'a Attempt<'_>, name: &str) -> Result<&'a Value, Failure> {
    let parameters = &attempt.assignment.parameters;
    parameters.get(name).ok_or_else(|| {
        missing_parameter(name, &parameters.keys().map(String::as_str).collect::<Vec<_>>())
    })
}

/// Says that a parameter has no value.
fn missing_parameter(name: &str, known: &[&str]) -> Failure {
    let known = match known {
        [] => "the run has no parameters".to_owned(),
        known => format!("the run has {}", known.join(", ")),
    };
    Failure::refused("MISSING_PARAMETER", format!("the parameter {name:?} has no value: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: Option<&str>, default: Option<&str>, names: &[&str]) -> String {
        let file = |name: &&str| {
            let database = Database::Sqlite(SqliteDatabase::new(format!("/nowhere/{name}")));
            ((*name).to_owned(), database)
        };
        let all = names.iter().map(file).collect();
        let databases = match Databases::new(all, default.map(str::to_owned)) {
            Ok(databases) => databases,
            Err(error) => return error.to_string(),
        };
        match databases.find(name) {
            Ok((name, _)) => name.to_owned(),
            Err(failure) => format!("{} {}", failure.code, failure.message),
        }
    }

    #[test]
    fn databases_are_found_by_name() {
        for (name, default, names, expected) in [
            (Some("main"), None, &["main", "sales"][..], "main"),
            (None, Some("sales"), &["main", "sales"], "sales"),
            (
                None,
                None,
                &["main", "sales"],
                "UNKNOWN_DATABASE the job names no database and none is the default; there are \
                 main, sales",
            ),
            (None, None, &[], "UNKNOWN_DATABASE no database is configured for jobs"),
            (
                Some("mian"),
                None,
                &["main", "sales"],
                "UNKNOWN_DATABASE there is no database named \"mian\", only main, sales; did you \
                 mean \"main\"?",
            ),
            (
                Some("reports"),
                None,
                &["main"],
                "UNKNOWN_DATABASE there is no database named \"reports\", only main",
            ),
            (
                None,
                Some("sale"),
                &["main", "sales"],
                "there is no database named \"sale\", only main, sales; did you mean \"sales\"?",
            ),
        ] {
            assert_eq!(find(name, default, names), expected);
        }
    }
}
