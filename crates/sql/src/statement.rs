//! What a text can ask for.

use std::ops::Range;

/// A statement and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What it asks for.
    pub statement: Statement,
    /// Its bytes in the text.
    pub place: Range<usize>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A question about tables: SELECT, WITH, VALUES. The room `query` reads it.
    Select(String),
}
