//! A server process of a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::client;
use crate::binary::punctual;

/// How long anything may take that should happen soon.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks until it is there.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = look() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "between two looks at another process")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not happen");
}

/// The administrator's key of a data folder.
pub fn key(data: &Path) -> String {
    std::fs::read_to_string(data.join("admin.key")).unwrap().trim().to_owned()
}

pub struct Server {
    pub child: Child,
    pub address: String,
    pub key: String,
    lines: Receiver<String>,
}

impl Server {
    /// Starts a server and waits until it logs that it is ready.
    pub fn start(data: &Path, more: &[&str]) -> Self {
        Server::start_with(data, more, &[])
    }

    /// The same with variables of the environment.
    pub fn start_with(data: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let data_text = data.to_str().unwrap();
        let mut args = vec!["serve", "--data", data_text];
        if !more.contains(&"--http") {
            args.extend(["--http", "127.0.0.1:0"]);
        }
        if !more.contains(&"--pg") {
            args.extend(["--pg", "none"]);
        }
        args.extend(more);
        let mut command = punctual(args);
        command.current_dir(data.parent().unwrap()).envs(environment.iter().copied());
        let mut server = Server::of(command);
        server.key = key(data);
        server
    }

    /// Starts a command that becomes a server, and waits until it logs that it is ready. The key is
    /// not known yet.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut server = Server { child, address: String::new(), key: String::new(), lines };
        let ready = server.line_with("\"message\":\"ready\"");
        let url = ready.split("://").nth(1).unwrap();
        server.address = url.split('"').next().unwrap().to_owned();
        server
    }

    /// The next line of the log with these words.
    pub fn line_with(&self, words: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {words:?} in {seen:#?}"),
            }
        }
    }

    /// Everything that the log says from now on, until the process has ended.
    pub fn rest_of_log(&self) -> String {
        let lines: Vec<String> =
            std::iter::from_fn(|| self.lines.recv_timeout(SOON).ok()).collect();
        lines.join("\n")
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let (status, text) = client::request(&self.address, &self.key, method, path, body).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        #[expect(clippy::disallowed_methods, reason = "a test sends a signal as a person would")]
        let status = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end; answers its exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Ends it without a word.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
