//! Who has the rows.

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::QueryError;
use crate::table::Table;
use crate::value::{Row, Value};

/// Whoever has the rows. It answers only what the one who asks may see: nothing behind it filters.
///
/// It is called on a thread that may block.
pub trait Source: Send + Sync {
    /// The tables.
    fn tables(&self) -> &'static [Table];
    /// Begins to read a table.
    fn scan(&self, scan: &Scan) -> Result<Box<dyn Pages>, QueryError>;
    /// What the time is.
    fn now(&self) -> Timestamp;
    /// A time zone by its name.
    fn zone(&self, name: &str) -> Option<TimeZone>;
    /// Who asks, and where.
    fn session(&self) -> Session;
}

/// Who asks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The user's name.
    pub user: String,
    /// The tenant, which is the database of a client of PostgreSQL.
    pub database: String,
    /// The number that clients cancel with.
    pub backend: i32,
    /// What `version()` answers.
    pub version: String,
}

/// What is asked of a table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub table: &'static Table,
    /// What the rows must be like. SQLite looks at all of it again, so a source may answer more rows
    /// than were asked for, except where a limit comes with it: then they are all that is asked for.
    pub constraints: Vec<Constraint>,
    /// The order in which the rows must come.
    pub order: Option<Order>,
    /// No more rows than these are needed.
    pub limit: Option<u64>,
    /// The columns that are looked at.
    pub used: Used,
}

/// Columns of a table that a question looks at. The others may be left empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used(pub(crate) u64);

impl Used {
    /// All of them.
    pub const ALL: Used = Used(u64::MAX);

    /// Whether the column at a place is one of them. Those from the 64th on share one mark.
    fn has(self, field: usize) -> bool {
        self.0 & (1 << field.min(63)) != 0
    }
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The place of the column in its table.
    pub field: usize,
    /// What its value must be.
    pub is: Is,
}

/// What a value must be.
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
    /// Anything but nothing.
    Known,
}

impl Is {
    /// Whether a value is like this, as SQLite sees it.
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

/// An order of rows, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The place of the column in its table.
    pub field: usize,
    /// Whether rows without a value come first.
    pub nulls_first: bool,
}

/// The rows of a table, a page at a time.
pub trait Pages: Send {
    /// The next rows; none when there are no more. A page may be empty.
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError>;
}

/// All rows at once.
impl Pages for Option<Vec<Row>> {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        Ok(self.take())
    }
}

impl Scan {
    /// Whether the question looks at a column.
    pub fn uses(&self, name: &str) -> bool {
        self.table.field(name).is_some_and(|field| self.used.has(field))
    }

    /// The values that a column may have, if they are given.
    pub fn values(&self, name: &str) -> Option<&[Value]> {
        let field = self.table.field(name)?;
        self.constraints.iter().find_map(|constraint| match &constraint.is {
            Is::In(values) if constraint.field == field => Some(values.as_slice()),
            _ => None,
        })
    }

    /// What a column's value must be, as far as it is a range.
    pub fn ranges<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Is> {
        let field = self.table.field(name);
        self.constraints
            .iter()
            .filter(move |constraint| Some(constraint.field) == field)
            .map(|constraint| &constraint.is)
            .filter(|is| !matches!(is, Is::In(_)))
    }
}
