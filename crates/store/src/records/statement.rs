//! Portable statements and their parameters.

use std::borrow::Cow;
use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Rows of one statement that [`Statement::of_rows`] makes.
const ROWS: usize = 25;

/// A parameter with its type; none stands for null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Param {
    /// A number, or a time in microseconds.
    Int(Option<i64>),
    /// A truth value.
    Bool(Option<bool>),
    /// A text parameter.
    Text(Option<String>),
    /// A binary parameter.
    Bytes(Option<Vec<u8>>),
    /// An id.
    Uuid(Option<Uuid>),
}

/// Makes parameters of values and of optional values.
macro_rules! param_from {
    ($($kind:ty => $variant:ident($convert:expr);)*) => {
        $(
            impl From<$kind> for Param {
                fn from(value: $kind) -> Self {
                    Param::from(Some(value))
                }
            }

            impl From<Option<$kind>> for Param {
                fn from(value: Option<$kind>) -> Self {
                    Param::$variant(value.map($convert))
                }
            }
        )*
    };
}

param_from! {
    i64 => Int(|number| number);
    u8 => Int(i64::from);
    u16 => Int(i64::from);
    u32 => Int(i64::from);
    u64 => Int(|number| i64::try_from(number).unwrap_or(i64::MAX));
    Timestamp => Int(Timestamp::as_microsecond);
    SignedDuration => Int(microseconds);
    bool => Bool(|value| value);
    &str => Text(str::to_owned);
    &String => Text(String::clone);
    String => Text(|text| text);
    &[u8] => Bytes(<[u8]>::to_vec);
    Vec<u8> => Bytes(|bytes| bytes);
    Uuid => Uuid(|id| id);
}

/// A duration as it is stored: far enough for every calendar, and small enough to be added to any
/// time.
fn microseconds(span: SignedDuration) -> i64 {
    const SPAN_MAX: i128 = 1 << 60;
    span.as_micros().clamp(-SPAN_MAX, SPAN_MAX) as i64
}

/// The parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::records::Param::from($value)),*]
    };
}
pub(crate) use params;

/// The text of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sql {
    /// One text for both databases.
    Common(Cow<'static, str>),
    /// A text for each, where they keep the same facts in different tables.
    Differs {
        /// The text for PostgreSQL.
        postgres: &'static str,
        /// The text for SQLite.
        sqlite: &'static str,
    },
}

/// The text for SQLite: only SQLite's writes are recorded as values.
impl Serialize for Sql {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Sql::Common(sql) => sql.serialize(to),
            Sql::Differs { sqlite, .. } => sqlite.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Sql {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Sql::from)
    }
}

impl From<&'static str> for Sql {
    fn from(sql: &'static str) -> Self {
        Sql::Common(Cow::Borrowed(sql))
    }
}

impl From<String> for Sql {
    fn from(sql: String) -> Self {
        Sql::Common(Cow::Owned(sql))
    }
}

/// One statement with its parameters and its expected result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statement {
    sql: Sql,
    params: Vec<Param>,
    expected: Option<u64>,
}

impl Statement {
    /// A statement that may write any number of rows.
    pub fn new(sql: impl Into<Sql>, params: Vec<Param>) -> Self {
        Statement { sql: sql.into(), params, expected: None }
    }

    /// Statements for many rows, as few as possible. `{rows}` in the text becomes `(…), (…)`. Each
    /// text has one of two lengths, so that both stay prepared.
    pub fn of_rows(sql: &'static str, rows: Vec<Vec<Param>>) -> impl Iterator<Item = Self> {
        let mut rows = rows.into_iter().peekable();
        std::iter::from_fn(move || {
            rows.peek()?;
            let count = if rows.len() >= ROWS { ROWS } else { 1 };
            let chunk: Vec<Vec<Param>> = rows.by_ref().take(count).collect();
            let places = places(&chunk);
            let params = chunk.into_iter().flatten().collect();
            Some(Statement::new(sql.replace("{rows}", &places), params))
        })
    }

