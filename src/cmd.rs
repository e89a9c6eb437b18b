//! The command line: nouns here, their verbs in a file of the noun's name.

mod cron;
mod import;

use clap::{Parser, Subcommand};

use crate::exit::{self, Failure};

/// A job scheduler that a team can trust with everything that must happen on time.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = exit::HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask about cron expressions: when they fire, what they mean, what may surprise
    #[command(subcommand, arg_required_else_help = true, after_help = cron::GRAMMAR)]
    Cron(cron::CronCommand),
}

/// Runs the command that the process was started with.
pub fn run() -> Result<(), Failure> {
    match CommandLine::try_parse().map_err(Failure::CommandLine)?.command {
        Command::Cron(command) => cron::run(command),
    }
}
