//! One suite for every store, and tests of a single store.
//!
//! [`suite`] holds the promises of the `Store` trait, written once; each runs as
//! `sqlite::<verb>::<promise>` and as `postgres::<verb>::<promise>`, on a database of its own.
//! The other modules are about crashes, full disks and schemas.

extern crate punctual_store as store;

mod audit_lost;
mod bench;
mod lab;
mod postgres_bench;
mod postgres_effects;
mod postgres_enqueue;
mod postgres_locks;
mod postgres_only;
mod postgres_pages;
mod postgres_partitions;
mod postgres_plans;
mod postgres_refused;
mod postgres_statements;
mod postgres_tls;
mod replay;
mod schema;
mod sqlite_only;
mod suite;
