//! The command line: nouns here, their verbs in a file of the noun's name.

mod config;
mod cron;
pub mod serve;

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

    /// Run a server: jobs over HTTP, executed here
    Serve(serve::ServeArgs),

    /// Look at the settings of a server
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::ConfigCommand),
}

/// Runs the command that the process was started with.
pub fn run() -> Result<(), Failure> {
    match CommandLine::try_parse().map_err(Failure::CommandLine)?.command {
        Command::Cron(command) => cron::run(command),
        Command::Serve(args) => serve::run(args),
        Command::Config(command) => config::run(command),
    }
}
