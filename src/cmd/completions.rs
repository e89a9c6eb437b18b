//! `punctual completions`: a script for a shell, which completes the names of jobs as well.

use std::io::Write;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::job::{Filter, find_all};
use crate::cli_error::visible;
use crate::client::{Client, ServerArgs};
use crate::exit::Failure;
use crate::output::text;

/// The most names that a shell is offered.
const NAMES_MAX: usize = 1_000;

/// The bash function that completes names of jobs.
const BASH_NAMES: &str = r#"
_punctual_names() {
    _punctual "$@"
    local current="${COMP_WORDS[COMP_CWORD]}"
    [[ "$current" == -* || "$COMP_CWORD" -lt 3 ]] && return 0
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
        "job show"|"job edit"|"job rename"|"job pause"|"job resume"|"job run"|"job delete"|"job rm"|"job next"|"job explain"|"job backfill"|"run list"|"run ls"|"run show"|"run logs"|"run cancel"|"run retry")
            local IFS=$'\n'
            COMPREPLY+=($(compgen -W "$(punctual complete-names jobs 2>/dev/null)" -- "$current"))
            ;;
    esac
    return 0
}
complete -F _punctual_names -o nosort -o bashdefault -o default punctual
"#;

/// The same for fish.
const FISH_NAMES: &str = r#"
complete -c punctual -n "__fish_seen_subcommand_from job; and __fish_seen_subcommand_from show edit rename pause resume run delete rm next explain backfill" -f -a "(punctual complete-names jobs 2>/dev/null)"
complete -c punctual -n "__fish_seen_subcommand_from run; and __fish_seen_subcommand_from list ls show logs cancel retry" -f -a "(punctual complete-names jobs 2>/dev/null)"
"#;

/// The same for zsh.
const ZSH_NAMES: &str = r#"
_punctual_names() {
    _punctual "$@"
    case "${words[2]} ${words[3]}" in
        "job show"|"job edit"|"job rename"|"job pause"|"job resume"|"job run"|"job delete"|"job rm"|"job next"|"job explain"|"job backfill"|"run list"|"run ls"|"run show"|"run logs"|"run cancel"|"run retry")
            local -a names
            names=("${(@f)$(punctual complete-names jobs 2>/dev/null)}")
            compadd -a names
            ;;
    esac
}
compdef _punctual_names punctual
"#;

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

/// Which names.
#[derive(Args)]
pub struct NamesArgs {
    /// Kind of names
    kind: NameKind,

    #[command(flatten)]
    server: ServerArgs,
}

/// A kind of names that a shell completes.
#[derive(Clone, Copy, ValueEnum)]
enum NameKind {
    Jobs,
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
    script.extend_from_slice(match args.shell {
        Shell::Bash => BASH_NAMES.as_bytes(),
        Shell::Fish => FISH_NAMES.as_bytes(),
        Shell::Zsh => ZSH_NAMES.as_bytes(),
        _ => b"",
    });
    std::io::stdout().write_all(&script)?;
    Ok(())
}

/// Prints names, one a line.
pub fn names(args: NamesArgs) -> Result<(), Failure> {
    let NameKind::Jobs = args.kind;
    let client = Client::new(&args.server)?;
    let (jobs, _) = find_all(&client, &Filter::default(), Some(NAMES_MAX))?;
    let mut out = std::io::stdout().lock();
    for job in jobs {
        writeln!(out, "{}", visible(&text(&job, "name")))?;
    }
    Ok(())
}
