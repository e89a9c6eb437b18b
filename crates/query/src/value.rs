//! Values of parameters and results, and their form inside SQLite.
//!
//! SQLite has numbers, texts and bytes. A timestamp is a text of fixed width, so that it sorts
//! correctly and can be recognised everywhere; a boolean is 0 or 1, a UUID is its text.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::types::{ToSqlOutput, Value as Inner, ValueRef};
use uuid::Uuid;

use crate::error::{QueryError, State};

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Type of texts.
    Text,
    /// An instant.
    Time,
    /// A UUID.
    Uuid,
    /// JSON, as text.
    Json,
    /// Type of byte strings.
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

    /// The name of the PostgreSQL type.
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

    /// The oid of the PostgreSQL type.
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

    /// The declared type in SQLite. Its second word sets the affinity, by which SQLite compares
    /// values.
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

/// A value of a result or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The null value.
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
    /// A byte string.
    Bytes(Arc<[u8]>),
}

/// A row of a result.
pub type Row = Vec<Value>;

/// The text form of a timestamp in SQLite, with a fixed width, so that texts sort like timestamps.
pub fn show_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S%.6f+00").to_string()
}

impl Value {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Value::Text(text.as_ref().into())
    }

    /// The order of two values of the same type; numbers of all types are compared, and null has no
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

    /// The approximate size in bytes.
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

    /// A value of SQLite as a value of this kind; none if it does not fit.
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

    /// Converts the value of a parameter to its type; text values are parsed.
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
            let text = format!(
                "parameter ${number}: invalid input syntax for type {}: {word:?}",
                kind.name()
            );
            QueryError::new(State::InvalidText, text)
        })
    }
}
