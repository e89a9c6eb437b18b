//! A server process on a store of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;
use testbed::postgres::{Server, Setup};

use crate::StoreKind;
use crate::http::Client;

pub struct Service {
    folder: TempDir,
    /// The database server, if there is one.
    postgres: Option<Server>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    address: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// A server on an empty store.
    pub fn start(store: StoreKind) -> Result<Self> {
        let postgres = match store {
            StoreKind::Sqlite => None,
            // Durable, as in the benchmark of the engine.
            StoreKind::Postgres => Some(
                ["fsync=on", "synchronous_commit=on", "shared_buffers=512MB"]
                    .into_iter()
                    .fold(Setup::default().tcp()?, Setup::set)
                    .start(),
            ),
        };
        let mut service = Service { folder: tempfile::tempdir()?, postgres, process: None };
        service.resume()?;
        Ok(service)
    }

    /// Starts the process, also again.
    pub fn resume(&mut self) -> Result<()> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command
            .args(["serve", "--http", "127.0.0.1:0", "--data"])
            .arg(self.folder.path().join("data"))
            // Rate limits are not measured here.
            .env("PUNCTUAL_API__RATE_PER_SECOND", "0");
        if let Some(url) = self.database() {
            command.args(["--store", &url]);
        }
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().context("stderr is a pipe")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let line = lines.next().context("the server ended")??;
            if line.contains("\"message\":\"ready\"") {
                let url = line.split("://").nth(1).context("no address")?;
                break url.split('"').next().unwrap_or_default().to_owned();
            }
        };
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(Process { child, address });
        Ok(())
    }

    /// Ends the process; the store remains.
    pub fn pause(&mut self) {
        self.process = None;
    }

    /// A new connection to it, for the administrator.
    pub fn client(&self) -> Result<Client> {
        self.client_with(&self.key()?)
    }

    /// The key of the administrator.
    pub fn key(&self) -> Result<String> {
        let key = std::fs::read_to_string(self.folder.path().join("data/admin.key"))?;
        Ok(key.trim().to_owned())
    }

    /// A new connection to it, with the key of a user.
    pub fn client_with(&self, key: &str) -> Result<Client> {
        let process = self.process.as_ref().context("the server does not run")?;
        Client::connect(&process.address, key)
    }

    /// Where it answers.
    pub fn address(&self) -> Result<&str> {
        Ok(&self.process.as_ref().context("the server does not run")?.address)
    }

    /// Microseconds of CPU that server and database have taken since they started.
    pub fn cpu_us(&self) -> Result<f64> {
        let server = self.process.as_ref().context("the server does not run")?.child.id();
        let mut ticks = 0;
        for process in std::fs::read_dir("/proc")? {
            let name = process?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // One that has ended meanwhile is counted by its parent.
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
            let Some((command, rest)) = stat.rsplit_once(") ") else { continue };
            let is_database = self.postgres.is_some() && command.ends_with("(postgres");
            if id == server || is_database {
                let fields = rest.split(' ').skip(11).take(2);
                ticks += fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
            }
        }
        // A tick is a hundredth of a second on every Linux.
        Ok(ticks as f64 * 10_000.0)
    }

    /// The address of the database, if it is on a server.
    pub fn database(&self) -> Option<String> {
        self.postgres.as_ref().map(|server| server.tcp_url("postgres"))
    }

    /// The file of the database otherwise.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("data/punctual.db")
    }
}
