//! A connection that executes queries.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::budget::Budget;
use crate::error::{QueryError, State, alike};
use crate::functions::{self, Type};
use crate::pool::{Account, Pool, PoolLimits};
use crate::rewrite::{Rewritten, rewrite};
use crate::source::Source;
use crate::table::Table;
use crate::value::{Column, Kind, Row, Value};
use crate::vtab::{self, Shared};

/// The budget is checked after this many steps of SQLite.
const STEPS: i32 = 200;

/// A longer statement is not cached: its plan may take many times its length.
const KEPT_TEXT_BYTES_MAX: usize = 8 << 10;

/// The maximum length of a value in a recursive query.
const RECURSIVE_BYTES_MAX: i32 = 64 << 10;

/// The limits of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum time.
    pub time: Duration,
    /// The maximum number of rows.
    pub rows: usize,
    /// The maximum number of SQLite's steps.
    pub steps: u64,
    /// The maximum number of bytes that it may read and produce.
    pub bytes: u64,
    /// The maximum memory, in bytes.
    pub memory: u64,
    /// The maximum length of a value.
    pub value_bytes: u32,
    /// The maximum length of the statement.
    pub text_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Duration::from_secs(30),
            rows: 100_000,
            steps: 2_000_000_000,
            bytes: 512 << 20,
            memory: 64 << 20,
            value_bytes: 8 << 20,
            text_bytes: 1 << 20,
        }
    }
}

/// Cancels a running query.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    is_cancelled: Arc<AtomicBool>,
    time: Option<Duration>,
}

impl Cancel {
    /// A timeout for one query, if it is shorter than the limit.
    pub fn within(time: Option<Duration>) -> Self {
        Cancel { time, ..Cancel::default() }
    }

    /// Cancels the query, permanently.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The timeout of the query, at most this.
    pub(crate) fn time_or_less(&self, time: Duration) -> Duration {
        self.time.map_or(time, |own| own.min(time))
    }
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The columns of its result.
    pub columns: Vec<Column>,
    /// The types of its parameters, from `$1` on.
    pub parameters: Vec<Kind>,
    sql: Arc<str>,
    recursive: bool,
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// Receives the rows of a result.
pub trait Sink {
    /// Takes a row at once; returns it if the buffer is full.
    fn try_put(&mut self, row: Row) -> Result<Option<Row>, QueryError>;
    /// Waits until the buffer has space, and takes the row. The statement does not compute
    /// meanwhile.
    fn put(&mut self, row: Row) -> Result<(), QueryError>;
}

/// Collects all rows, up to a maximum.
struct Collected {
    rows: Vec<Row>,
    max: usize,
}

impl Sink for Collected {
    fn try_put(&mut self, row: Row) -> Result<Option<Row>, QueryError> {
        self.put(row).map(|()| None)
    }

    fn put(&mut self, row: Row) -> Result<(), QueryError> {
        if self.rows.len() == self.max {
            return Err(QueryError::too_many_rows(self.max));
        }
        self.rows.push(row);
        Ok(())
    }
}

/// Executes queries of the tables of a source, one at a time.
pub struct Engine {
    connection: Mutex<Connection>,
    shared: Shared,
    tables: Vec<&'static Table>,
    limits: Limits,
}

impl Engine {
    /// An engine for a source, with its own pool.
    pub fn new(source: Arc<dyn Source>, limits: Limits) -> Result<Self, QueryError> {
        let pool = Pool::new(PoolLimits::default());
        Engine::in_pool(source, limits, Account::new(pool, uuid::Uuid::nil(), false))
    }

    /// An engine for a source whose statements share a pool. Creating one takes about a
    /// millisecond, so it should be reused.
    pub fn in_pool(
        source: Arc<dyn Source>,
        limits: Limits,
        account: Account,
    ) -> Result<Self, QueryError> {
        let shared = Shared { source, budget: Arc::new(Budget::new(account, limits)) };
        let tables: Vec<&'static Table> =
            shared.source.tables().iter().chain(crate::catalog::TABLES).collect();
        let connection = open(&shared, &tables, &limits).map_err(internal)?;
        Ok(Engine { connection: Mutex::new(connection), shared, tables, limits })
    }

