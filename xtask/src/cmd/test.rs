//! `cargo xtask test`: the one test command, on a fresh machine as in continuous integration, and
//! its quick form for while you work.

use anyhow::Result;

use super::lint;
use crate::needs;
use crate::step::{run_command, step};
use crate::workspace::cargo;

/// The set of checks.
#[derive(clap::Args)]
pub struct Args {
    /// Check the format, clippy, the unit tests and the tests of the pure crates, and nothing that
    /// starts a server
    #[arg(long)]
    quick: bool,
}

/// The crates whose tests need neither a database nor a process; xtask's test compares the
/// workspace with ARCHITECTURE.md.
const PURE: [&str; 4] = ["punctual-domain", "punctual-query", "punctual-sql", "xtask"];

/// Runs the checks in the order of their price, so that a cheap mistake is reported first.
pub fn run(args: &Args) -> Result<()> {
    if args.quick { step("quick checks", quick) } else { step("all checks", all) }
}

fn all() -> Result<()> {
    step("what the tests need", needs::install_if_missing)?;
    lint::run()?;
    // Every failure is reported, not only those of the first crate that has one.
    step("tests", || run_command(&mut cargo(&["test", "--workspace", "--no-fail-fast"])?))
}

fn quick() -> Result<()> {
    step("what the checks need", needs::install_tools_if_missing)?;
    lint::format()?;
    lint::clippy()?;
    step("unit tests", || {
        run_command(&mut cargo(&["test", "--quiet", "--workspace", "--lib", "--bins"])?)
    })?;
    step("tests of the pure crates", || {
        let mut test = cargo(&["test", "--quiet", "--test", "*"])?;
        run_command(test.args(PURE.iter().flat_map(|package| ["-p", package])))
    })
}
