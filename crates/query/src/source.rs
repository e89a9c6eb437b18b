//! The interface to the owner of the rows.

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::QueryError;
use crate::table::Table;
use crate::value::{Row, Value};

/// Provides the rows of tables. It returns only rows that the user may see; no other code filters
/// them.
///
/// Its methods are called on a thread that may block.
pub trait Source: Send + Sync {
    /// The tables.
    fn tables(&self) -> &'static [Table];
    /// Starts to scan a table.
    fn scan(&self, scan: &Scan) -> Result<Box<dyn Pages>, QueryError>;
    /// The current time.
    fn now(&self) -> Timestamp;
    /// A time zone by its name.
    fn zone(&self, name: &str) -> Option<TimeZone>;
    /// The session of the query.
    fn session(&self) -> Session;
}

/// The session of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The user's name.
    pub user: String,
    /// The tenant, which PostgreSQL clients see as the database.
    pub database: String,
    /// The process id for cancel requests.
    pub backend: i32,
    /// The result of `version()`.
    pub version: String,
}

/// A scan of a table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub table: &'static Table,
    /// Conditions on the rows. SQLite checks all of them again, so a source may return more rows,
    /// except with a limit: then it must return only matching rows.
    pub constraints: Vec<Constraint>,
    /// The required order of the rows.
    pub order: Option<Order>,
    /// The maximum number of rows that are needed.
    pub limit: Option<u64>,
    /// The columns that the query uses.
    pub used: Used,
}

/// The columns of a table that a query uses. The others may be left empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used(pub(crate) u64);

impl Used {
    /// All columns.
    pub const ALL: Used = Used(u64::MAX);

    /// Whether the query uses the column with this index. Columns from the 64th on share one bit.
    fn has(self, field: usize) -> bool {
        self.0 & (1 << field.min(63)) != 0
    }
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The index of the column in its table.
    pub field: usize,
    /// The condition on its value.
    pub is: Is,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Is {
    /// One of these.
    In(Vec<Value>),
    /// This or more.
    AtLeast(Value),
    /// More than this.
    MoreThan(Value),
    /// This or less.
    AtMost(Value),
    /// Less than this.
    LessThan(Value),
    /// Not null.
    Known,
}

impl Is {
    /// Whether a value meets the condition, by the rules of SQLite.
    pub fn meets(&self, value: &Value) -> bool {
        let order = |other: &Value| value.compare(other);
        match self {
            Is::In(values) => values.iter().any(|other| order(other) == Some(Ordering::Equal)),
            Is::AtLeast(other) => order(other).is_some_and(Ordering::is_ge),
            Is::MoreThan(other) => order(other).is_some_and(Ordering::is_gt),
            Is::AtMost(other) => order(other).is_some_and(Ordering::is_le),
            Is::LessThan(other) => order(other).is_some_and(Ordering::is_lt),
            Is::Known => *value != Value::Null,
        }
    }
}

/// A descending order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The index of the column in its table.
    pub field: usize,
    /// Whether null values come first.
    pub nulls_first: bool,
}

/// The rows of a table, a page at a time.
pub trait Pages: Send {
    /// The next rows; none at the end. A page may be empty.
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError>;
}

/// All rows at once.
impl Pages for Option<Vec<Row>> {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        Ok(self.take())
    }
}

impl Scan {
    /// Whether the query uses a column.
    pub fn uses(&self, name: &str) -> bool {
        self.table.field(name).is_some_and(|field| self.used.has(field))
    }

    /// The values that the conditions allow for a column, if they list them.
    pub fn values(&self, name: &str) -> Option<&[Value]> {
        let field = self.table.field(name)?;
        self.constraints.iter().find_map(|constraint| match &constraint.is {
            Is::In(values) if constraint.field == field => Some(values.as_slice()),
            _ => None,
        })
    }

    /// The range conditions on a column.
    pub fn ranges<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Is> {
        let field = self.table.field(name);
        self.constraints
            .iter()
            .filter(move |constraint| Some(constraint.field) == field)
            .map(|constraint| &constraint.is)
            .filter(|is| !matches!(is, Is::In(_)))
    }
}
