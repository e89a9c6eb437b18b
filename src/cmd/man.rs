//! `punctual man`: manual pages.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::exit::Failure;

/// Where the pages go.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual man | man -l -
  punctual man --folder /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write a page for every command into this folder
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: ManArgs) -> Result<(), Failure> {
    let mut command = super::CommandLine::command();
    match args.folder {
        Some(folder) => {
            fs::create_dir_all(&folder)?;
            // Gives every command its full name.
            command.build();
            clap_mangen::generate_to(command, &folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
    }
    Ok(())
}
