//! `punctual artifact`: versions of code bundles that jobs run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::job::Asking;
use super::worker::artifact_parts as parts;
use crate::cli_error::CliError;
use crate::client::{Client, Flow};
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Shape, bytes, confirm, instant, text};
use crate::progress::ProgressLine;

mod pack;
mod vendor;

/// An upload is sent in pieces of this size, so that little is sent again.
const PIECE_BYTES: usize = 8 << 20;

/// A piece is tried so often.
const TRIES_MAX: u32 = 5;

/// The verbs of `punctual artifact`.
#[derive(Subcommand)]
pub enum ArtifactCommand {
    /// Push a folder, a file or an archive as a version of an artifact
    Push(PushArgs),
    /// List versions of artifacts
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a version and the jobs that use it
    Show(OneArgs),
    /// Download the archive of a version
    Pull(PullArgs),
    /// Delete versions that no job uses
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
}

/// What is pushed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual artifact push ./sync --name customer_sync
  punctual artifact push ./sync --name customer_sync --requirements requirements.txt
  punctual artifact push target/release/sync --name sync --label commit=0a1b2c3

The same content is the same version: an archive is made so that it depends on nothing but names,
contents and which files are programs. A file whose name ends with .tar.zst is pushed as it is.")]
pub struct PushArgs {
    /// The folder, the program, or an archive that ends with .tar.zst
    path: PathBuf,

    /// Name of the artifact
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Something to remember about the version
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,

    /// Put the Python packages of this file into the artifact; each needs a hash. Uses uv, or pip
    #[arg(long, value_name = "FILE")]
    requirements: Option<PathBuf>,

    #[command(flatten)]
    asking: Asking,
}

/// Which versions.
#[derive(Args)]
pub struct ListArgs {
    /// Only versions of this artifact
    name: Option<String>,

    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    asking: Asking,
}

/// Which version.
#[derive(Args)]
pub struct OneArgs {
    /// The version: name@3, or name for the newest one
    #[arg(value_name = "NAME[@VERSION]")]
    artifact: String,

    #[command(flatten)]
    asking: Asking,
}

/// Which version, and where to.
#[derive(Args)]
pub struct PullArgs {
    /// The version: name@3, or name for the newest one
    #[arg(value_name = "NAME[@VERSION]")]
    artifact: String,

    /// The file to write [default: NAME-VERSION.tar.zst]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,

    #[command(flatten)]
    asking: Asking,
}

