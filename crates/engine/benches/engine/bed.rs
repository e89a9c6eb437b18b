//! Where a store lives while it is measured.

use std::sync::Arc;

use anyhow::Result;
use store::FullStore;

use crate::measurement::Measurement;

pub mod postgres;
pub mod server;
pub mod sqlite;

/// A place for databases, and direct access of a benchmark to them.
#[allow(async_fn_in_trait, reason = "nobody outside this benchmark implements it")]
pub trait Bed {
    type Store: FullStore;

    /// A store on an empty database.
    async fn fresh(&self) -> Result<Arc<Self::Store>>;

    /// Brings the current database to rest, so that the next measurement does not pay for the last.
    async fn settle(&self) -> Result<()>;

    /// The same, and does the maintenance that the database would do later by itself.
    async fn tidy(&self) -> Result<()>;

    /// How many rows the history of the present database has.
    async fn ended(&self) -> Result<u64>;

    /// How many live rows the present database has.
    async fn live(&self) -> Result<u64>;

    /// Writes old history into the present database.
    async fn write_history(&self, rows: u64) -> Result<()>;

    /// Where another process finds the present database.
    fn address(&self) -> String;

    /// The process of the server, if there is one.
    fn server(&self) -> Option<u32>;

    /// Baseline: the bare database with so many rows.
    async fn floor(&self, runs: u32) -> Result<Vec<Measurement>>;
}
