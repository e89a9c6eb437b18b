//! Jobs in a SQLite file, each on a thread of its own in a transaction of its own.

mod rules;

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::exact_number;
use domain::run::ErrorCode;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::functions::FunctionFlags;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags, Statement, ffi};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::record::StatementRecord;
use super::{SqlTask, Stopped, maintenance, script, stop_timeout, stopped_message};
use crate::Attempt;
use crate::context::FACTS;
use crate::exec::Failure;
use crate::secrets::OPEN;
use rules::Rules;

/// The largest text or blob.
const LENGTH_MAX: i32 = 64 << 20;
/// How many steps of SQLite's machine pass between two looks at whether to stop.
const STEPS: i32 = 1_000;
/// How long a lock is waited for before it is looked whether to stop.
const SLICE: Duration = Duration::from_millis(50);

/// A SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteDatabase {
    file: PathBuf,
    busy_timeout: Duration,
}

impl SqliteDatabase {
    /// A file; it is created when a job comes that needs it.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        SqliteDatabase { file: file.into(), busy_timeout: Duration::from_secs(30) }
    }

    /// Checks whether the file can be opened, and returns its description. It creates no file.
    pub(super) async fn hello(&self) -> Result<String, String> {
        let file = self.file.clone();
        let look = move || -> Result<String, String> {
            if !file.exists() {
                return Ok(format!("SQLite {}; the first job makes the file", rusqlite::version()));
            }
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let tables = "SELECT count(*) FROM sqlite_master";
            Connection::open_with_flags(file, flags)
                .and_then(|connection| connection.query_row(tables, [], |_| Ok(())))
                .map_err(|error| format!("the file cannot be read: {error}"))?;
            Ok(format!("SQLite {}", rusqlite::version()))
        };
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|_| Err("the file could not be looked at".to_owned()))
    }

    /// How long a job waits while another connection writes; 30 seconds by default.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }
}

