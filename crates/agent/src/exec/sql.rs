//! Statements and procedures in the databases that the administrator named.
//!
//! ```text
//!   action ──▶ Databases ──▶ PostgreSQL: one connection for one attempt
//!                       └──▶ SQLite: one thread for one attempt
//! ```
//!
//! A connection serves one attempt and is closed: no job finds session state of another one.
//! `docs/sql-jobs.md` describes SQL jobs for users.

mod maintenance;
mod parameters;
mod postgres;
mod record;
mod script;
mod sqlite;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::action::{Action, Assignment, ProcedureAction, SqlAction};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{AttemptEnd, AttemptResult};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use postgres::PostgresDatabase;
use record::StatementRecord;
pub use sqlite::SqliteDatabase;

use super::Failure;
use crate::{Attempt, Secrets};

/// How long a database that is tried may take to answer.
const HELLO: Duration = Duration::from_secs(15);

/// The databases that jobs may work in, by name: those of the settings, which are for the tenant of
/// the first start alone, and those of a source that is asked each time, so that a change needs no
/// restart. A name of the settings wins.
#[derive(Clone, Default)]
pub struct Databases {
    all: BTreeMap<String, Database>,
    default: Option<String>,
    source: Option<Arc<dyn DatabaseSource>>,
}

/// Knows databases that come and go.
pub trait DatabaseSource: Send + Sync {
    /// The address of a tenant's database; none when there is no such one.
    fn url<'a>(
        &'a self,
        tenant: TenantId,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>>;
}

/// The code of a job whose database is not known here.
pub(crate) const UNKNOWN_DATABASE: &str = "UNKNOWN_DATABASE";

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
        /// The problem, and an allowed value.
        problem: String,
    },
}

impl Database {
    /// The database at an address: `postgres://user@host/name` or `sqlite:/path/to/file.db`.
    pub fn parse(url: &str) -> Result<Self, DatabaseError> {
        let bad = |problem: &str| DatabaseError::Bad { field: "url", problem: problem.to_owned() };
        match url.strip_prefix("sqlite:") {
            Some("") => Err(bad("names no file: write sqlite:/path/to/file.db")),
            Some(file) => Ok(Database::Sqlite(SqliteDatabase::new(file))),
            None if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                PostgresDatabase::parse(url).map(Database::Postgres)
            }
            None => Err(bad("must begin with postgres:// or sqlite:")),
        }
    }

    /// The database at an address that a tenant chose: it must not name files of this machine,
    /// neither a file of SQLite, nor a socket, nor a certificate.
    pub fn parse_remote(url: &str) -> Result<Self, DatabaseError> {
        let bad = |problem: &str| DatabaseError::Bad { field: "url", problem: problem.to_owned() };
        match Database::parse(url)? {
            Database::Sqlite(_) => {
                Err(bad("a file is named in the settings of the server; here, write postgres://…"))
            }
            Database::Postgres(database) if database.is_socket() => {
                Err(bad("a socket is named in the settings of the server; here, name a host"))
            }
            Database::Postgres(database) if database.names_files() => Err(bad(
                "sslrootcert, sslcert and sslkey are files, which are named in the settings of the \
                 server; here, leave them out",
            )),
            database => Ok(database),
        }
    }
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
            default => Ok(Databases { all, default, source: None }),
        }
    }

    /// The same with a source of others.
    pub fn with_source(self, source: Arc<dyn DatabaseSource>) -> Self {
        Databases { source: Some(source), ..self }
    }

    /// The names of those of the settings.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// Whether one of them is for jobs that name none.
    pub fn has_default(&self) -> bool {
        self.default.is_some()
    }

    /// The database that a job of a tenant names.
    pub(crate) async fn find(
        &self,
        tenant: TenantId,
        name: Option<&str>,
    ) -> Result<(String, Database), Failure> {
        // A tenant must not learn the names of another tenant's databases.
        let nothing = (BTreeMap::new(), None);
        let (all, default) = match tenant {
            TenantId::DEFAULT => (&self.all, &self.default),
            _ => (&nothing.0, &nothing.1),
        };
        let Some(name) = name.or(default.as_deref()) else {
            let known: Vec<_> = all.keys().map(String::as_str).collect();
            let problem = match known.as_slice() {
                [] => "no database is configured for jobs: name one in the job that `punctual database create` made, or set jobs.database and databases.NAME".to_owned(),
                known => format!(
                    "the job names no database and none is the default (jobs.database); there are {}",
                    known.join(", ")
                ),
            };
            return Err(Failure::other(UNKNOWN_DATABASE, problem));
        };
        if let Some(database) = all.get(name) {
            return Ok((name.to_owned(), database.clone()));
        }
        if let Some(source) = &self.source {
            let found = source.url(tenant, name).await;
            let found = found.map_err(|problem| {
                let text = format!("the database {name:?} cannot be looked up: {problem}");
                Failure::other("DATABASE_UNREADABLE", text)
            })?;
            if let Some(url) = found {
                let database = Database::parse_remote(&url).map_err(|error| {
                    let text = format!("the database {name:?} cannot be used: {error}");
                    Failure::other("BAD_DATABASE", text)
                })?;
                return Ok((name.to_owned(), database));
            }
        }
        let known: Vec<_> = all.keys().cloned().collect();
        Err(Failure::other(UNKNOWN_DATABASE, unknown(name, &known)))
    }

    /// Tests whether a database answers, and returns its description.
    pub(crate) async fn hello(
        &self,
        tenant: TenantId,
        name: &str,
        secrets: &dyn Secrets,
    ) -> Result<String, String> {
        let (_, database) =
            self.find(tenant, Some(name)).await.map_err(|failure| failure.message)?;
        // The test of a connection belongs to no job.
        let assignment = Assignment {
            effect: None,
            run: RunId(JobId::NONE.0),
            job: JobId::NONE,
            job_name: String::new(),
            tenant,
            attempt: 0,
            fence: 0,
            scheduled_for: Timestamp::UNIX_EPOCH,
            deadline: Timestamp::MAX,
            grace_period: SignedDuration::ZERO,
            shard: String::new(),
            run_as: None,
            parameters: Default::default(),
            action: Action::Noop,
        };
        let answer = async {
            match database {
                Database::Postgres(database) => postgres::hello(&database, &assignment, secrets)
                    .await
                    .map_err(|failure| failure.message),
                Database::Sqlite(database) => database.hello().await,
            }
        };
        let too_long = |_| format!("there was no answer within {} s", HELLO.as_secs());
        tokio::time::timeout(HELLO, answer).await.map_err(too_long)?
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Databases")
            .field("all", &self.all)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

/// Error for an unknown database, with a suggestion.
fn unknown(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!(
            "there is no database named {name:?}: create it with punctual database create, or in the settings (databases.{name})"
        );
    }
    let near = known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, other)| *distance <= 2.max(other.len() / 3))
        .min();
    let hint = near.map(|(_, other)| format!("; did you mean {other:?}?")).unwrap_or_default();
    format!("there is no database named {name:?}, only {}{hint}", known.join(", "))
}