    /// The same if it writes exactly so many rows; otherwise, and if it violates a unique
    /// constraint, its whole transaction is undone. The statement must return its rows
    /// (`RETURNING`), by which PostgreSQL counts them.
    #[must_use]
    pub fn expect_rows(self, expected: u64) -> Self {
        Statement { expected: Some(expected), ..self }
    }

    /// The same if it writes exactly one row.
    #[must_use]
    pub fn expect_row(self) -> Self {
        self.expect_rows(1)
    }

    /// How many rows it must write; none for any number.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// The parameters in the order of their numbers.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// The text for PostgreSQL.
    pub(crate) fn for_postgres(&self) -> Cow<'_, str> {
        let sql = match &self.sql {
            Sql::Common(sql) => sql.as_ref(),
            Sql::Differs { postgres, .. } => postgres,
        };
        if sql.contains("{now}") {
            Cow::Owned(sql.replace("{now}", "clock()"))
        } else {
            Cow::Borrowed(sql)
        }
    }

    /// The text for SQLite, and whether the time is a parameter behind the others.
    pub(crate) fn for_sqlite(&self) -> (String, bool) {
        let sql = match &self.sql {
            Sql::Common(sql) => sql.as_ref(),
            Sql::Differs { sqlite, .. } => sqlite,
        };
        let sql = sql.replace('$', "?");
        if sql.contains("{now}") {
            let now = format!("?{}", self.params.len() + 1);
            (sql.replace("{now}", &now), true)
        } else {
            (sql, false)
        }
    }
}

/// The places of the values of some rows: `($1, $2), ($3, $4)`.
fn places(rows: &[Vec<Param>]) -> String {
    let mut places = String::new();
    let mut number = 0;
    for (index, row) in rows.iter().enumerate() {
        places.push_str(if index == 0 { "(" } else { ", (" });
        for column in 0..row.len() {
            number += 1;
            let comma = if column == 0 { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(places, "{comma}${number}");
        }
        places.push(')');
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_gets_its_own_text() {
        for (sql, params, postgres, sqlite) in [
            ("SELECT 1", params![], "SELECT 1", ("SELECT 1", false)),
            ("SELECT $1, $2", params![1_i64, "a"], "SELECT $1, $2", ("SELECT ?1, ?2", false)),
            ("SELECT {now} - $1", params![1_i64], "SELECT clock() - $1", ("SELECT ?2 - ?1", true)),
            ("SELECT {now}, {now}", params![], "SELECT clock(), clock()", ("SELECT ?1, ?1", true)),
        ] {
            let statement = Statement::new(sql, params);
            assert_eq!(statement.for_postgres(), postgres);
            assert_eq!(statement.for_sqlite(), (sqlite.0.to_owned(), sqlite.1));
        }
        let differs = Sql::Differs { postgres: "SELECT $1", sqlite: "SELECT $1, {now}" };
        let statement = Statement::new(differs, params![1_i64]);
        assert_eq!(statement.for_postgres(), "SELECT $1");
        assert_eq!(statement.for_sqlite(), ("SELECT ?1, ?2".to_owned(), true));
    }

    #[test]
    fn many_rows_are_few_statements_of_two_lengths() {
        for (rows, statements) in
            [(0, 0), (1, 1), (ROWS - 1, ROWS - 1), (ROWS, 1), (2 * ROWS + 2, 4)]
        {
            let values = (0..rows as i64).map(|number| params![number, "a"]).collect();
            let made: Vec<_> = Statement::of_rows("VALUES {rows}", values).collect();
            assert_eq!(made.len(), statements, "{rows} rows");
            let params: Vec<_> = made.iter().flat_map(|each| each.params().to_vec()).collect();
            let numbers: Vec<_> = params.iter().step_by(2).cloned().collect();
            assert_eq!(numbers, (0..rows as i64).map(Param::from).collect::<Vec<_>>());
        }
        let two = vec![params![1_i64, 2_i64], params![3_i64, 4_i64]];
        assert_eq!(places(&two), "($1, $2), ($3, $4)");
    }
}
