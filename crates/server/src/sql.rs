//! SQL at the doors: a session runs statements in the name of an actor.

use query::{Column, Row};

use crate::problem::Problem;

/// What a statement answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The columns of its rows; none if it answers none.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What it did, as clients of PostgreSQL expect it: `CREATE JOB`, `SELECT 3`.
    pub tag: String,
    /// What its author should know.
    pub notices: Vec<String>,
}

/// Why a statement did not run.
#[derive(Debug)]
pub struct SqlError {
    /// What is wrong.
    pub problem: Problem,
    /// Another SQLSTATE than the problem's.
    pub sqlstate: Option<&'static str>,
    /// The byte of the text at which it is.
    pub at: Option<usize>,
    /// What would be right.
    pub hint: Option<String>,
}
