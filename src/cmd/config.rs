//! `punctual config`: the settings, and where they come from.

use std::io;

use clap::{Args, Subcommand};

use crate::config::{Config, Sources, environment};
use crate::exit::Failure;
use crate::table;

/// The verbs of `punctual config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print every setting with its value
    Show(ShowArgs),
}

/// What is shown.
#[derive(Args)]
pub struct ShowArgs {
    /// Also say where each value comes from
    #[arg(long)]
    origin: bool,

    /// The file of settings
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Runs a verb.
pub fn run(command: ConfigCommand) -> Result<(), Failure> {
    let ConfigCommand::Show(args) = command;
    let sources = Sources { flags: Vec::new(), file: args.config, environment: environment() };
    let config = Config::load(sources)?;
    let mut header = vec!["SETTING", "VALUE", "MEANING"];
    if args.origin {
        header.insert(2, "ORIGIN");
    }
    let rows = config.all().map(|(key, value, origin)| {
        let value = match (key.is_secret, value) {
            (_, "") => "-",
            (true, value) if value != key.default => "********",
            (_, value) => value,
        };
        let mut row = vec![key.name.to_owned(), value.to_owned(), key.meaning.to_owned()];
        if args.origin {
            row.insert(2, origin.to_string());
        }
        row
    });
    let named = config.all_named().map(|(name, meaning, origin)| {
        let mut row = vec![name, "********".to_owned(), meaning.to_owned()];
        if args.origin {
            row.insert(2, origin.to_string());
        }
        row
    });
    let rows = rows.chain(named);
    table::print(&mut io::stdout().lock(), "", &header, rows)?;
    Ok(())
}
