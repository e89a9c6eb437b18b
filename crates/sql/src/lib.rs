//! SQL text to statements and back.
//!
//! The lexer is sqlparser's (`lex.rs`). A [`Reader`](reader::Reader) parses its tokens without
//! backtracking: one file of `parse/` for each family of statements, and one table for the clauses
//! of a job (`clause.rs`). `define.rs` converts clauses to a definition, `print.rs` a definition to
//! clauses. A query of tables is kept as text; the crate `query` parses it.

mod clause;
mod dag;
mod define;
mod lex;
mod literal;
mod name;
mod parse;
mod print;
mod reader;
mod statement;
mod syntax;

pub use clause::{
    ActionClause, Clause, Clauses, PolicyClause, RULES, Rule, ScheduleClause, Upstream,
    UsedCalendar,
};
pub use define::{Context, Defined, Kind as RefusedKind, Refused};
pub use literal::Literal;
pub use name::quoted;
pub use parse::{
    DAG_CLAUSES, QUEUE_CLAUSES, STEP_CLAUSES, TEXT_BYTES_MAX, VERBS, parse, placeholders,
};
pub use print::{create_calendar, create_dag, create_job};
pub use statement::*;
pub use syntax::SyntaxError;
