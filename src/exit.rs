//! How a command ends: its exit code, and what it says on stderr when it did not succeed.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::complaint::{self, Complaint};

/// The codes as `--help` documents them; [`code_of`] is the other half.
pub const HELP: &str = "\
Exit codes:
  0  the command did what was asked
  1  it could not be done: input or output failed, a port or a folder is taken
  2  the request is wrong: an unknown option, a bad expression, zone or time";

/// Why a command did not succeed.
pub enum Failure {
    /// What the argument parser said: a usage error, or the text of `--help` and `--version`.
    CommandLine(clap::Error),
    /// The request is understood and wrong.
    Refused(Complaint),
    /// The request is fine and could not be carried out.
    Failed(Complaint),
    /// Reading stdin or writing stdout failed.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Failure::Refused(complaint)
    }
}

/// Says on stderr what went wrong, and turns the end of a command into the process's.
pub fn report(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    // Nobody is left to tell when stderr is gone as well.
    let _ = match &failure {
        Failure::CommandLine(error) => print_parser_message(error),
        Failure::Refused(complaint) | Failure::Failed(complaint) => complaint.print(),
        Failure::Io(error) if is_reader_gone(error) => Ok(()),
        Failure::Io(error) => Complaint::new(error.to_string()).print(),
    };
    ExitCode::from(code_of(&failure))
}

fn code_of(failure: &Failure) -> u8 {
    match failure {
        Failure::CommandLine(error) if !error.use_stderr() => 0,
        Failure::Io(error) if is_reader_gone(error) => 0,
        Failure::Io(_) | Failure::Failed(_) => 1,
        Failure::CommandLine(_) | Failure::Refused(_) => 2,
    }
}

/// `punctual … | head`: whoever reads has enough, which is not a failure.
fn is_reader_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// The parser echoes arguments, so it may print by itself only when none of them could act on a
/// terminal.
fn print_parser_message(error: &clap::Error) -> io::Result<()> {
    let is_plain = |arg: OsString| {
        let arg = arg.to_string_lossy();
        complaint::visible(&arg) == arg
    };
    if std::env::args_os().all(is_plain) {
        return error.print();
    }
    let mut err = io::stderr().lock();
    let text = error.render().to_string();
    text.lines().try_for_each(|line| writeln!(err, "{}", complaint::visible(line)))
}
