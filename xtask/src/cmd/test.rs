//! `cargo xtask test`: the one test command, on a fresh machine as in continuous integration.

use anyhow::Result;

use super::lint;
use crate::needs;
use crate::step::{run_command, step};
use crate::workspace::cargo;

/// Runs every check in the order of its price, so that a cheap mistake is reported first.
///
/// The architecture test is one of the tests: see `xtask/tests/architecture`.
pub fn run() -> Result<()> {
    step("all checks", || {
        step("what the tests need", needs::install_if_missing)?;
        lint::run()?;
        step("tests", || run_command(&mut cargo(&["test", "--workspace"])?))
    })
}