/// The input of the thread.
struct SqliteWork {
    file: PathBuf,
    busy_timeout: Duration,
    script: String,
    parameters: Vec<(String, Value)>,
    facts: Vec<(&'static str, String)>,
    stopped: Stopped,
}

pub(super) async fn run(
    database: &SqliteDatabase,
    attempt: &Attempt<'_>,
    task: SqlTask<'_>,
    record: StatementRecord,
    stopped: &Stopped,
) -> (StatementRecord, Result<(), Failure>) {
    let script = match allowed(attempt, task) {
        Ok(script) => script.to_owned(),
        Err(failure) => return (record, Err(failure)),
    };
    let parameters = &attempt.assignment.parameters;
    let work = SqliteWork {
        file: database.file.clone(),
        busy_timeout: database.busy_timeout,
        script,
        parameters: parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        facts: FACTS.iter().map(|fact| (fact.setting, (fact.value)(attempt.assignment))).collect(),
        stopped: stopped.clone(),
    };
    let guard = StopOnDrop(stopped.clone());
    let notes = attempt.output.clone();
    let mut thread = tokio::task::spawn_blocking(move || {
        let mut record = record;
        let done = work.run(&mut record);
        (record, done)
    });
    let mut stop = attempt.stop.clone();
    let joined = tokio::select! {
        biased;
        joined = &mut thread => Some(joined),
        end = stop.requested() => {
            stopped.set(end);
            timeout(stop_timeout(end), &mut thread).await.ok()
        }
    };
    drop(guard);
    let lost = |message: &str| {
        (StatementRecord::new(notes.clone()), Err(Failure::other("SQLITE_STUCK", message)))
    };
    let (record, done) = match joined {
        Some(Ok(ended)) => ended,
        Some(Err(_)) => lost("the thread that worked in the file has crashed"),
        None => lost("the file did not let go in time; it will roll the work back"),
    };
    match (done, stopped.end()) {
        (Err(failure), Some(end)) => {
            let fate = match failure.code {
                ErrorCode::Other(name) if name == "SQLITE_STUCK" => failure.message,
                _ => "its transaction was rolled back".to_owned(),
            };
            (record, Err(Failure::other("SQLITE_INTERRUPT", stopped_message(end, &fate))))
        }
        (done, _) => (record, done),
    }
}

/// Ends the thread when the attempt is dropped.
struct StopOnDrop(Stopped);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.flag.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// The script, if SQLite supports the settings of the job.
fn allowed<'t>(attempt: &Attempt<'_>, task: SqlTask<'t>) -> Result<&'t str, Failure> {
    let script = match task {
        SqlTask::Script(script) => script,
        SqlTask::Procedure(action) => {
            return Err(Failure::refused(
                "NOT_SUPPORTED",
                format!(
                    "SQLite has no procedures, so {:?} cannot be called: write a SQL job with its \
                     statements, or name a PostgreSQL database",
                    action.procedure
                ),
            ));
        }
    };
    if let Some(role) = &attempt.assignment.run_as {
        return Err(Failure::refused(
            "NOT_SUPPORTED",
            format!("SQLite has no roles, so the job cannot run as {role:?}"),
        ));
    }
    if script.contains(OPEN) {
        return Err(Failure::refused(
            "NOT_SUPPORTED",
            "a secret cannot be part of a statement for SQLite, where it would be readable",
        ));
    }
    Ok(script)
}

impl SqliteWork {
    fn run(&self, record: &mut StatementRecord) -> Result<(), Failure> {
        let mut connection = self.open().map_err(|error| failure(&error))?;
        let rules = Rules::apply(&mut connection).map_err(|error| failure(&error))?;
        let commands = match script::read(&self.script) {
            Ok(statements) => maintenance::for_sqlite(&statements)?,
            // SQLite has parameters by number, and reports errors about them itself.
            Err(_) => None,
        };
        let done = match commands {
            Some(commands) => self.maintain(&connection, &rules, &commands, record),
            None => self.transact(&connection, &rules, record),
        };
        done.map_err(|failure| match rules.denied() {
            Some(message) => Failure::refused("NOT_ALLOWED", message),
            None => failure,
        })
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let is_new = !Path::new(&self.file).exists();
        let mut connection = Connection::open(&self.file)?;
        connection.busy_timeout(SLICE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
        if is_new {
            // Readers and the one writer do not wait for each other.
            connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        let stopped = self.stopped.clone();
        connection.progress_handler(STEPS, Some(move || stopped.is_set()))?;
        let facts = self.facts.clone();
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function("punctual", 1, flags, move |call| {
            let name: String = call.get(0)?;
            let short = |setting: &'static str| setting.trim_start_matches("punctual.");
            match facts.iter().find(|(setting, _)| name == short(setting) || name == *setting) {
                Some((_, value)) => Ok(value.clone()),
                None => {
                    let known: Vec<_> = facts.iter().map(|(setting, _)| short(setting)).collect();
                    let problem =
                        format!("punctual({name:?}) is unknown, only {}", known.join(", "));
                    Err(rusqlite::Error::UserFunctionError(problem.into()))
                }
            }
        })?;
        Ok(connection)
    }

    /// Every statement, or none.
    fn transact(
        &self,
        connection: &Connection,
        rules: &Rules,
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        let ours = |sql: &str| rules.suspended(|| self.insist(|| connection.execute_batch(sql)));
        ours("BEGIN IMMEDIATE")?;
        let done = self.statements(connection, record);
        let done = match done {
            Ok(()) if self.stopped.is_set() => Err(Failure::stopped()),
            Ok(()) => ours("COMMIT"),
            failed => failed,
        };
        // Some errors have rolled back already.
        if done.is_err() && !connection.is_autocommit() {
            let _ = rules.suspended(|| connection.execute_batch("ROLLBACK"));
        }
        done
    }

    fn statements(
        &self,
        connection: &Connection,
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        let mut batch = Batch::new(connection, &self.script);
        while let Some(mut statement) = batch.next().map_err(|error| not_prepared(&error))? {
            if self.stopped.is_set() {
                return Err(Failure::stopped());
            }
            self.bind(&mut statement)?;
            let before = connection.total_changes();
            execute(&mut statement, record).map_err(|error| failure(&error))?;
            if connection.total_changes() != before {
                record.rows_affected += connection.changes();
            }
            record.statements += 1;
        }
        Ok(())
    }

    fn maintain(
        &self,
        connection: &Connection,
        rules: &Rules,
        commands: &[String],
        record: &mut StatementRecord,
    ) -> Result<(), Failure> {
        for command in commands {
            let vacuum = command == "VACUUM";
            let run = || self.insist(|| connection.execute_batch(command));
            if vacuum {
                rules.suspended(run)?
            } else {
                run()?
            }
            record.statements += 1;
        }
        Ok(())
    }

    /// Retries until the file is not locked, or it is time to stop.
    fn insist(&self, mut act: impl FnMut() -> rusqlite::Result<()>) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let error = match act() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_busy = error.sqlite_error_code() == Some(ffi::ErrorCode::DatabaseBusy);
            if !is_busy || self.stopped.is_set() || begun.elapsed() > self.busy_timeout {
                return Err(failure(&error));
            }
        }
    }

