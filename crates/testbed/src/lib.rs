//! Support for tests and benchmarks of several crates. No crate of the product depends on it.
#![expect(
    clippy::disallowed_methods,
    reason = "a server is a process, PG_BIN says where, and a fresh seed comes from the clock"
)]

#[cfg(feature = "archives")]
pub mod archives;
pub mod load;
pub mod postgres;
#[cfg(feature = "properties")]
pub mod property;
pub mod seed;
#[cfg(feature = "sqlite")]
pub mod sqlite;
