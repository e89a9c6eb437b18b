//! Values on their way in and out, and what they are inside of SQLite.
//!
//! SQLite has numbers, texts and bytes. A time is a text of fixed width, so that it sorts as a time
//! and can be read wherever it turns up; a truth is 0 or 1, a UUID is its text.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::types::{ToSqlOutput, Value as Inner, ValueRef};
use uuid::Uuid;

use crate::error::{QueryError, State};

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

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] = [
        Kind::Bool,
        Kind::Int,
        Kind::Float,
        Kind::Text,
        Kind::Time,
        Kind::Uuid,
        Kind::Json,
        Kind::Bytes,
    ];

    /// The name of its type in PostgreSQL.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bool => "boolean",
            Kind::Int => "bigint",
            Kind::Float => "double precision",
            Kind::Text => "text",
            Kind::Time => "timestamp with time zone",
            Kind::Uuid => "uuid",
            Kind::Json => "json",
            Kind::Bytes => "bytea",
        }
    }

    /// The number of its type in PostgreSQL.
    pub fn oid(self) -> i64 {
        match self {
            Kind::Bool => 16,
            Kind::Int => 20,
            Kind::Float => 701,
            Kind::Text => 25,
            Kind::Time => 1184,
            Kind::Uuid => 2950,
            Kind::Json => 114,
            Kind::Bytes => 17,
        }
    }

    /// The type that a column is declared with in SQLite. The second word decides how SQLite
    /// compares its values.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Kind::Bool => "BOOL_INT",
            Kind::Int => "INT",
            Kind::Float => "REAL",
            Kind::Text => "TEXT",
            Kind::Time => "TIME_TEXT",
            Kind::Uuid => "UUID_TEXT",
            Kind::Json => "JSON_TEXT",
            Kind::Bytes => "BLOB",
        }
    }

    pub(crate) fn of_declared(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.declared() == text)
    }
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

/// A time as SQLite sees it: always as wide, so that texts sort as times do.
pub fn show_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S%.6f+00").to_string()
}

impl Value {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Value::Text(text.as_ref().into())
    }

    /// The order of two values of a kind; numbers are compared in every form, and nothing has no
    /// order.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Null, _) | (_, Value::Null) => None,
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Float(b)) => (*a as f64).partial_cmp(b),
            (Value::Float(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
            (a, b) => (a == b).then_some(Ordering::Equal),
        }
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> u64 {
        match self {
            Value::Text(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            _ => 16,
        }
    }

    /// The value for SQLite.
    pub(crate) fn inner(&self) -> ToSqlOutput<'_> {
        match self {
            Value::Null => ToSqlOutput::Owned(Inner::Null),
            Value::Bool(truth) => i64::from(*truth).into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Time(at) => show_time(*at).into(),
            Value::Uuid(id) => id.to_string().into(),
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        }
    }

    /// What SQLite says, as a value of a kind. What does not fit the kind is none.
    pub(crate) fn of(inner: ValueRef<'_>, kind: Kind) -> Option<Self> {
        let lossy = |bytes| String::from_utf8_lossy(bytes);
        Some(match (kind, inner) {
            (_, ValueRef::Null) => Value::Null,
            (Kind::Bool, ValueRef::Integer(number)) => Value::Bool(number != 0),
            (Kind::Int, ValueRef::Integer(number)) => Value::Int(number),
            (Kind::Int, ValueRef::Real(number)) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Value::Int(number as i64)
            }
            (Kind::Float, ValueRef::Integer(number)) => Value::Float(number as f64),
            (Kind::Float, ValueRef::Real(number)) => Value::Float(number),
            (Kind::Time, ValueRef::Text(bytes)) => {
                Value::Time(crate::functions::time::read(&lossy(bytes))?)
            }
            (Kind::Uuid, ValueRef::Text(bytes)) => Value::Uuid(lossy(bytes).parse().ok()?),
            (Kind::Bytes, ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => {
                Value::Bytes(bytes.into())
            }
            (Kind::Text | Kind::Json, inner) => match inner {
                ValueRef::Integer(number) => Value::text(number.to_string()),
                ValueRef::Real(number) => Value::text(number.to_string()),
                ValueRef::Text(bytes) => Value::text(lossy(bytes)),
                ValueRef::Blob(bytes) => {
                    let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
                    Value::text(format!("\\x{}", hex.collect::<String>()))
                }
                ValueRef::Null => Value::Null,
            },
            _ => return None,
        })
    }

    /// The value of a parameter as the kind that its place needs: what a client sent as text is
    /// read.
    pub(crate) fn fit(self, kind: Kind, number: usize) -> Result<Self, QueryError> {
        let Value::Text(text) = &self else { return Ok(self) };
        let word = text.trim();
        let read = match kind {
            Kind::Text | Kind::Json => return Ok(self),
            Kind::Bool => crate::functions::text::read_bool(word).map(Value::Bool),
            Kind::Int => word.parse().ok().map(Value::Int),
            Kind::Float => word.parse().ok().map(Value::Float),
            Kind::Time => crate::functions::time::read(word).map(Value::Time),
            Kind::Uuid => word.parse().ok().map(Value::Uuid),
            Kind::Bytes => return Ok(Value::Bytes(text.as_bytes().into())),
        };
        read.ok_or_else(|| {
            let text = format!("parameter ${number} is {word:?}, which is no {}", kind.name());
            QueryError::new(State::InvalidText, text)
        })
    }
}
