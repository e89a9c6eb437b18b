//! SELECT over tables that somebody else has: SQLite in memory reads them through virtual tables,
//! and a [`Source`] answers what they ask.
//!
//! ```text
//!   text ──▶ rewrite ──▶ SQLite ──▶ vtab ──▶ Source
//!            PostgreSQL's   plans     scans: which rows,
//!            words in       and       in which order,
//!            SQLite's       joins     how many
//! ```
//!
//! The connection has no file and no table of its own. An authorizer refuses everything but reading
//! the tables of the source, whatever the text says; so what a source hides stays hidden.

mod budget;
mod catalog;
mod engine;
mod error;
mod functions;
mod rewrite;
mod source;
mod table;
mod value;
mod vtab;

pub use engine::{Cancel, Engine, Limits, Prepared, Rows};
pub use error::{QueryError, State};
pub use source::{Constraint, Is, Order, Pages, Scan, Session, Source, Used};
pub use table::{Field, Keys, Table, tables_markdown};
pub use value::{Column, Kind, Row, Value, show_time};
