//! The real server as a process: it starts, is killed, starts again, and has forgotten nothing.

mod alerts;
mod audit;
mod client;
mod config;
mod dev;
mod killed;
pub mod process;
mod restart;
mod secrets;
mod tls;
