//! The `punctual` binary: reads the command line, runs one command, ends with its exit code. The
//! agent starts it as its helper, too.

mod alerts;
mod artifacts;
mod backup;
mod channels;
mod cli_error;
mod client;
mod clock;
mod cmd;
mod config;
mod data;
mod document;
mod executor;
mod exit;
mod jobs;
mod key_custody;
mod logs;
mod otlp;
mod output;
mod progress;
mod random;
mod signals;
mod start_log;
mod table;
mod times;
mod tls;
mod tokens;
mod watch;

use std::process::ExitCode;

#[expect(clippy::disallowed_methods, reason = "a setting of the C library, not of ours")]
fn main() -> ExitCode {
    if let Some(code) = agent::sandbox::helper_main() {
        return code;
    }
    // One arena for each processor, unless the environment says otherwise: the server's memory after
    // a burst of requests is then close to what it uses.
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        spawn::limit_arenas(std::thread::available_parallelism().map_or(2, usize::from));
    }
    exit::report(cmd::run())
}
