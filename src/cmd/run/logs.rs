//! `punctual run logs`: what a run wrote.
//!
//! On a terminal everything that it could act on is escaped; a pipe or a file gets the bytes as
//! the run wrote them.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;

use super::{newest, resolve};
use crate::cli_error::visible;
use crate::client::ServerArgs;
use crate::client::{Client, Flow};
use crate::clock;
use crate::cmd::job::{Waiting, wait};
use crate::exit::Failure;
use crate::output::text;

/// Which run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual run logs nightly-report
  punctual run logs -f 01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11 > run.log")]
pub struct LogsArgs {
    /// Id of the run or the begin of it, or the name of a job: its newest run
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    run: Option<String>,

    /// The newest run of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,

    /// Follow the output until the run has ended
    #[arg(short, long)]
    follow: bool,

    /// Number of the attempt, from 1 [default: the last one]
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    attempt: Option<u32>,

    /// Only this stream
    #[arg(long, value_name = "STREAM", value_parser = ["stdout", "stderr"], conflicts_with = "follow")]
    stream: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: LogsArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    let id = match (&args.run, &args.job) {
        (Some(text), _) => resolve(&client, text)?,
        (None, job) => newest(&client, job.as_deref().unwrap_or_default())?,
    };
    if args.follow {
        let run = client.get(&["v1", "executions", &id])?;
        let first = run["attempt_number"].as_u64().unwrap_or(1).max(1);
        wait(&client, &id, &Waiting { timeout: None, log_from: Some(first) })?;
    } else {
        let mut printer = Printer::new();
        let mut call = client.call(Method::GET, &["v1", "executions", &id, "logs"]);
        if let Some(attempt) = args.attempt {
            call = call.query("attempt", &attempt.to_string());
        }
        if let Some(stream) = &args.stream {
            call = call.query("stream", stream);
        }
        let mut is_empty = true;
        call.accept("text/plain").stream(None, |part| {
            is_empty &= part.is_empty();
            printer.print(part)
        })?;
        printer.end()?;
        if is_empty {
            say_empty(&client, &id)?;
        }
    }
    Ok(())
}

/// Says on stderr why there is nothing to print.
fn say_empty(client: &Client, id: &str) -> Result<(), Failure> {
    let run = client.get(&["v1", "executions", id])?;
    let status = text(&run, "status");
    let mut words = match status.as_str() {
        "PENDING" | "QUEUED" => format!("note: run {id} has not started: it is {status}"),
        "RUNNING" => format!("note: run {id} has written nothing yet; follow it with -f"),
        _ => format!("note: run {id} is {status} and wrote no output"),
    };
    let why = super::list::reason(&run);
    if !why.is_empty() {
        words.push_str(&format!(" ({why})"));
    }
    // When stderr is gone, there is no other place to report it.
    let _ = writeln!(io::stderr(), "{}", visible(&words));
    Ok(())
}

/// Prints what an attempt writes until it has ended, or the deadline has passed.
pub fn follow(
    client: &Client,
    id: &str,
    attempt: u64,
    deadline: Option<Timestamp>,
) -> Result<(), Failure> {
    let left = |at: Timestamp| at.duration_since(clock::now()).max(SignedDuration::ZERO);
    let patience = deadline.map(left);
    let mut printer = Printer::new();
    let call = client
        .call(Method::GET, &["v1", "executions", id, "logs"])
        .query("follow", "true")
        .query("attempt", &attempt.to_string())
        .accept("text/plain");
    call.stream(patience, |part| printer.print(part))?;
    printer.end()
}

/// Writes bytes to stdout, escaped when that is a terminal.
struct Printer {
    is_terminal: bool,
    /// The begin of a line that has not ended yet.
    line: Vec<u8>,
}

impl Printer {
    fn new() -> Self {
        Printer { is_terminal: io::stdout().is_terminal(), line: Vec::new() }
    }

    fn print(&mut self, part: &[u8]) -> Result<Flow, Failure> {
        let mut out = io::stdout().lock();
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
