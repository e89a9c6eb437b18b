//! SELECT over tables that somebody else has: SQLite in memory reads them through virtual tables,
//! and [`Source`] answers what they ask.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text.
    Text,
    /// An instant.
    Time,
    /// A UUID.
    Uuid,
    /// JSON, as text.
    Json,
    /// Bytes.
    Bytes,
}

/// A value of an answer, or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text, or JSON as text.
    Text(Arc<str>),
    /// An instant.
    Time(Timestamp),
    /// A UUID.
    Uuid(Uuid),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

/// A row of an answer.
pub type Row = Vec<Value>;
