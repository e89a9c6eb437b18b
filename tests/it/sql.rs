//! The SQL interface of the real server, asked by the programs that people use.

mod command;
mod drivers;
mod floods;
mod frames;
mod hostile;
mod injections;
mod lives;
mod logins;
mod psql;
mod raw;
mod tls;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::serve::process::Server;

/// A server whose SQL interface is open.
pub struct Bed {
    pub server: Server,
    /// Where its SQL interface is.
    pub address: String,
    pub folder: TempDir,
}

impl Bed {
    pub fn new() -> Self {
        Bed::with(&[], &[])
    }

    /// With more flags, and variables of the environment.
    pub fn with(more: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut flags = vec!["--pg", "127.0.0.1:0"];
        flags.extend(more);
        // The rate of a test's requests must not matter; limits have tests of their own.
        let mut variables = vec![
            ("PUNCTUAL_API__RATE_PER_SECOND", "0"),
            ("PUNCTUAL_API__FAILURES_PER_SECOND", "0"),
        ];
        variables.extend(environment);
        let server = Server::start_with(&data, &flags, &variables);
        let address = std::fs::read_to_string(data.join("server.sql")).unwrap();
        Bed { server, address: address.trim().to_owned(), folder }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Host and port.
    pub fn host_and_port(&self) -> (&str, &str) {
        self.address.rsplit_once(':').unwrap()
    }

    /// Makes a tenant with a user who has a password and may do everything in it.
    pub fn tenant(&self, name: &str, user: &str, password: &str) {
        let made = |answer: (u16, serde_json::Value)| assert_eq!(answer.0, 201, "{answer:?}");
        made(self.server.call("POST", "/v1/tenants", Some(&json!({ "name": name }))));
        let sql = format!(
            "CREATE USER \"{user}\" PASSWORD '{password}'; GRANT ADMINISTER TENANT TO \"{user}\""
        );
        let said = self.psql("admin", &self.server.key, name, &["-c", &sql]);
        assert!(said.contains("GRANT"), "{said}");
    }

    /// Output of psql, stdout and stderr, for a user.
    pub fn psql(&self, user: &str, secret: &str, tenant: &str, args: &[&str]) -> String {
        let (host, port) = self.host_and_port();
        let mut command = psql_command();
        command
            .args(["-X", "-h", host, "-p", port, "-U", user, "-d", tenant])
            .args(args)
            .env("PGPASSWORD", secret)
            .env("PGCONNECT_TIMEOUT", "30");
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Output of psql for the administrator.
    pub fn ask(&self, sql: &str) -> String {
        self.psql("admin", &self.server.key, "default", &["-At", "-c", sql])
    }
}

/// psql, as it was installed, with nothing of the environment that names a server.
pub fn psql_command() -> Command {
    let mut command = program(testbed::postgres::programs().join("psql"));
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE", "PGOPTIONS", "PGSSLMODE"]
    {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").env("PGTZ", "UTC");
    command
}

#[expect(clippy::disallowed_methods, reason = "the tests are about other programs")]
pub fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(path)
}

/// A program or folder that `cargo xtask needs` installs.
pub fn tool(path: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let tool = tools.join(path);
    assert!(tool.exists(), "{} is missing: `cargo xtask needs` installs it", tool.display());
    tool
}

/// A file of `tests/sql`.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql").join(name)
}
