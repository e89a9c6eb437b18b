//! `punctual run logs`: what a run wrote.
//!
//! On a terminal everything that it could act on is escaped; a pipe or a file gets the bytes as
//! the run wrote them.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;

use super::newest;
use crate::client::{Client, Flow};
use crate::clock;
use crate::cmd::job::{Waiting, wait};
use crate::complaint::visible;
use crate::client::ServerArgs;
use crate::exit::{Exit, Failure};

/// Which run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual run logs --job nightly-report
  punctual run logs -f 01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11 > run.log")]
pub struct LogsArgs {
    /// Id of the run
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    run: Option<String>,

    /// The newest run of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: LogsArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    let id = match (&args.run, &args.job) {
        (Some(id), _) => id.clone(),
        (None, job) => newest(&client, job.as_deref().unwrap_or_default())?,
    };
    if args.follow {
        wait(&client, &id, &Waiting { timeout: None, shows_log: true })?;
    } else {
        let mut printer = Printer::new();
        let call = client.call(Method::GET, &["v1", "executions", &id, "logs"]);
        call.accept("text/plain").stream(None, |part| printer.print(part))?;
        printer.end()?;
    }
    Ok(())
}

/// Prints a run's log from a byte on until it stands still, and says up to which byte.
pub fn follow(
    client: &Client,
    id: &str,
    from: u64,
    deadline: Option<Timestamp>,
) -> Result<u64, Failure> {
    let patience = match deadline {
        Some(deadline) => Some(deadline.duration_since(clock::now()).max(SignedDuration::ZERO)),
        None => None,
    };
    let mut printer = Printer::new();
    let mut call = client
        .call(Method::GET, &["v1", "executions", id, "logs"])
        .query("follow", "true")
        .accept("text/plain");
    if from > 0 {
        call = call.from_byte(from);
    }
    match call.stream(patience, |part| printer.print(part)) {
        Ok(()) => {}
        // There is nothing behind the last byte, or nothing has been written yet.
        Err(Failure::Ended(Exit::Usage | Exit::NotFound, _)) => {}
        Err(failure) => return Err(failure),
    }
    printer.end()?;
    Ok(from + printer.printed)
}

/// Writes bytes to stdout, escaped when that is a terminal.
struct Printer {
    is_terminal: bool,
    /// The begin of a line that has not ended yet.
    line: Vec<u8>,
    printed: u64,
}

impl Printer {
    fn new() -> Self {
        Printer { is_terminal: io::stdout().is_terminal(), line: Vec::new(), printed: 0 }
    }

    fn print(&mut self, part: &[u8]) -> Result<Flow, Failure> {
        let mut out = io::stdout().lock();
        self.printed += part.len() as u64;
        if !self.is_terminal {
            out.write_all(part)?;
            out.flush()?;
            return Ok(Flow::More);
        }
        self.line.extend_from_slice(part);
        while let Some(at) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=at).collect();
            writeln!(out, "{}", escaped(&line[..at]))?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), Failure> {
        if !self.line.is_empty() {
            writeln!(io::stdout(), "{}", escaped(&std::mem::take(&mut self.line)))?;
        }
        Ok(())
    }
}

/// A line in which nothing acts on a terminal; tabs are kept.
fn escaped(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    text.split('\t').map(visible).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_does_not_act_on_the_terminal() {
        assert_eq!(escaped(b"a\tb\r"), "a\tb");
        assert_eq!(escaped(b"\x1b[31mred\x07\xff"), "\\u{1b}[31mred\\u{7}\u{fffd}");
    }
}