    fn bind(&self, statement: &mut Statement<'_>) -> Result<(), Failure> {
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).and_then(|name| name.strip_prefix(':'));
            let Some(name) = name else {
                return Err(Failure::refused(
                    "POSITIONAL_PARAMETER",
                    "a parameter is written with a colon and its name, as in :since",
                ));
            };
            let Some((_, value)) = self.parameters.iter().find(|(known, _)| known == name) else {
                let known: Vec<_> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
                return Err(super::missing_parameter(name, &known));
            };
            let bound = match value {
                Value::Null => statement.raw_bind_parameter(index, rusqlite::types::Null),
                Value::Bool(value) => statement.raw_bind_parameter(index, value),
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => statement.raw_bind_parameter(index, whole),
                    (None, real) => statement.raw_bind_parameter(index, real),
                },
                Value::String(text) => statement.raw_bind_parameter(index, text),
                // The functions of SQLite for JSON read text.
                json => statement.raw_bind_parameter(index, exact_number::to_text(json)),
            };
            bound.map_err(|error| failure(&error))?;
        }
        Ok(())
    }
}

fn execute(statement: &mut Statement<'_>, record: &mut StatementRecord) -> rusqlite::Result<()> {
    let columns = statement.column_count();
    if columns > 0 {
        record.columns(statement.column_names());
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if record.is_full() {
            record.row_unseen();
            continue;
        }
        let values = (0..columns).map(|at| row.get_ref(at).map(json));
        record.row(values.collect::<rusqlite::Result<Vec<_>>>()?.into_iter());
    }
    Ok(())
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => match serde_json::Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => Value::String(number.to_string()),
        },
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            Value::String(format!("\\x{}", digits.collect::<String>()))
        }
    }
}

/// A statement that cannot even be prepared stays so: it gets the code that PostgreSQL has for
/// that, which is not tried again.
fn not_prepared(error: &rusqlite::Error) -> Failure {
    let message = match error {
        rusqlite::Error::SqlInputError { msg, offset, sql, error }
            if error.code == ffi::ErrorCode::Unknown =>
        {
            let rest = usize::try_from(*offset).ok().and_then(|offset| sql.get(offset..));
            let near: String = rest.unwrap_or_default().chars().take(40).collect();
            format!("{msg} at {near:?}")
        }
        rusqlite::Error::SqliteFailure(code, _) if code.code == ffi::ErrorCode::Unknown => {
            error.to_string()
        }
        other => return failure(other),
    };
    Failure { code: ErrorCode::SqlState("42601".into()), message }
}

/// SQLite's error under its own name.
fn failure(error: &rusqlite::Error) -> Failure {
    use ffi::ErrorCode as Code;
    let name = match error.sqlite_error_code() {
        Some(Code::DatabaseBusy) => "SQLITE_BUSY",
        Some(Code::DatabaseLocked) => "SQLITE_LOCKED",
        Some(Code::OutOfMemory) => "SQLITE_NOMEM",
        Some(Code::ReadOnly) => "SQLITE_READONLY",
        Some(Code::OperationInterrupted) => "SQLITE_INTERRUPT",
        Some(Code::SystemIoFailure) => "SQLITE_IOERR",
        Some(Code::DatabaseCorrupt) => "SQLITE_CORRUPT",
        Some(Code::DiskFull) => "SQLITE_FULL",
        Some(Code::CannotOpen) => "SQLITE_CANTOPEN",
        Some(Code::SchemaChanged) => "SQLITE_SCHEMA",
        Some(Code::TooBig) => "SQLITE_TOOBIG",
        Some(Code::ConstraintViolation) => "SQLITE_CONSTRAINT",
        Some(Code::TypeMismatch) => "SQLITE_MISMATCH",
        Some(Code::AuthorizationForStatementDenied) => "SQLITE_AUTH",
        Some(Code::NotADatabase) => "SQLITE_NOTADB",
        _ => "SQLITE_ERROR",
    };
    Failure::other(name, error.to_string())
}
