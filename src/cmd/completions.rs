//! `punctual completions`: a script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::Failure;

/// Which shell.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual completions bash > /etc/bash_completion.d/punctual
  punctual completions zsh > ~/.zfunc/_punctual
  punctual completions fish > ~/.config/fish/completions/punctual.fish")]
pub struct CompletionsArgs {
    /// Name of the shell
    shell: Shell,
}

/// Runs the command.
pub fn run(args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut super::CommandLine::command(),
        "punctual",
        &mut script,
    );
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(())
}
