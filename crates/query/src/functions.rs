//! PostgreSQL functions that SQLite does not have.
//!
//! Every scalar function that produces text is here, also those that SQLite has, because their
//! results count against the budget.

pub(crate) mod aggregate;
pub(crate) mod array;
pub(crate) mod interval;
mod json;
pub(crate) mod number;
mod pattern;
pub(crate) mod pg;
pub(crate) mod text;
pub(crate) mod time;

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value as Inner, ValueRef};

use crate::error::{QueryError, State};
use crate::value::Kind;
use crate::vtab::Shared;

/// The type of an expression during the rewrite: the kinds, and two internal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// One of the kinds.
    Of(Kind),
    /// An interval, as text.
    Interval,
    /// A date, as text.
    Date,
}

/// The result type of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// A fixed type.
    Is(Type),
    /// The type of this argument.
    Like(usize),
}

/// The result of a function call.
pub(crate) type Answer = Result<Inner, QueryError>;

/// A scalar function.
pub(crate) struct Scalar {
    /// Its name.
    pub name: &'static str,
    /// The minimum and maximum number of arguments.
    pub arguments: (usize, usize),
    /// Whether a null argument makes the result null.
    pub strict: bool,
    /// The result type.
    pub answers: Answers,
    /// The implementation.
    pub call: fn(&Shared, &Arguments<'_>) -> Answer,
}

const TEXT: Answers = Answers::Is(Type::Of(Kind::Text));
const INT: Answers = Answers::Is(Type::Of(Kind::Int));
const FLOAT: Answers = Answers::Is(Type::Of(Kind::Float));
const BOOL: Answers = Answers::Is(Type::Of(Kind::Bool));
const UUID: Answers = Answers::Is(Type::Of(Kind::Uuid));
const JSON: Answers = Answers::Is(Type::Of(Kind::Json));
const TIME: Answers = Answers::Is(Type::Of(Kind::Time));
const DATE: Answers = Answers::Is(Type::Date);
const INTERVAL: Answers = Answers::Is(Type::Interval);

/// A function that returns null if an argument is null.
const fn strict(
    name: &'static str,
    arguments: (usize, usize),
    answers: Answers,
    call: fn(&Shared, &Arguments<'_>) -> Answer,
) -> Scalar {
    Scalar { name, arguments, strict: true, answers, call }
}

/// A function that handles null arguments itself.
const fn loose(
    name: &'static str,
    arguments: (usize, usize),
    answers: Answers,
    call: fn(&Shared, &Arguments<'_>) -> Answer,
) -> Scalar {
    Scalar { name, arguments, strict: false, answers, call }
}

/// The arguments of a call.
pub(crate) struct Arguments<'a>(Vec<ValueRef<'a>>);

impl Arguments<'_> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn raw(&self, n: usize) -> ValueRef<'_> {
        self.0.get(n).copied().unwrap_or(ValueRef::Null)
    }

    pub fn is_null(&self, n: usize) -> bool {
        self.raw(n) == ValueRef::Null
    }

    /// An argument as text.
    pub fn text(&self, n: usize) -> String {
        show(self.raw(n))
    }

    /// An argument as a whole number.
    pub fn int(&self, n: usize) -> Result<i64, QueryError> {
        match self.raw(n) {
            ValueRef::Integer(number) => Ok(number),
            ValueRef::Real(number) => Ok(number as i64),
            other => {
                let text = show(other);
                text.trim().parse().map_err(|_| wrong(&text, "a whole number"))
            }
        }
    }

    /// An argument as a number.
    pub fn float(&self, n: usize) -> Result<f64, QueryError> {
        match self.raw(n) {
            ValueRef::Integer(number) => Ok(number as f64),
            ValueRef::Real(number) => Ok(number),
            other => {
                let text = show(other);
                text.trim().parse().map_err(|_| wrong(&text, "a number"))
            }
        }
    }
}

/// The text form of a value.
pub(crate) fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}

/// An owned copy of a value.
pub(crate) fn own(value: ValueRef<'_>) -> Inner {
    match value {
        ValueRef::Null => Inner::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(_) => show(value).into(),
        ValueRef::Blob(bytes) => bytes.to_vec().into(),
    }
}

