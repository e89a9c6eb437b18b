//! The `punctual` binary: reads the command line, runs one command, ends with its exit code.

mod client;
mod clock;
mod cmd;
mod complaint;
mod config;
mod data;
mod document;
mod executor;
mod exit;
mod logs;
mod output;
mod random;
mod signals;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report(cmd::run())
}
