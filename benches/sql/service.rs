//! A server process with an open SQL interface, on an embedded store of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

pub struct Service {
    child: Child,
    folder: TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// A server on an empty store.
    pub fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["serve", "--http", "127.0.0.1:0", "--pg", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .current_dir(folder.path())
            // The limits of the interfaces are not what is measured.
            .env("PUNCTUAL_API__RATE_PER_SECOND", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = BufReader::new(child.stderr.take().context("no log")?);
        let service = Service { child, folder };
        let mut lines = stderr.lines();
        let is_ready = |line: &std::io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains("\"message\":\"ready\""))
        };
        let is_started = lines.by_ref().any(|line| is_ready(&line));
        ensure!(is_started, "the server did not start");
        // The log is read to its end, so that the server never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(service)
    }

    /// How a driver comes in.
    pub fn config(&self) -> Result<String> {
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join("data").join(name));
        let (address, key) = (read("server.sql")?, read("admin.key")?);
        let (host, port) = address.trim().rsplit_once(':').context("no address")?;
        let key = key.trim();
        Ok(format!("host={host} port={port} user=admin dbname=default password={key}"))
    }
}
