//! An agent process of a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use crate::binary::punctual;
use crate::serve::process::SOON;

pub struct Agent {
    pub child: Child,
    lines: Mutex<Receiver<String>>,
}

impl Agent {
    /// Starts an agent and waits until it works.
    pub fn start(data: &Path, server: &str, more: &[&str]) -> Self {
        let agent = Agent::launch(data, server, more);
        agent.line_with("\"message\":\"ready\"");
        agent
    }

    /// Starts an agent.
    pub fn launch(data: &Path, server: &str, more: &[&str]) -> Self {
        let data = data.to_str().unwrap();
        let mut args = vec!["agent", "--server", server, "--data", data];
        args.extend(more);
        let mut command = punctual(args);
        command.env("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Agent { child, lines: Mutex::new(lines) }
    }

    /// The next line of the log with these words.
    pub fn line_with(&self, words: &str) -> String {
        let lines = self.lines.lock().unwrap();
        let mut seen = Vec::new();
        loop {
            match lines.recv_timeout(SOON) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {words:?} in {seen:#?}"),
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        #[expect(clippy::disallowed_methods, reason = "a test sends a signal as a person would")]
        let status = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end; answers its exit code and what it said last.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let lines = self.lines.lock().unwrap();
        let said: Vec<String> = std::iter::from_fn(|| lines.recv_timeout(SOON).ok()).collect();
        (code, said.join("\n"))
    }

    /// Ends it without a word.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
