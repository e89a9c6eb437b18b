//! The `punctual` binary: reads the command line, runs one command, ends with its exit code. The
//! agent starts it as its helper, too.

mod alerts;
mod backup;
mod channels;
mod client;
mod clock;
mod cmd;
mod complaint;
mod config;
mod custody;
mod data;
mod document;
mod executor;
mod exit;
mod jobs;
mod logs;
mod otlp;
mod output;
mod progress;
mod random;
mod signals;
mod start_log;
mod table;
mod tls;
mod tokens;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = agent::sandbox::helper_main() {
        return code;
    }
    exit::report(cmd::run())
}
