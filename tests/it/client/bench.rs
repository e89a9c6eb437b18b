//! A server in a folder of its own, and commands that talk to it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ended, ended, punctual};

/// A running server. It ends with the value.
pub struct Server {
    folder: TempDir,
    child: Child,
}

/// The binary, without anything that this machine's user has set.
fn clean<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>, home: &Path) -> Command {
    let mut command = punctual(args);
    for name in ["SERVER", "TOKEN", "TOKEN_FILE", "DATA", "CONTEXT", "CONFIG", "TENANT"] {
        command.env_remove(format!("PUNCTUAL_{name}"));
    }
    command.env_remove("XDG_CONFIG_HOME").env("HOME", home).current_dir(home);
    command
}

impl Server {
    /// Starts a server and waits until it logs that it is ready.
    pub fn start() -> Self {
        Server::with(&[])
    }

    /// The same with variables in its environment.
    pub fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command =
            clean(["serve", "--data", "data", "--http", "127.0.0.1:0"], folder.path());
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::null()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is a pipe")).lines();
        let mut said = Vec::new();
        loop {
            match lines.next() {
                Some(Ok(line)) if line.contains("is ready") => break,
                Some(Ok(line)) => said.push(line),
                _ => panic!("the server did not start: {said:#?}"),
            }
        }
        // It would stop at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server { folder, child }
    }

    /// A command that finds the server by its data folder.
    pub fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = clean(args, self.folder.path());
        command.env("PUNCTUAL_DATA", self.path("data"));
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        ended(&self.command(args).output().expect("the binary runs"))
    }

    /// Runs a command with something on its stdin.
    pub fn feed(&self, args: &[&str], input: &str) -> Ended {
        let mut child = self.command(args).spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        stdin.write_all(input.as_bytes()).expect("the command reads");
        drop(stdin);
        ended(&child.wait_with_output().expect("the binary ends"))
    }

    /// Runs a command that must succeed, and gives its stdout.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{args:?} {ended:?}");
        ended.stdout
    }

    /// Runs a command that must succeed with JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ok(&args)).expect("stdout is JSON")
    }

    /// A path in the folder of the server and the commands.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file for a command.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Where the server listens.
    pub fn url(&self) -> String {
        let url = std::fs::read_to_string(self.path("data/server.url")).expect("an address");
        url.trim().to_owned()
    }

    /// The administrator's key.
    pub fn key(&self) -> String {
        let key = std::fs::read_to_string(self.path("data/admin.key")).expect("a key");
        key.trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
