//! Nodes as processes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::child::Part;

/// A node. It dies with the value.
pub struct Member {
    /// Its name.
    pub name: String,
    process: Child,
}

impl Member {
    /// Starts a process and waits until it has its database.
    pub fn start(part: &Part) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--child", &part.to_text()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().context("no output")?).read_line(&mut line)?;
        let member = Member { name: part.name.clone(), process };
        ensure!(line == "ready\n", "{} did not start", member.name);
        Ok(member)
    }

    /// Lets it begin.
    pub fn go(&mut self) -> Result<()> {
        let stdin = self.process.stdin.as_mut().context("no input")?;
        Ok(stdin.write_all(b"go\n")?)
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) -> Result<()> {
        Ok(self.process.kill()?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts so many nodes; none of them works yet.
pub fn start(count: usize, part: &Part) -> Result<Vec<Member>> {
    let member = |n: usize| Member::start(&Part { name: format!("node {n}"), ..part.clone() });
    (0..count).map(member).collect()
}
