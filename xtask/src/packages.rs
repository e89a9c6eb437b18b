//! Packages of other languages that tests of the API use: schemathesis, generators of clients.
//!
//! Their lists, with every version, are files of `tests/rest`. They are installed into the target
//! folder, where the tests look for them, and stay there as long as the list is the same.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{run_command, succeeds};
use crate::workspace::{find, path_folders, root, target};

/// A language whose packages the tests use.
pub enum Packages {
    /// A virtual environment, filled by pip.
    Python,
    /// A folder with `node_modules`, filled by npm.
    Node,
}

impl Packages {
    /// Where they are installed.
    fn folder(&self) -> Result<PathBuf> {
        let name = match self {
            Packages::Python => "python",
            Packages::Node => "node",
        };
        Ok(target()?.join("tools").join(name))
    }

    /// The files that say which ones; the last one has every version.
    fn lists(&self) -> &'static [&'static str] {
        match self {
            Packages::Python => &["requirements.txt"],
            Packages::Node => &["package.json", "package-lock.json"],
        }
    }

    /// Whether what the list says was installed to its end.
    pub fn are_installed(&self) -> bool {
        let same = || {
            let list = self.lists().last().context("no list")?;
            let wanted = fs::read(root()?.join("tests/rest").join(list))?;
            Ok::<_, anyhow::Error>(fs::read(self.folder()?.join("installed"))? == wanted)
        };
        same().unwrap_or(false)
    }

    /// Whether the language itself is there.
    pub fn can_be_installed(&self) -> bool {
        match self {
            Packages::Python => has_venv(),
            Packages::Node => has_npm(),
        }
    }

    /// Installs them anew. The copy of the list comes last: it says that the rest is complete.
    pub fn install(&self) -> Result<()> {
        let folder = self.folder()?;
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let from = root()?.join("tests/rest");
        for list in self.lists() {
            fs::copy(from.join(list), folder.join(list)).context(*list)?;
        }
        match self {
            Packages::Python => {
                run_command(
                    Command::new("python3").args(["-m", "venv", "."]).current_dir(&folder),
                )?;
                let mut pip = Command::new(folder.join("bin/pip"));
                pip.args([
                    "install",
                    "--quiet",
                    "--no-compile",
                    "--disable-pip-version-check",
                    "-r",
                ]);
                run_command(pip.arg("requirements.txt").current_dir(&folder))?;
            }
            Packages::Node => {
                let mut npm = Command::new("npm");
                npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
                run_command(npm.current_dir(&folder))?;
            }
        }
        let list = self.lists().last().context("no list")?;
        fs::copy(folder.join(list), folder.join("installed")).context("installed")?;
        Ok(())
    }
}

/// Python with what makes virtual environments, which Debian keeps in a package of its own.
pub fn has_venv() -> bool {
    succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// Node.js and npm.
pub fn has_npm() -> bool {
    ["node", "npm"].iter().all(|program| find(program, path_folders()).is_some())
}
