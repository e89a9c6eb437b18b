//! `punctual backup`: a copy of a server that runs on.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use crate::backup::{self, Draft, file_name};
use crate::cli_error::CliError;
use crate::client::{Call, Client, Flow};
use crate::clock;
use crate::exit::{Exit, Failure};
use crate::output::{self, bytes, text};
use crate::progress::ProgressLine;

/// Where the backup goes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual backup --to nightly --keep 7        a target of the server's settings (backup.targets)
  punctual backup --to ./backups/              a folder of this machine
  punctual backup --to ./before-upgrade.tar.zst
  punctual backup --to - | ssh vault 'cat > punctual.tar.zst'

A plain word is a target of the server; whatever has a slash or a dot is a folder or a file here.
The server runs on while the backup is made. The backup is one file, and it is there whole or not at
all. It holds jobs, runs, their history and outputs, and the database of SQL jobs; with
--with-artifacts also the archives of artifacts, which are otherwise only named. It does not hold
the keys: keep master.key of the data folder elsewhere, and once is enough. With PostgreSQL as the
store, its own tools make backups.")]
pub struct BackupArgs {
    /// Target of the server, or a folder, a file or - (stdout) here
    #[arg(long, value_name = "TARGET")]
    to: String,

    /// How many backups stay in a target of the server; older ones are deleted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    /// Leave out what runs have said
    #[arg(long)]
    no_outputs: bool,

    /// Include the archives of artifacts
    #[arg(long)]
    with_artifacts: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Runs the command.
pub fn run(args: BackupArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if args.to == "-" {
        return to_stdout(&args, &client);
    }
    if !args.to.is_empty() && args.to.chars().all(is_name) {
        return on_server(&args, &client);
    }
    if args.to.contains("://") {
        let text = format!("--to: {:?} is not a place that this command knows", args.to);
        let hint = "write to - and let the tool of your object storage read it";
        return Err(CliError::new(text).hint(hint).into());
    }
    to_file(&args, &client)
}

/// The server writes it.
fn on_server(args: &BackupArgs, client: &Client) -> Result<(), Failure> {
    let mut order = json!({"target": args.to, "outputs": !args.no_outputs});
    if let Some(keep) = args.keep {
        order["keep"] = keep.into();
    }
    // A server of an earlier release does not know the field.
    if args.with_artifacts {
        order["artifacts"] = true.into();
    }
    let progress = ProgressLine::of_work(&args.asking.output, "the server makes the backup");
    let made = client.post(&["v1", "backups"]).json(&order).send_whenever().map_err(|failure| {
        match failure {
            Failure::Ended(Exit::Usage, error) => {
                let hint = format!("for a folder of this machine write ./{}", args.to);
                Failure::Ended(Exit::Usage, error.hint(hint))
            }
            other => other,
        }
    })?;
    drop(progress);
    let mut words = format!("{}: {}, {}", args.to, text(&made, "name"), bytes(&made, "bytes"));
    for name in made["removed"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        words.push_str(&format!("; {name} deleted"));
    }
    output::print_done(&args.asking.output, &made, "name", &words)
}

/// It is written here.
fn to_file(args: &BackupArgs, client: &Client) -> Result<(), Failure> {
    refuse_keep(args)?;
    let (folder, name) = place(&args.to);
    let path = folder.join(&name);
    let cannot =
        |error: io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    if path.exists() {
        let text = format!("{} exists", path.display());
        let error = CliError::new(text).hint("choose another name; nothing is overwritten");
        return Err(Failure::Ended(Exit::Conflict, error));
    }
    let mut draft = Draft::begin(&folder, &name).map_err(cannot)?;
    receive(args, client, &mut |part| draft.write_all(part).map_err(cannot))?;
    // A file gets its name when it is known that it can be restored.
    let progress = ProgressLine::of_bytes(&args.asking.output, "checking", draft.written());
    backup::check(draft.path(), &|read| progress.set(read))?;
    drop(progress);
    let written = draft.finish().map_err(cannot)?;
    let made = json!({"file": path.display().to_string(), "bytes": written.bytes, "sha256": written.sha256});
    let words = format!("{}: {}", path.display(), bytes(&made, "bytes"));
    output::print_done(&args.asking.output, &made, "file", &words)
}

fn to_stdout(args: &BackupArgs, client: &Client) -> Result<(), Failure> {
    refuse_keep(args)?;
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        let text = "--to -: a terminal cannot show a backup";
        return Err(CliError::new(text).hint("write to a file or a pipe").into());
    }
    receive(args, client, &mut |part| Ok(out.write_all(part)?))?;
    Ok(out.flush()?)
}

fn refuse_keep(args: &BackupArgs) -> Result<(), Failure> {
    match args.keep {
        None => Ok(()),
        Some(_) => Err(CliError::new("--keep needs a target of the server").into()),
    }
}

/// Writes a backup as it arrives.
fn receive(
    args: &BackupArgs,
    client: &Client,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let progress = ProgressLine::of_stream(&args.asking.output, "backup");
    let received = Cell::new(0);
    let outputs = if args.no_outputs { "false" } else { "true" };
    let mut call: Call<'_> = client.call(Method::GET, &["v1", "backup"]).query("outputs", outputs);
    if args.with_artifacts {
        call = call.query("artifacts", "true");
    }
    call.stream(None, |part| {
        received.set(received.get() + part.len() as u64);
        progress.set(received.get());
        take(part).map(|()| Flow::More)
    })
    .map_err(|failure| match received.get() {
        0 => failure,
        _ => failure.about("the backup was cut off"),
    })
}

/// The folder and the file name that `--to` names.
fn place(to: &str) -> (PathBuf, String) {
    let path = Path::new(to);
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if !path.is_dir() && !to.ends_with('/') => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            (folder.unwrap_or(Path::new(".")).to_owned(), name.to_owned())
        }
        _ => (path.to_owned(), file_name(clock::now())),
    }
}
