//! Starts the binary, sends it input and collects its output.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The binary, in no particular terminal.
#[expect(clippy::disallowed_methods, reason = "the tests are about a process")]
pub fn punctual<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Output and exit code of a process.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its data.
    pub stdout: String,
    /// All else.
    pub stderr: String,
}

/// Runs the binary to its end.
pub fn run<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>, input: &[u8]) -> Ended {
    let mut child = punctual(args).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let output = std::thread::scope(|scope| {
        // A process that never reads closes the pipe: not an error here.
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().expect("the binary ends")
    });
    ended(&output)
}

/// The collected end of a process.
pub fn ended(output: &Output) -> Ended {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is text");
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}
