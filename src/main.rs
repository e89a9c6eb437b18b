//! The `punctual` binary: reads the command line, runs one command, ends with its exit code.

mod client;
mod clock;
mod cmd;
mod complaint;
mod document;
mod exit;
mod output;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report(cmd::run())
}
