//! How an agent that has no store talks to a server: the words of the protocol, and the agent's
//! side of it.
//!
//! ```text
//!   agent                                          server
//!     │  join    token ─────────────────────────▶   │  once: the token is spent, a key comes back
//!     │  hello   name, labels, what it has begun ─▶ │  a session: node, lease
//!     │  poll    free slots ──────(waits)─────────▶ │  ◀── assignments
//!     │  renew   every few seconds ───────────────▶ │  ◀── runs to stop
//!     │  output, secret, database ────────────────▶ │  only for runs that it was given
//!     │  results, as they come ───────────────────▶ │  ◀── recorded, or refused as stale
//!     │  leave ───────────────────────────────────▶ │
//! ```
//!
//! One connection of HTTP/2 carries it all. The agent owns its lease: it counts from the moment in
//! which it asked, on a clock that nobody can set, and stops its work before the lease can have
//! ended. What it has finished is on disk before anybody is told.

mod client;
pub mod shape;
mod spool;
mod worker;

pub use client::{CallError, Client, Trust};
pub use spool::Spool;
pub use worker::{Fatal, Link, Options, Worker};
