//! The real server as a process: it starts, is killed, starts again, and has forgotten nothing.

mod client;
mod config;
mod killed;
mod process;
mod restart;
mod tls;
