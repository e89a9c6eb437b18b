//! The real server as a process: it starts, is killed, starts again, and has forgotten nothing.

mod alerts;
mod audit;
mod backup;
pub mod client;
mod config;
mod dev;
mod explain;
pub mod exposition;
mod killed;
pub mod ledger;
mod logs;
pub mod metrics;
pub mod process;
mod restart;
mod sealed;
mod secrets;
mod sink;
mod slots;
mod store;
pub mod tls;
mod tokens;
mod traces;
