//! The protocol between an agent without a store and a server: its messages, and the agent's side.
//!
//! ```text
//!   agent                                          server
//!     │  join    token ─────────────────────────▶   │  once: the token is used up, returns a key
//!     │  hello   name, labels, started attempts ──▶ │  a session: node, lease
//!     │  poll    free slots ──────(waits)─────────▶ │  ◀── assignments
//!     │  renew   every few seconds ───────────────▶ │  ◀── runs to stop
//!     │  output, secret, database ────────────────▶ │  only for runs that it was assigned
//!     │  results, as they come ───────────────────▶ │  ◀── recorded, or refused as stale
//!     │  leave ───────────────────────────────────▶ │
//! ```
//!
//! All calls use one HTTP/2 connection. The agent counts its lease from the moment in which it sent
//! the renewal, on a monotonic clock, and stops its work before the lease can have ended. A result
//! is on disk before it is reported.

mod client;
pub mod shape;
mod spool;
mod worker;

pub use client::{CallError, Client, Trust};
pub use spool::Spool;
pub use worker::{Fatal, Link, Options, Worker};
