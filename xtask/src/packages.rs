//! Packages of other languages that tests of the API use, schemathesis and generators of clients, and
//! those that the dashboard is built and tested with.
//!
//! Their lists, with every version, are files of `tests/rest`. They are installed into the target
//! folder, where the tests look for them, and stay there as long as the list is the same. Those of
//! the dashboard are in `ui/node_modules`, where its tools look for them.

use std::fs;
use std::path::{Path, PathBuf};
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
    /// `ui/node_modules`, filled by npm.
    Ui,
}

impl Packages {
    /// The installation folder.
    fn folder(&self) -> Result<PathBuf> {
        let name = match self {
            Packages::Python => "python",
            Packages::Node => "node",
            Packages::Ui => return Ok(root()?.join("ui/node_modules")),
        };
        Ok(target()?.join("tools").join(name))
    }

    /// The files with the list of packages; the last one has every version.
    fn lists(&self) -> &'static [&'static str] {
        match self {
            Packages::Python => &["requirements.txt"],
            Packages::Node | Packages::Ui => &["package.json", "package-lock.json"],
        }
    }

    /// The folder of the lists.
    fn source(&self) -> Result<PathBuf> {
        Ok(root()?.join(match self {
            Packages::Python | Packages::Node => "tests/rest",
            Packages::Ui => "ui",
        }))
    }

    /// Whether the packages of the list are completely installed.
    pub fn are_installed(&self) -> bool {
        let same = || {
            let list = self.lists().last().context("no list")?;
            let wanted = fs::read(self.source()?.join(list))?;
            Ok::<_, anyhow::Error>(fs::read(self.folder()?.join("installed"))? == wanted)
        };
        same().unwrap_or(false)
    }

    /// Whether the language itself is installed.
    pub fn can_be_installed(&self) -> bool {
        match self {
            Packages::Python => has_venv(),
            Packages::Node | Packages::Ui => has_npm(),
        }
    }

    /// Installs them again. The copy of the list is written last: it marks the installation as
    /// complete.
    pub fn install(&self) -> Result<()> {
        let (from, folder) = (self.source()?, self.folder()?);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let npm = |words: &[&str], place: &Path| {
            let mut npm = Command::new("npm");
            npm.args(words).args(["--no-audit", "--no-fund", "--loglevel=error"]);
            run_command(npm.current_dir(place))
        };
        match self {
            Packages::Python => {
                self.copy_lists(&from, &folder)?;
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
                self.copy_lists(&from, &folder)?;
                npm(&["ci"], &folder)?;
            }
            // In its place, because the tools look for packages above the source. Not by `ci`, which
            // refuses a list without the optional packages of every other platform.
            Packages::Ui => npm(&["install", "--no-save", "--ignore-scripts"], &from)?,
        }
        let list = self.lists().last().context("no list")?;
        fs::copy(from.join(list), folder.join("installed")).context("installed")?;
        Ok(())
    }

    fn copy_lists(&self, from: &Path, folder: &Path) -> Result<()> {
        for list in self.lists() {
            fs::copy(from.join(list), folder.join(list)).context(*list)?;
        }
        Ok(())
    }
}

/// Python with the venv module, which is a separate package on Debian.
pub fn has_venv() -> bool {
    succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// Node.js and npm.
pub fn has_npm() -> bool {
    ["node", "npm"].iter().all(|program| find(program, path_folders()).is_some())
}
