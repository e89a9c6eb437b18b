//! The API as other programs meet it: curl, clients that were generated from its description, and
//! a tester that reads the description and tries everything.

mod curl;
mod generated;
mod schemathesis;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::serve::process::Server;

/// A server whose jobs may say something.
struct Bed {
    server: Server,
    folder: TempDir,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let variables = [
            ("PUNCTUAL_EXTERNAL__ENABLED", "true"),
            ("PUNCTUAL_EXTERNAL__ALLOW", "/bin/echo"),
            // The test does not depend on the sandbox features of this kernel.
            ("PUNCTUAL_EXTERNAL__SANDBOX", "best-effort"),
            // How fast the other program is must not matter; limits have tests of their own.
            ("PUNCTUAL_API__RATE_PER_SECOND", "0"),
            ("PUNCTUAL_API__FAILURES_PER_SECOND", "0"),
        ];
        let server = Server::start_with(&folder.path().join("data"), &[], &variables);
        Bed { server, folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// The description, as the server answers it.
    fn description(&self) -> PathBuf {
        let path = self.folder.path().join("openapi.json");
        let (status, description) = self.server.call("GET", "/openapi.json", None);
        assert_eq!(status, 200);
        std::fs::write(&path, description.to_string()).unwrap();
        path
    }
}

/// A file of this repository that a test hands to another program.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rest").join(name)
}

/// A program that `cargo xtask needs` has installed.
fn tool(path: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let tool = tools.join(path);
    assert!(tool.exists(), "{} is missing: `cargo xtask needs` installs it", tool.display());
    tool
}

/// Runs a program to its end, which must be good; answers what it has printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

#[expect(clippy::disallowed_methods, reason = "the tests are about other programs")]
pub fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(path)
}
