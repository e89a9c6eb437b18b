//! The developer commands: `cargo xtask test|needs|lint|fmt|bench|campaign|ci`, one file a command under `cmd/`.
//! Nothing here is part of the product, and no crate imports it.
#![allow(
    clippy::disallowed_methods,
    reason = "developer commands start processes, read the environment and measure time"
)]

mod apt;
mod cmd;
mod deny;
mod gate;
mod needs;
mod packages;
mod step;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of Punctual
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need, then check everything: format, clippy, dependencies, tests
    Test(cmd::test::Args),
    /// Install what the tests need, and nothing more
    Needs,
    /// Check format, clippy and dependencies, without running tests
    Lint,
    /// Format every crate
    Fmt,
    /// Run a benchmark; without a name, list what there is
    Bench(cmd::bench::Args),
    /// Let random faults happen to a cluster of real processes, and count what came of it
    Campaign(cmd::campaign::Args),
    /// Run .ci/run the way continuous integration does
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(args) => cmd::test::run(&args),
        Command::Needs => needs::install_if_missing(),
        Command::Lint => cmd::lint::run(),
        Command::Fmt => cmd::fmt::run(),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Campaign(args) => cmd::campaign::run(&args),
        Command::Ci => cmd::ci::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