/// The error for a text that cannot be converted.
pub(crate) fn wrong(text: &str, wanted: &str) -> QueryError {
    let short: String = text.chars().take(60).collect();
    QueryError::new(State::InvalidText, format!("{short:?} is not {wanted}"))
}

/// All scalar functions.
pub(crate) fn scalars() -> impl Iterator<Item = &'static Scalar> {
    [text::SCALARS, number::SCALARS, time::SCALARS, interval::SCALARS, pg::SCALARS]
        .into_iter()
        .flatten()
}

/// Functions of SQLite whose results are not larger than their arguments.
pub(crate) const BUILT_IN: &[(&str, Option<Answers>)] = {
    use Answers::{Is, Like};
    const INT: Option<Answers> = Some(Is(Type::Of(Kind::Int)));
    const FLOAT: Option<Answers> = Some(Is(Type::Of(Kind::Float)));
    const TEXT: Option<Answers> = Some(Is(Type::Of(Kind::Text)));
    const FIRST: Option<Answers> = Some(Like(0));
    &[
        ("count", INT),
        ("sum", FIRST),
        ("avg", FLOAT),
        ("min", FIRST),
        ("max", FIRST),
        ("string_agg", TEXT),
        ("group_concat", TEXT),
        ("abs", FIRST),
        ("coalesce", FIRST),
        ("nullif", FIRST),
        ("ifnull", FIRST),
        ("length", INT),
        ("octet_length", INT),
        ("sign", INT),
        ("round", FLOAT),
        ("row_number", INT),
        ("rank", INT),
        ("dense_rank", INT),
        ("ntile", INT),
        ("percent_rank", FLOAT),
        ("cume_dist", FLOAT),
        ("lag", FIRST),
        ("lead", FIRST),
        ("first_value", FIRST),
        ("last_value", FIRST),
        ("nth_value", FIRST),
        ("json_extract", None),
        ("json_array_length", INT),
        ("json_type", TEXT),
        ("json_valid", Some(Is(Type::Of(Kind::Bool)))),
    ]
};

/// The result type of a function; none if the function does not exist.
pub(crate) fn answers(name: &str) -> Option<Option<Answers>> {
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, answers)| *answers);
    built_in
        .or_else(|| aggregate::answers(name).map(Some))
        .or_else(|| scalars().find(|scalar| scalar.name == name).map(|known| Some(known.answers)))
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let built_in = BUILT_IN.iter().map(|(name, _)| *name);
    let scalars = scalars().map(|scalar| scalar.name).filter(|name| !name.starts_with('_'));
    built_in.chain(scalars).chain(aggregate::NAMES.iter().copied())
}

/// Registers all functions with a connection.
pub(crate) fn register(connection: &Connection, shared: &Shared) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for scalar in scalars() {
        let shared = shared.clone();
        connection.create_scalar_function(scalar.name, -1, flags, move |context| {
            let values: Vec<_> = (0..context.len()).map(|n| context.get_raw(n)).collect();
            let arguments = Arguments(values);
            call(scalar, &shared, &arguments)
        })?;
    }
    aggregate::register(connection, &Arc::clone(&shared.budget))
}

fn call(scalar: &Scalar, shared: &Shared, arguments: &Arguments<'_>) -> rusqlite::Result<Inner> {
    let (least, most) = scalar.arguments;
    if !(least..=most).contains(&arguments.len()) {
        let text = format!("{}() takes {least} to {most} arguments", scalar.name);
        return Err(shared.budget.fail(QueryError::new(State::NoFunction, text)));
    }
    if scalar.strict && (0..arguments.len()).any(|n| arguments.is_null(n)) {
        return Ok(Inner::Null);
    }
    match (scalar.call)(shared, arguments) {
        Ok(value) => {
            if let Inner::Text(text) = &value {
                shared.budget.spend(text.len() as u64)?;
            }
            Ok(value)
        }
        Err(error) => Err(shared.budget.fail(error)),
    }
}
