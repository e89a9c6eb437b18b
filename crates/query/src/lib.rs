//! SELECT over tables of a [`Source`]: an in-memory SQLite reads them through virtual tables.
//!
//! ```text
//!   text ──▶ rewrite ──▶ SQLite ──▶ vtab ──▶ Source
//!            PostgreSQL's   plans     scans: which rows,
//!            dialect to     and       in which order,
//!            SQLite's       joins     how many
//! ```
//!
//! The connection has no file and no table of its own. An authorizer refuses everything except
//! reading the tables of the source, so a statement cannot see more than the source returns.
//!
//! A statement has a budget of time, steps and memory, and shares a [`Pool`] with all others: only
//! some of them compute at the same time, in turns.

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
