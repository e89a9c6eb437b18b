//! Logs, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli_error::CliError;
use crate::config::Config;

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For programs.
    Json,
}

impl LogFormat {
    /// The form that the settings ask for.
    pub fn of(config: &Config) -> Result<Self, CliError> {
        match config.text("log_format") {
            "pretty" => Ok(LogFormat::Pretty),
            "json" => Ok(LogFormat::Json),
            "auto" if std::io::stderr().is_terminal() => Ok(LogFormat::Pretty),
            "auto" => Ok(LogFormat::Json),
            _ => Err(config.wrong("log_format", "pretty, json or auto")),
        }
    }
}

/// Begins to log.
pub fn start(config: &Config, format: LogFormat) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(config.text("log")).map_err(|_| {
        config.wrong("log", "a level such as info, or targets such as punctual_engine=debug")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Pretty => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
    };
    // A second start in one process logs where the first one does.
    let _ = started;
    Ok(())
}
