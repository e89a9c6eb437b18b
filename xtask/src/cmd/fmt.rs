//! `cargo xtask fmt`: formats every crate of the workspace.

use anyhow::Result;

use crate::step::run_command;
use crate::workspace::cargo;

/// Formats in place.
pub fn run() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all"])?)
}