    /// Parses a query.
    pub fn prepare(&self, text: &str) -> Result<Prepared, QueryError> {
        if text.len() > self.limits.text_bytes as usize {
            let text = format!("the statement is longer than {} bytes", self.limits.text_bytes);
            return Err(QueryError::new(State::TooMuch, text));
        }
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let _running = self.shared.budget.begin(self.shared.source.now(), Cancel::default())?;
        let rewritten = rewrite(text, &self.tables)?;
        let _forget = Forget { connection: &connection, text_bytes: rewritten.sql.len() };
        let statement = connection
            .prepare_cached(&rewritten.sql)
            .map_err(|error| self.explain(&error, Some(&rewritten)))?;
        let kinds = &rewritten.kinds;
        let columns = statement.columns().enumerate().map(|(n, column)| {
            let declared = column.decl_type().and_then(Kind::of_declared);
            let made = kinds.get(n).copied().flatten().map(|of| match of {
                Type::Of(kind) => kind,
                Type::Interval | Type::Date => Kind::Text,
            });
            Column { name: column.name().to_owned(), kind: declared.or(made).unwrap_or(Kind::Text) }
        });
        Ok(Prepared {
            columns: columns.collect(),
            parameters: rewritten.parameters,
            sql: rewritten.sql.into(),
            recursive: rewritten.recursive,
        })
    }

    /// Executes a query. Blocks the thread until the result is complete, including calls to the
    /// source.
    pub fn run(
        &self,
        prepared: &Prepared,
        parameters: &[Value],
        cancel: &Cancel,
    ) -> Result<Rows, QueryError> {
        let mut sink = Collected { rows: Vec::new(), max: self.limits.rows };
        self.each(prepared, parameters, cancel, &mut sink)?;
        Ok(Rows { columns: prepared.columns.clone(), rows: sink.rows })
    }

    /// Executes a query row by row, without a limit of rows.
    pub fn each(
        &self,
        prepared: &Prepared,
        parameters: &[Value],
        cancel: &Cancel,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (wanted, given) = (prepared.parameters.len(), parameters.len());
        if wanted != given {
            let text = format!("the statement has {wanted} parameters, and {given} were given");
            return Err(QueryError::new(State::Mismatch, text));
        }
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = &self.shared.budget;
        let _running = budget.begin(self.shared.source.now(), cancel.clone())?;
        let longest = self.limits.value_bytes.min(i32::MAX as u32) as i32;
        let longest = if prepared.recursive { longest.min(RECURSIVE_BYTES_MAX) } else { longest };
        let said = |error: rusqlite::Error| self.explain(&error, None);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest).map_err(internal)?;
        let _forget = Forget { connection: &connection, text_bytes: prepared.sql.len() };
        let mut statement = connection.prepare_cached(&prepared.sql).map_err(said)?;
        for (n, (value, kind)) in parameters.iter().zip(&prepared.parameters).enumerate() {
            let value = value.clone().fit(*kind, n + 1)?;
            // A parameter that the statement does not use is not bound.
            if n < statement.parameter_count() {
                statement.raw_bind_parameter(n + 1, value.inner()).map_err(said)?;
            }
        }
        let mut rows = statement.raw_query();
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(()),
                Err(error) => return Err(said(error)),
            };
            let mut values = Row::with_capacity(prepared.columns.len());
            for (n, column) in prepared.columns.iter().enumerate() {
                let inner = row.get_ref(n).map_err(said)?;
                let value = Value::of(inner, column.kind).ok_or_else(|| {
                    let text = format!(
                        "a value of column \"{}\" is not of type {}",
                        column.name,
                        column.kind.name()
                    );
                    QueryError::new(State::Mismatch, text).hint("Add a cast.".to_owned())
                })?;
                budget.spend(value.size()).map_err(said)?;
                values.push(value);
            }
            if let Some(values) = sink.try_put(values)? {
                budget.aside(|| sink.put(values))??;
            }
        }
    }

    /// Converts an error of SQLite.
    fn explain(&self, error: &rusqlite::Error, rewritten: Option<&Rewritten>) -> QueryError {
        if let Some(fault) = self.shared.budget.take_fault() {
            return fault;
        }
        if error.sqlite_error_code() == Some(ErrorCode::OutOfMemory) {
            return self.shared.budget.out_of_memory();
        }
        let said = match error {
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            error => error.to_string(),
        };
        let place = |name: &str| {
            let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
            let names = &rewritten?.names;
            names.iter().rev().find(|(known, _)| *known == last).map(|(_, at)| *at)
        };
        if let Some(name) = said.strip_prefix("no such column: ") {
            let name = name.split(" - ").next().unwrap_or(name).trim_matches('"');
            let (of, last) = match name.rsplit_once('.') {
                Some((of, last)) => (Some(of), last),
                None => (None, name),
            };
            let asked = rewritten.into_iter().flat_map(|rewritten| &rewritten.tables);
            let asked = asked.filter(|(alias, _)| of.is_none_or(|of| of == *alias));
            let hint = alike(last, asked.flat_map(|(_, table)| table.fields).map(|it| it.name));
            let text = format!("column \"{name}\" does not exist");
            return QueryError::new(State::NoColumn, text).at(place(name)).hint(hint);
        }
        if let Some(name) = said.strip_prefix("ambiguous column name: ") {
            let text = format!("column reference \"{name}\" is ambiguous");
            return QueryError::new(State::Ambiguous, text).at(place(name));
        }
        let state = match said.as_str() {
            said if said.contains("syntax error") => State::Syntax,
            said if said.starts_with("no such function") => State::NoFunction,
            said if said.starts_with("wrong number of arguments") => State::NoFunction,
            said if said.starts_with("no such table") => State::NoTable,
            said if said.contains("not authorized") || said.contains("prohibited") => {
                State::Refused
            }
            said if said.contains("too big")
                || said.contains("too many")
                || said.contains("too large") =>
            {
                State::TooMuch
            }
            said if said.contains("depth") => State::TooMuch,
            said if said.contains("interrupted") => State::Cancelled,
            said if said.contains("integer overflow") => State::InvalidValue,
            said if said.contains("malformed JSON") => State::InvalidText,
            said if said.contains("datatype mismatch") => State::Mismatch,
            _ => State::NotSupported,
        };
        QueryError::new(state, said)
    }
}

