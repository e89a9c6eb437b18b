//! cargo-deny: licences, banned crates and sources of the whole dependency tree (deny.toml).
//!
//! Its fourth check, security advisories, is left out: it needs a database from the network at
//! every run, and a new advisory would turn an unchanged commit from green to red.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::step::{run_command, succeeds};
use crate::workspace::{cargo, root, tools};

const VERSION: &str = "0.20.2";

/// Runs the checks with the developer's own cargo-deny, or with one that is installed for us.
pub fn check() -> Result<()> {
    let mut deny = if succeeds(&mut cargo(&["deny", "--version"])?) {
        cargo(&["deny"])?
    } else {
        let mut program = Command::new(install_if_missing()?);
        program.current_dir(root()?);
        program
    };
    run_command(deny.args(["check", "licenses", "bans", "sources"]))
}

/// Installs into a folder of its own a version, so that a new version never meets an old one.
fn install_if_missing() -> Result<PathBuf> {
    let folder = tools()?.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !succeeds(Command::new(&program).arg("--version")) {
        eprintln!("installing cargo-deny {VERSION}, once; this takes a minute or two");
        let mut install = cargo(&["install", "cargo-deny", "--version", VERSION])?;
        install.args(["--locked", "--quiet", "--profile", "dev", "--root"]);
        // Its own target folder, which cargo deletes afterwards: ours would grow by its crates.
        install.arg(&folder).env_remove("CARGO_TARGET_DIR");
        run_command(&mut install)?;
    }
    Ok(program)
}
