//! The end of a command: its exit code, and its message on stderr if it did not succeed.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::cli_error::{self, CliError};

/// The codes as `--help` documents them; [`Exit`] is the other half.
pub const HELP: &str = "\
Exit codes:
  0    the command did what was asked
  1    it could not be done: a file, a port or the server did not do its part
  2    the request is wrong: an unknown option, a bad expression, zone, time or field
  3    there is no such job, run or address
  4    conflict: the name is taken, the state does not allow it, or another client changed it first
  5    the key is missing or wrong, or does not allow it
  6    the server cannot be reached, or its store cannot
  7    the run that was waited for did not complete
  124  the run that was waited for had not ended in time (--timeout)
  130  interrupted (Ctrl-C)";

/// How a command ends that did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Something else failed.
    Failed = 1,
    /// The request is wrong.
    Usage = 2,
    /// The requested object does not exist.
    NotFound = 3,
    /// The state of things does not allow it.
    Conflict = 4,
    /// The key is missing, wrong, or not enough.
    Auth = 5,
    /// No server answers.
    Unreachable = 6,
    /// The awaited run did not complete.
    RunFailed = 7,
    /// The awaited run had not ended in time.
    Timeout = 124,
}

impl Exit {
    /// The end that has this code.
    pub fn of(code: u8) -> Option<Self> {
        use Exit::{Auth, Conflict, Failed, NotFound, RunFailed, Timeout, Unreachable, Usage};
        [Failed, Usage, NotFound, Conflict, Auth, Unreachable, RunFailed, Timeout]
            .into_iter()
            .find(|exit| *exit as u8 == code)
    }
}

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Output of the argument parser: a usage error, or the text of `--help` and `--version`.
    CommandLine(clap::Error),
    /// The request is understood and wrong.
    Refused(CliError),
    /// The request is fine and could not be carried out.
    Failed(CliError),
    /// It ended in another way, with something to say.
    Ended(Exit, CliError),
    /// Reading stdin or writing stdout failed.
    Io(io::Error),
}

impl Failure {
    /// A command that failed, with one line about it.
    pub fn failed(message: impl Into<String>) -> Self {
        Failure::Failed(CliError::new(message))
    }

    /// The failure with what it is about in front.
    pub fn about(self, what: &str) -> Self {
        match self {
            Failure::Ended(exit, error) => Failure::Ended(exit, error.at(what)),
            Failure::Refused(error) => Failure::Refused(error.at(what)),
            Failure::Failed(error) => Failure::Failed(error.at(what)),
            other => other,
        }
    }

    /// Says on stderr what went wrong.
    pub fn print(&self) -> io::Result<()> {
        match self {
            Failure::CommandLine(error) => print_parser_message(error),
            Failure::Refused(error) | Failure::Failed(error) | Failure::Ended(_, error) => {
                error.print()
            }
            Failure::Io(error) if is_reader_gone(error) => Ok(()),
            Failure::Io(error) => CliError::new(error.to_string()).print(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Failure::Refused(error)
    }
}

/// Says on stderr what went wrong, and turns the end of a command into the process's.
pub fn report(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    // A failure to print cannot be reported when stderr is closed as well.
    let _ = failure.print();
    ExitCode::from(code_of(&failure))
}

fn code_of(failure: &Failure) -> u8 {
    match failure {
        Failure::CommandLine(error) if !error.use_stderr() => 0,
        Failure::Io(error) if is_reader_gone(error) => 0,
        Failure::Io(_) | Failure::Failed(_) => Exit::Failed as u8,
        Failure::CommandLine(_) | Failure::Refused(_) => Exit::Usage as u8,
        Failure::Ended(exit, _) => *exit as u8,
    }
}

/// `punctual … | head`: a reader that closes the pipe is not a failure.
fn is_reader_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// The parser echoes arguments, so it may print by itself only when none of them could act on a
/// terminal.
fn print_parser_message(error: &clap::Error) -> io::Result<()> {
    let is_plain = |arg: OsString| {
        let arg = arg.to_string_lossy();
        cli_error::visible(&arg) == arg
    };
    if std::env::args_os().all(is_plain) {
        return error.print();
    }
    let mut err = io::stderr().lock();
    let text = error.render().to_string();
    text.lines().try_for_each(|line| writeln!(err, "{}", cli_error::visible(line)))
}
