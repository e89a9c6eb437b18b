//! cargo-deny: licences, banned crates, sources and security advisories of the whole dependency
//! tree (deny.toml).
//!
//! Advisories need a database from the network. Where it cannot be had, the check is left out with
//! a line that names the command for it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::step::{run_command, succeeds};
use crate::workspace::{cargo, root, tools};

const VERSION: &str = "0.20.2";

/// Runs the checks with the developer's own cargo-deny, or with one that is installed for us.
pub fn check() -> Result<()> {
    run_command(deny()?.args(["check", "licenses", "bans", "sources"]))?;
    if succeeds(deny()?.args(["fetch", "db"])) {
        return run_command(deny()?.args(["check", "advisories"]));
    }
    eprintln!(
        "the database of security advisories cannot be reached, so they were not checked; where it \
         can be: cargo deny check advisories"
    );
    Ok(())
}

fn deny() -> Result<Command> {
    if succeeds(&mut cargo(&["deny", "--version"])?) {
        return cargo(&["deny"]);
    }
    let mut program = Command::new(install_if_missing()?);
    program.current_dir(root()?);
    Ok(program)
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
