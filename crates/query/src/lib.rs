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
//!
//! A statement has a budget of time, steps and memory, and shares a [`Pool`] with all others: only
//! some of them compute at the same time, by turns.

mod budget;
mod catalog;
mod engine;
mod error;
mod functions;
mod memory;
mod pool;
mod rewrite;
mod source;
mod table;
mod turns;
mod value;
mod vtab;

pub use engine::{Cancel, Engine, Limits, Prepared, Rows, Sink};
pub use error::{QueryError, State};
pub use memory::count_memory;
pub use pool::{Account, Pool, PoolLimits};
pub use source::{Constraint, Is, Order, Pages, Scan, Session, Source, Used};
pub use table::{Field, Keys, Table, tables_markdown};
pub use value::{Column, Kind, Row, Value, show_time};