/// Which versions.
#[derive(Args)]
pub struct DeleteArgs {
    /// The versions, each as name@3
    #[arg(required = true, value_name = "NAME@VERSION")]
    artifacts: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

const SHAPE: Shape = Shape {
    columns: &[
        Column { title: "ARTIFACT", cell: |it| text(it, "artifact_id") },
        Column { title: "SIZE", cell: |it| bytes(it, "bytes") },
        Column { title: "DIGEST", cell: |it| text(it, "digest").chars().take(12).collect() },
        Column { title: "PUSHED", cell: |it| instant(it, "created_at") },
        Column { title: "BY", cell: |it| text(it, "created_by") },
        Column { title: "LABELS", cell: labels },
    ],
    wide: &[Column { title: "FILES", cell: |it| text(it, "entries") }],
    name: "artifact_id",
};

fn labels(it: &Value) -> String {
    let labels = it["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    labels.collect::<Vec<_>>().join(",")
}

/// Runs the verb.
pub fn run(command: ArtifactCommand) -> Result<(), Failure> {
    match command {
        ArtifactCommand::Push(args) => push(&args),
        ArtifactCommand::List(args) => list(&args),
        ArtifactCommand::Show(args) => show(&args),
        ArtifactCommand::Pull(args) => pull(&args),
        ArtifactCommand::Delete(args) => delete(&args),
    }
}

fn push(args: &PushArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut given = BTreeMap::new();
    for label in &args.labels {
        let Some((name, value)) = label.split_once('=') else {
            let error = CliError::new(format!("--label {label:?} has no ="));
            return Err(error.hint("for example --label commit=0a1b2c3").into());
        };
        given.insert(name, value);
    }
    let vendored = match &args.requirements {
        Some(file) => Some(vendor::install(file, &args.asking.output)?),
        None => None,
    };
    let mut archive = pack::archive(&args.path, vendored.as_ref().map(|it| it.path()))?;
    let digest = hash(&mut archive)?;
    upload(args, &client, &mut archive, &digest)?;
    let body = json!({ "digest": digest, "labels": given });
    let pushed = client.post(&["v1", "artifacts", &args.name, "versions"]).json(&body);
    let pushed = pushed.send_whenever()?;
    let words = format!("{} is sha256:{digest}", text(&pushed, "artifact_id"));
    output::print_done(&args.asking.output, &pushed, "artifact_id", &words)
}

fn hash(file: &mut File) -> Result<String, Failure> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Sends what the server does not have yet, piece by piece.
fn upload(
    args: &PushArgs,
    client: &Client,
    archive: &mut File,
    digest: &str,
) -> Result<(), Failure> {
    let path = ["v1", "artifacts", &args.name, "uploads", digest];
    let total = archive.metadata()?.len();
    let progress = ProgressLine::of_bytes(&args.asking.output, "pushing", total);
    let received = |answer: &Value| answer["received"].as_u64().unwrap_or(0);
    let mut offset = received(&client.get(&path)?);
    let mut tries = 0;
    while offset < total {
        progress.set(offset);
        archive.seek(SeekFrom::Start(offset))?;
        let mut piece = Vec::new();
        (&mut *archive).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        let call = client.call(Method::PUT, &path).query("offset", &offset.to_string());
        match call.bytes(piece, "application/zstd").send_whenever() {
            Ok(answer) => (offset, tries) = (received(&answer), 0),
            // The connection broke: the server knows what has arrived.
            Err(Failure::Ended(Exit::Unreachable, _)) if tries < TRIES_MAX => {
                tries += 1;
                client.sleep(jiff::SignedDuration::from_millis(200 << tries));
                offset = received(&client.get(&path)?);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let filters: Vec<(&str, String)> = args.name.iter().map(|it| ("name", it.clone())).collect();
    let (items, is_more) = client.list(&["v1", "artifacts"], &filters, args.limit)?;
    output::print_list(&args.asking.output, &items, &SHAPE)?;
    if is_more {
        args.asking.output.say("there are more; raise --limit");
    }
    Ok(())
}

fn show(args: &OneArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let (name, version) = parts(&args.artifact)?;
    let it = client.get(&["v1", "artifacts", &name, "versions", &version])?;
    output::print_one(&args.asking.output, &it, "artifact_id", rows)
}

fn rows(it: &Value) -> Vec<(String, String)> {
    let users = it["used_by"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let rows = [
        ("artifact", text(it, "artifact_id")),
        ("digest", format!("sha256:{}", text(it, "digest"))),
        ("size", bytes(it, "bytes")),
        ("unpacked", bytes(it, "unpacked_bytes")),
        ("files", text(it, "entries")),
        ("labels", labels(it)),
        ("pushed", instant(it, "created_at")),
        ("by", text(it, "created_by")),
        ("used by", users.collect::<Vec<_>>().join(", ")),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    rows.map(|(word, value)| (word.to_owned(), value)).collect()
}

fn pull(args: &PullArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let (name, version) = parts(&args.artifact)?;
    let it = client.get(&["v1", "artifacts", &name, "versions", &version])?;
    let number = text(&it, "version");
    let to = args.to.clone();
    let to = to.unwrap_or_else(|| PathBuf::from(format!("{name}-{number}.tar.zst")));
    let cannot =
        |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", to.display()));
    if to.exists() {
        let error = CliError::new(format!("{} exists", to.display()));
        return Err(Failure::Ended(Exit::Conflict, error.hint("choose another name with --to")));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    let mut hasher = Sha256::new();
    let total = it["bytes"].as_u64().unwrap_or(0);
    let progress = ProgressLine::of_bytes(&args.asking.output, "pulling", total);
    let path = ["v1", "artifacts", &name, "versions", &number, "content"];
    let mut received = 0;
    client.call(Method::GET, &path).stream(None, |part| {
        hasher.update(part);
        received += part.len() as u64;
        progress.set(received);
        file.write_all(part).map_err(cannot).map(|()| Flow::More)
    })?;
    drop(progress);
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != text(&it, "digest") {
        let text = format!("what arrived is sha256:{found}, not sha256:{}", text(&it, "digest"));
        return Err(Failure::failed(text));
    }
    file.as_file().sync_all().map_err(cannot)?;
    file.persist_noclobber(&to).map_err(|error| cannot(error.error))?;
    let words = format!("{}: {}", to.display(), text(&it, "artifact_id"));
    output::print_done(&args.asking.output, &it, "artifact_id", &words)
}

fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let client = args.asking.client()?;
    let mut versions = Vec::new();
    for artifact in &args.artifacts {
        let (name, version) = parts(artifact)?;
        if version == "latest" {
            let error = CliError::new(format!("{artifact:?} names no version"));
            return Err(error.hint(format!("for example {name}@3")).into());
        }
        versions.push((name, version));
    }
    confirm(args.yes, &format!("Delete {}?", args.artifacts.join(", ")))?;
    for (name, version) in versions {
        client.call(Method::DELETE, &["v1", "artifacts", &name, "versions", &version]).send()?;
        args.asking.output.say(&format!("{name}@{version} deleted"));
    }
    Ok(())
}
