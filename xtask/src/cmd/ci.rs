//! `cargo xtask ci`: runs `.ci/run` as continuous integration does, with its build cache. The
//! checks are in `test`; the build folders are in `.ci/run`.

use std::process::Command;

use anyhow::Result;

use crate::step::run_command;
use crate::workspace::root;

/// Runs the script with `CI=true`.
pub fn run() -> Result<()> {
    let root = root()?;
    let mut script = Command::new(root.join(".ci/run"));
    run_command(script.current_dir(root).env("CI", "true"))
}
