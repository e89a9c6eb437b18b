//! The `punctual` binary: reads the command line, runs one command, ends with its exit code.

mod clock;
mod cmd;
mod complaint;
mod config;
mod data;
mod executor;
mod exit;
mod logs;
mod random;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report(cmd::run())
}
