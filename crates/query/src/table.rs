//! Table definitions, as data.

use std::fmt::Write;

use crate::value::Kind;

/// A table that can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub comment: &'static str,
    /// Its columns, in order.
    pub fields: &'static [Field],
    /// The columns by which the source can order rows, in descending order.
    pub orders: &'static [&'static str],
    /// How many of its last columns are arguments of a table function; 0 for a table.
    pub arguments: usize,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The conditions on it that the source can evaluate.
    pub keys: Keys,
    /// Its description.
    pub comment: &'static str,
}

/// The conditions on a column that a source can evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No conditions.
    None,
    /// Equality with one or more values: the source returns only matching rows.
    Equal,
    /// Ranges: the source may return rows outside of them.
    Range,
}

impl Table {
    /// The name inside SQLite, which has no schemas.
    pub(crate) fn inner_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The index of a column.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// The declaration of the virtual table. Columns by which the source can order are declared a
    /// second time as hidden columns that sort null as the greatest value, as PostgreSQL does.
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

/// The hidden column that replaces a nullable one in ORDER BY.
pub(crate) fn order_key(name: &str) -> String {
    format!("{name}$")
}

/// The tables as Markdown.
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
