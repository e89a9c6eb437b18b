//! Programs that the tests need besides cargo: how to detect and install them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::apt;
use crate::packages::{Packages, has_npm, has_venv};
use crate::step::{run_command, succeeds};
use crate::workspace::{cargo, find, path_folders};

struct Need {
    what: &'static str,
    found: fn() -> bool,
    source: Source,
}

enum Source {
    /// A component of the Rust toolchain.
    Rustup(&'static str),
    /// The Debian packages of the PostgreSQL server.
    Postgres,
    /// Other packages of Debian.
    Apt(&'static [&'static str]),
    /// Packages of another language.
    Packages(Packages),
}

const NEEDS: &[Need] = &[
    Need { what: "rustfmt", found: || cargo_has("fmt"), source: Source::Rustup("rustfmt") },
    Need { what: "clippy", found: || cargo_has("clippy"), source: Source::Rustup("clippy") },
    Need { what: "PostgreSQL server", found: || initdb().is_some(), source: Source::Postgres },
    Need { what: "libfaketime", found: has_faketime, source: Source::Apt(&["libfaketime"]) },
    Need { what: "curl", found: has_curl, source: Source::Apt(&["curl"]) },
    Need { what: "Python", found: has_venv, source: Source::Apt(&["python3", "python3-venv"]) },
    Need { what: "Node.js", found: has_npm, source: Source::Apt(&["nodejs", "npm"]) },
    Need { what: "Java", found: has_java, source: Source::Apt(&["default-jdk-headless"]) },
    Need {
        what: "PostgreSQL's JDBC driver",
        found: has_jdbc,
        source: Source::Apt(&["libpostgresql-jdbc-java"]),
    },
    Need {
        what: "Chromium",
        found: has_chromium,
        source: Source::Apt(&["chromium", "fonts-dejavu-core"]),
    },
    Need {
        what: "Python packages of the tests",
        found: || Packages::Python.are_installed(),
        source: Source::Packages(Packages::Python),
    },
    Need {
        what: "Node.js packages of the tests",
        found: || Packages::Node.are_installed(),
        source: Source::Packages(Packages::Node),
    },
    Need {
        what: "Node.js packages of the dashboard",
        found: || Packages::Ui.are_installed(),
        source: Source::Packages(Packages::Ui),
    },
];

/// Installs missing programs if possible, and otherwise prints what to install.
pub fn install_if_missing() -> Result<()> {
    install(NEEDS.iter())
}

/// Installs missing components of the Rust toolchain, which are all that the quick checks need.
pub fn install_tools_if_missing() -> Result<()> {
    install(NEEDS.iter().filter(|need| matches!(need.source, Source::Rustup(_))))
}

fn install<'a>(needs: impl Iterator<Item = &'a Need>) -> Result<()> {
    let mut advice = String::new();
    for need in needs.filter(|need| !(need.found)()) {
        if need.source.is_at_hand() {
            eprintln!("installing {}", need.what);
            need.source.install()?;
            ensure!((need.found)(), "{} is installed but not found", need.what);
        } else {
            advice += &format!("\n{}:\n{}", need.what, need.source.advice());
        }
    }
    if !advice.is_empty() {
        bail!("the tests need what is not installed here\n{advice}");
    }
    Ok(())
}

impl Source {
    fn is_at_hand(&self) -> bool {
        match self {
            Source::Rustup(_) => find("rustup", path_folders()).is_some(),
            Source::Postgres | Source::Apt(_) => apt::is_usable(),
            Source::Packages(packages) => packages.can_be_installed(),
        }
    }

    fn install(&self) -> Result<()> {
        match self {
            Source::Rustup(component) => {
                run_command(Command::new("rustup").args(["component", "add", component]))
            }
            Source::Postgres => apt::install_postgres(),
            Source::Apt(packages) => apt::install_plain(packages),
            Source::Packages(packages) => packages.install(),
        }
    }

    fn advice(&self) -> String {
        match self {
            Source::Rustup(component) => format!(
                "    rustup component add {component}\n  \
                 or, without rustup, the package of your system that holds it\n"
            ),
            Source::Postgres => apt::POSTGRES_ADVICE.into(),
            Source::Apt(packages) => format!(
                "    apt-get install {}\n  \
                 as root on Debian and Ubuntu; elsewhere your system's packages\n",
                packages.join(" ")
            ),
            Source::Packages(_) => "  come by themselves when the language is there\n".into(),
        }
    }
}

fn cargo_has(subcommand: &str) -> bool {
    cargo(&[subcommand, "--version"]).is_ok_and(|mut command| succeeds(&mut command))
}

fn has_curl() -> bool {
    find("curl", path_folders()).is_some()
}

/// Java that starts a program from its source, which takes the compiler.
fn has_java() -> bool {
    ["java", "javac"].iter().all(|program| find(program, path_folders()).is_some())
}

/// The browser of the dashboard tests: `CHROMIUM`, or at Debian's path.
fn has_chromium() -> bool {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    named.unwrap_or_else(|| "/usr/bin/chromium".into()).is_file()
}

/// The JDBC driver, at Debian's path.
fn has_jdbc() -> bool {
    Path::new("/usr/share/java/postgresql.jar").is_file()
}

/// libfaketime, which sets the clock of one process, at Debian's path.
fn has_faketime() -> bool {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders
        .map(|folder| folder.path())
        .any(|folder| folder.join("faketime/libfaketimeMT.so.1").is_file())
}

/// PostgreSQL's `initdb`: in `PG_BIN`, on the path, or where Debian keeps it (not on the path).
fn initdb() -> Option<PathBuf> {
    let named = env::var_os("PG_BIN").map(PathBuf::from);
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = debian.flatten().map(|version| version.path().join("bin"));
    find("initdb", named.into_iter().chain(path_folders()).chain(debian))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_typed_as_it_stands() {
        let rustup = Source::Rustup("clippy").advice();
        assert!(rustup.contains("rustup component add clippy\n"), "{rustup}");
        let postgres = Source::Postgres.advice();
        assert!(postgres.contains("apt-get install postgresql\n"), "{postgres}");
        let node = Source::Apt(&["nodejs", "npm"]).advice();
        assert!(node.contains("apt-get install nodejs npm\n"), "{node}");
    }
}
