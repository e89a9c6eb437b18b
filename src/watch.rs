//! `--watch`: a list that is printed again and again, until Ctrl-C.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use domain::schedule::parse_duration;
use jiff::SignedDuration;

use crate::client::Client;
use crate::exit::Failure;

/// Moves to the first line of a terminal and erases what is on it.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// Whether a list is printed once.
#[derive(Args, Clone, Copy, Default)]
pub struct WatchArgs {
    /// Print it again every 2 seconds, or every DURATION, until Ctrl-C
    #[arg(
        long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
        default_missing_value = "2s", value_parser = interval,
    )]
    watch: Option<SignedDuration>,
}

fn interval(text: &str) -> Result<SignedDuration, String> {
    match parse_duration(text) {
        Ok(length) if length < SignedDuration::from_millis(100) => {
            Err("it must be at least 100ms".to_owned())
        }
        Ok(length) => Ok(length),
        Err(error) => Err(error.problem),
    }
}

impl WatchArgs {
    /// Prints once, or until the process is stopped or something fails.
    pub fn run(
        self,
        client: &Client,
        mut print: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(pause) = self.watch else { return print() };
        let mut out = io::stdout();
        loop {
            if out.is_terminal() {
                out.write_all(CLEAR.as_bytes())?;
            }
            print()?;
            client.sleep(pause);
            if !out.is_terminal() {
                // The next changes are relative to what was printed.
                writeln!(out)?;
            }
        }
    }
}
