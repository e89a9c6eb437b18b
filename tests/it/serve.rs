//! The real server as a process: it starts, is killed, starts again, and has forgotten nothing.

mod alerts;
mod client;
mod config;
mod dev;
mod killed;
mod ledger;
pub mod process;
mod restart;
mod tls;
