//! `punctual config`: the settings, and where they come from.

use std::io;

use clap::{Args, Subcommand};
use server::ConfigurationEntry;

use crate::cli_error::visible;
use crate::client::{Client, ServerArgs};
use crate::config::{Config, SettingOrigin, Sources, environment};
use crate::exit::Failure;
use crate::output::text;
use crate::table;

/// The verbs of `punctual config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print every setting with its value
    Show(ShowArgs),
}

/// The arguments of `config show`.
#[derive(Args)]
pub struct ShowArgs {
    /// Also show where each value comes from
    #[arg(long)]
    origin: bool,

    /// The file of settings
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,

    /// Print the settings that a running server has, instead of those of files and variables here
    #[arg(long, conflicts_with = "config")]
    remote: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Runs a verb.
pub fn run(command: ConfigCommand) -> Result<(), Failure> {
    let ConfigCommand::Show(args) = command;
    if args.remote {
        return show_remote(&args);
    }
    let sources = Sources { flags: Vec::new(), file: args.config, environment: environment() };
    let config = Config::load(sources)?;
    let mut header = vec!["SETTING", "VALUE", "MEANING"];
    if args.origin {
        header.insert(2, "ORIGIN");
    }
    let rows = shown(&config).into_iter().map(|entry| {
        let mut row = vec![entry.name, entry.value, entry.meaning];
        if args.origin {
            row.insert(2, entry.origin);
        }
        row
    });
    table::print(&mut io::stdout().lock(), "", &header, rows)?;
    Ok(())
}

/// Every setting as it may be shown: without secrets.
pub fn shown(config: &Config) -> Vec<ConfigurationEntry> {
    let keys = config.all().map(|(key, value, origin)| {
        let value = match (key.is_secret, value) {
            (_, "") => "-",
            (true, value) if value != key.default => "********",
            (_, value) => value,
        };
        entry(key.name.to_owned(), value, origin, key.meaning)
    });
    let named =
        config.all_named().map(|(name, meaning, origin)| entry(name, "********", origin, meaning));
    keys.chain(named).collect()
}

fn entry(name: String, value: &str, origin: &SettingOrigin, meaning: &str) -> ConfigurationEntry {
    ConfigurationEntry {
        name,
        value: value.to_owned(),
        origin: origin.to_string(),
        meaning: meaning.to_owned(),
    }
}

/// Prints the settings of a running server.
fn show_remote(args: &ShowArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    let answer = client.get(&["v1", "configuration"])?;
    let mut header = vec!["SETTING", "VALUE", "MEANING"];
    if args.origin {
        header.insert(2, "ORIGIN");
    }
    let entries = answer["data"].as_array().cloned().unwrap_or_default();
    let rows = entries.iter().map(|entry| {
        let cell = |field: &str| visible(&text(entry, field));
        let mut row = vec![cell("name"), cell("value"), cell("meaning")];
        if args.origin {
            row.insert(2, cell("origin"));
        }
        row
    });
    table::print(&mut io::stdout().lock(), "", &header, rows)?;
    Ok(())
}
