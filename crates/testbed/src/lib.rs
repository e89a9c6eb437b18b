//! What tests and benchmarks of several rooms stand on. Nothing of the product depends on it.
#![expect(clippy::disallowed_methods, reason = "a server is a process, and PG_BIN may say where")]

pub mod postgres;
