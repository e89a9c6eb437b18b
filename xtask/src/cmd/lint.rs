//! `cargo xtask lint`: every check that runs no test.

use anyhow::Result;

use crate::deny;
use crate::step::{run_command, step};
use crate::workspace::cargo;

/// Checks format, clippy and the dependencies, in this order.
pub fn run() -> Result<()> {
    format()?;
    clippy()?;
    step("dependencies", deny::check)
}

/// Checks the format.
pub fn format() -> Result<()> {
    step("format", || run_command(&mut cargo(&["fmt", "--all", "--", "--check"])?))
}

/// Checks every target with clippy; a warning is a failure.
pub fn clippy() -> Result<()> {
    step("clippy", || {
        let mut clippy = cargo(&["clippy", "--workspace", "--all-targets"])?;
        run_command(clippy.args(["--", "-D", "warnings"]))
    })
}