/// The work of a job in a database.
#[derive(Clone, Copy)]
enum SqlTask<'t> {
    Script(&'t str),
    Procedure(&'t ProcedureAction),
}

/// Whether policy permits statements, judged by their text alone.
pub(crate) fn permitted(action: &SqlAction, run_as: Option<&str>) -> Result<(), Failure> {
    postgres::permitted(&action.sql, run_as)
}

/// Runs statements.
pub(crate) async fn script(
    attempt: Attempt<'_>,
    action: &SqlAction,
    databases: &Databases,
) -> AttemptResult {
    run(attempt, SqlTask::Script(&action.sql), action.database.as_deref(), databases).await
}

/// Calls a procedure.
pub(crate) async fn procedure(
    attempt: Attempt<'_>,
    action: &ProcedureAction,
    databases: &Databases,
) -> AttemptResult {
    run(attempt, SqlTask::Procedure(action), action.database.as_deref(), databases).await
}

async fn run(
    attempt: Attempt<'_>,
    task: SqlTask<'_>,
    database: Option<&str>,
    databases: &Databases,
) -> AttemptResult {
    let begun = Instant::now();
    let found = databases.find(attempt.assignment.tenant, database).await;
    let (name, database) = match found {
        Ok(found) => found,
        Err(failure) => return AttemptResult::failed(failure.code, failure.message),
    };
    let record = StatementRecord::new(attempt.output.clone());
    let stopped = Stopped::default();
    let (record, done) = match &database {
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

/// Whether and why the attempt was asked to stop, shared with the thread that works on it.
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

/// How long a database may take to stop after a request.
fn stop_timeout(end: AttemptEnd) -> Duration {
    match end {
        AttemptEnd::Lost => Duration::from_secs(1),
        _ => Duration::from_secs(4),
    }
}

/// Message of a stopped attempt: the request and the fate of the work.
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

/// Error for a parameter without a value.
fn missing_parameter(name: &str, known: &[&str]) -> Failure {
    let known = match known {
        [] => "the run has no parameters".to_owned(),
        known => format!("the run has {}", known.join(", ")),
    };
    Failure::other("MISSING_PARAMETER", format!("the parameter {name:?} has no value: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows one database of one tenant.
    struct Shelf;

    impl DatabaseSource for Shelf {
        fn url<'a>(
            &'a self,
            tenant: TenantId,
            name: &'a str,
        ) -> Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>> {
            let url = match (tenant, name) {
                (TenantId::DEFAULT, "shelf") => Some("postgres://u@db.example.org/d".to_owned()),
                (TenantId::DEFAULT, "file") => Some("sqlite:/etc/passwd".to_owned()),
                // A name of the settings wins.
                (TenantId::DEFAULT, "main") => Some("not even read".to_owned()),
                _ => None,
            };
            Box::pin(std::future::ready(Ok(url)))
        }
    }

    #[tokio::test]
    async fn a_source_knows_the_databases_of_a_tenant() {
        let main = Database::Sqlite(SqliteDatabase::new("/nowhere/main"));
        let databases = Databases::new(BTreeMap::from([("main".to_owned(), main)]), None).unwrap();
        let databases = databases.with_source(Arc::new(Shelf));
        let find = async |tenant, name| match databases.find(tenant, Some(name)).await {
            Ok((name, database)) => format!("{name} {database:?}"),
            Err(failure) => format!("{} {}", failure.code, failure.message),
        };
        let other = TenantId(uuid::Uuid::from_u128(9));
        assert!(find(TenantId::DEFAULT, "shelf").await.starts_with("shelf Postgres"));
        assert!(find(TenantId::DEFAULT, "main").await.starts_with("main Sqlite"));
        for name in ["shelf", "main"] {
            let found = find(other, name).await;
            let expected = format!("UNKNOWN_DATABASE there is no database named {name:?}: create");
            assert!(found.starts_with(&expected), "{found}");
        }
        let file = find(TenantId::DEFAULT, "file").await;
        assert!(file.starts_with("BAD_DATABASE") && !file.contains("passwd"), "{file}");
    }

    #[test]
    fn who_may_not_choose_files_may_not_choose_sockets() {
        for (url, problem) in [
            ("postgres://u:${secrets.P}@db/d", ""),
            ("postgres://u@db,%2Frun%2Fpg/d", "url: host: a Unix socket"),
            ("postgres://u@db,%2Frun%2Fpg/d?sslmode=disable", "url: a socket"),
            ("postgres://u@db/d?sslrootcert=%2Fetc%2Fpasswd", "url: sslrootcert, sslcert and"),
            ("postgres://u@db/d?sslrootcert=system", ""),
            ("postgres://u@db/d?sslcert=a&sslkey=b", "url: sslrootcert, sslcert and"),
            ("postgresql:///d?user=u&host=/run/postgresql", "url: a socket"),
            ("postgres://u@%2Frun%2Fpostgresql/d", "url: a socket"),
            ("sqlite:/tmp/x.db", "url: a file"),
            ("mysql://u@db/d", "url: must begin"),
            ("postgresql", "url: must begin"),
        ] {
            let answer = Database::parse_remote(url).err().map(|error| error.to_string());
            let answer = answer.unwrap_or_default();
            assert!(
                answer.starts_with(problem) && answer.is_empty() == problem.is_empty(),
                "{url}: {answer}"
            );
        }
    }

    async fn find(name: Option<&str>, default: Option<&str>, names: &[&str]) -> String {
        let file = |name: &&str| {
            let database = Database::Sqlite(SqliteDatabase::new(format!("/nowhere/{name}")));
            ((*name).to_owned(), database)
        };
        let all = names.iter().map(file).collect();
        let databases = match Databases::new(all, default.map(str::to_owned)) {
            Ok(databases) => databases,
            Err(error) => return error.to_string(),
        };
        match databases.find(TenantId::DEFAULT, name).await {
            Ok((name, _)) => name,
            Err(failure) => format!("{} {}", failure.code, failure.message),
        }
    }

    #[tokio::test]
    async fn databases_are_found_by_name() {
        for (name, default, names, expected) in [
            (Some("main"), None, &["main", "sales"][..], "main"),
            (None, Some("sales"), &["main", "sales"], "sales"),
            (
                None,
                None,
                &["main", "sales"],
                "UNKNOWN_DATABASE the job names no database and none is the default \
                 (jobs.database); there are \
                 main, sales",
            ),
            (
                None,
                None,
                &[],
                "UNKNOWN_DATABASE no database is configured for jobs: name one in the job that `punctual database create` made, or set jobs.database and databases.NAME",
            ),
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
            assert_eq!(find(name, default, names).await, expected);
        }
    }
}
