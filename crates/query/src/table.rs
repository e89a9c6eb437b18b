//! What a table is, as data.

use std::fmt::Write;

use crate::value::Kind;

/// A table that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub comment: &'static str,
    /// Its columns, in order.
    pub fields: &'static [Field],
    /// The columns by which its source can order rows, the newest or last first.
    pub orders: &'static [&'static str],
    /// How many of its last columns are arguments of a function that makes it; 0 for a table.
    pub arguments: usize,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Which conditions on it the source makes use of.
    pub keys: Keys,
    /// What it says.
    pub comment: &'static str,
}

/// Which conditions on a column a source makes use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// One value or several: the source answers rows with them, and no others.
    Equal,
    /// Ranges: the source leaves out what it can.
    Range,
}

impl Table {
    /// The name inside of SQLite, where no schemas are.
    pub(crate) fn inner_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The place of a column.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// The statement that declares it to SQLite. The columns by which the source can order are there
    /// a second time, hidden, with nothing sorted as the greatest value, as PostgreSQL does.
    pub(crate) fn declaration(&self) -> String {
        let mut text = "CREATE TABLE x(".to_owned();
        for (n, field) in self.fields.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let hidden = if n >= self.fields.len() - self.arguments { " HIDDEN" } else { "" };
            let _ = write!(text, "{comma}\"{}\" {}{hidden}", field.name, field.kind.declared());
        }
        for name in self.orders {
            let _ = write!(text, ", \"{}\" HIDDEN", order_key(name));
        }
        text.push(')');
        text
    }
}

/// The hidden column by which rows are ordered instead of one that may be nothing.
pub(crate) fn order_key(name: &str) -> String {
    format!("{name}$")
}

/// The tables as a page for people.
pub fn tables_markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let _ = writeln!(text, "## {}.{}\n\n{}\n", table.schema, table.name, table.comment);
        let _ = writeln!(text, "| column | type | what it says |\n|---|---|---|");
        for field in table.fields {
            let _ =
                writeln!(text, "| `{}` | {} | {} |", field.name, field.kind.name(), field.comment);
        }
        text.push('\n');
    }
    text
}
