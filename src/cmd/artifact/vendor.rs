//! Python packages of an artifact: installed into a folder when it is pushed, never on an agent.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output::OutputArgs;
use crate::progress::ProgressLine;

/// Installs the packages of a file, each of which must be the one that its hash names.
pub fn install(requirements: &Path, output: &OutputArgs) -> Result<TempDir, Failure> {
    if !requirements.is_file() {
        let text = format!("--requirements {}: there is no such file", requirements.display());
        return Err(CliError::new(text).into());
    }
    let folder = tempfile::tempdir()?;
    let _progress = ProgressLine::of_work(output, "installing packages");
    let tools: [(&str, &[&str]); 2] = [
        ("uv", &["pip", "install", "--quiet", "--require-hashes"]),
        (
            "python3",
            &[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-input",
                "--disable-pip-version-check",
                "--no-compile",
                "--require-hashes",
            ],
        ),
    ];
    for (tool, arguments) in tools {
        #[expect(clippy::disallowed_methods, reason = "a package manager fetches packages")]
        let mut command = Command::new(tool);
        command.args(arguments).arg("--target").arg(folder.path()).arg("-r").arg(requirements);
        match command.stdin(Stdio::null()).output() {
            Ok(done) if done.status.success() => return Ok(folder),
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                let error = CliError::new(format!("{tool} could not install the packages: {said}"));
                let hint = "each package needs a hash: uv pip compile --generate-hashes makes them";
                return Err(Failure::Failed(error.hint(hint)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::failed(format!("{tool}: {error}"))),
        }
    }
    Err(Failure::failed("--requirements needs uv or python3 with pip on this machine"))
}
