//! `cargo xtask lint`: every check that runs no test.

use anyhow::Result;

use crate::deny;
use crate::step::{run_command, step};
use crate::workspace::cargo;

/// Checks format, clippy and the dependencies, in this order.
pub fn run() -> Result<()> {
    step("format", || run_command(&mut cargo(&["fmt", "--all", "--", "--check"])?))?;
    step("clippy", || {
        run_command(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])?)
    })?;
    step("dependencies", deny::check)
}