/// Clears the statement cache after a long statement.
struct Forget<'a> {
    connection: &'a Connection,
    text_bytes: usize,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if self.text_bytes > KEPT_TEXT_BYTES_MAX {
            self.connection.flush_prepared_statement_cache();
        }
    }
}

fn internal(error: rusqlite::Error) -> QueryError {
    QueryError::new(State::Internal, error.to_string())
}

/// Opens a connection with the virtual tables and nothing else.
fn open(
    shared: &Shared,
    tables: &[&'static Table],
    limits: &Limits,
) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_in_memory_with_flags(flags)?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, limits.value_bytes.min(i32::MAX as u32) as i32),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 8 * limits.text_bytes.min(1 << 24) as i32),
        (Limit::SQLITE_LIMIT_COLUMN, 500),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 500),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 1_000),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.set_prepared_statement_cache_capacity(16);
    // Sorting and grouping use memory, which is limited, and never the disk.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    for table in tables {
        vtab::register(&connection, table, shared.clone())?;
    }
    functions::register(&connection, shared)?;
    let names: HashSet<String> = tables.iter().map(|table| table.inner_name()).collect();
    connection.authorizer(Some(move |context: AuthContext<'_>| allow(&names, &context)))?;
    let budget = Arc::clone(&shared.budget);
    connection.progress_handler(STEPS, Some(move || budget.step(STEPS as u64)))?;
    Ok(connection)
}

/// The authorizer: only reading the tables is allowed.
fn allow(tables: &HashSet<String>, context: &AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        // SQLite reports rows of a subquery under its alias.
        AuthAction::Read { table_name, column_name: "" } => {
            !table_name.starts_with("sqlite_") && !table_name.starts_with("pragma_")
        }
        AuthAction::Read { table_name, .. } => tables.contains(table_name),
        AuthAction::Function { function_name } => {
            functions::answers(&function_name.to_lowercase()).is_some()
                || matches!(function_name, "->" | "->>")
        }
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}
