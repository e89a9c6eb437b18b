//! The floor: throughput of the bare database with batches written by hand. The shapes of the
//! tables and the statements are those of the peers' harness (`../shared/peers/floor`).

pub mod postgres;
pub mod sqlite;

/// Rows of a batch.
pub const BATCH: u32 = 1_000;
