//! `punctual restore`: a backup becomes a data folder.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::backup::{self, CheckedBackup, Manifest, fingerprint};
use crate::cli_error::CliError;
use crate::client::{ServerArgs, data_folder};
use crate::clock;
use crate::data::DataFolder;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputArgs, bytes};
use crate::progress::ProgressLine;

/// Which backup, and where to.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual restore --from ./backups/ --check
  punctual restore --from ./backups/punctual-20270101T030000.000Z.tar.zst --data ./restored
  punctual serve --data ./restored

No server may use the folder, and it must be empty, but for keys: put master.key of the old data
folder there first. The manifest and the SHA-256 of every file are checked before anything is put in
place. What was running when the backup was made counts as lost and is tried again as its job says;
nothing that was started before can report a result any more. Times that passed since are caught up
as each job says. Do not let the old server run on beside the restored one: both would do the work.")]
pub struct RestoreArgs {
    /// File of the backup, or a folder: the newest in it
    #[arg(long, value_name = "PATH")]
    from: PathBuf,

    /// Data folder to fill [env: PUNCTUAL_DATA] [default: ./punctual-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Only check that the backup is complete and that this release can use it
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: RestoreArgs) -> Result<(), Failure> {
    let archive = find(&args.from)?;
    let size = fs::metadata(&archive).map_or(0, |file| file.len());
    if args.check {
        let progress = ProgressLine::of_bytes(&args.output, "checking", size);
        let checked = backup::check(&archive, &|read| progress.set(read))?;
        drop(progress);
        let words = format!("{} is whole: {}", archive.display(), told(&checked));
        return output::print_done(&args.output, &about(&archive, &checked), "file", &words);
    }
    let server = ServerArgs { data: args.data.clone(), ..ServerArgs::default() };
    let folder = DataFolder::open(&data_folder(&server))
        .map_err(|error| Failure::Ended(Exit::Conflict, error))?;
    let progress = ProgressLine::of_bytes(&args.output, "restoring", size);
    let user = os_user();
    let by = (clock::now(), user.as_str());
    let (checked, revived) =
        backup::restore(&archive, folder.path(), by, &|read| progress.set(read))?;
    drop(progress);
    let mut item = about(&archive, &checked);
    item["data"] = folder.path().display().to_string().into();
    item["jobs"] = revived.jobs.into();
    item["was_running"] = revived.running.into();
    let mut words = format!(
        "{} is restored to {}: {}; jobs: {}",
        archive.display(),
        folder.path().display(),
        told(&checked),
        revived.jobs
    );
    if revived.running > 0 {
        let runs = if revived.running == 1 { "run that was" } else { "runs that were" };
        words.push_str(&format!("; {} {runs} under way will be handed on", revived.running));
    }
    output::print_done(&args.output, &item, "data", &words)?;
    if let Some(remark) = about_key(folder.path(), &checked.manifest) {
        args.output.say(&remark);
    }
    if let Some(remark) = about_artifacts(&checked.manifest) {
        args.output.say(&remark);
    }
    Ok(())
}

/// The actor of the restore for the audit log. There is no server to log in to, so it is the user
/// of the operating system who runs the command. The colon distinguishes it: users of Punctual have
/// none in their name.
fn os_user() -> String {
    let uid = nix::unistd::getuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => format!("os:{}", user.name),
        _ => format!("os:{uid}"),
    }
}

/// The file that is meant.
fn find(from: &Path) -> Result<PathBuf, Failure> {
    let missing = |text: String| Failure::Ended(Exit::NotFound, CliError::new(text));
    if !from.exists() {
        return Err(missing(format!("{} does not exist", from.display())));
    }
    if !from.is_dir() {
        return Ok(from.to_owned());
    }
    let newest = backup::newest(from)?;
    newest.ok_or_else(|| missing(format!("there is no backup in {}", from.display())))
}

fn about(archive: &Path, checked: &CheckedBackup) -> serde_json::Value {
    let Manifest { made_at, version, schema_version, files, artifacts, .. } = &checked.manifest;
    json!({
        "file": archive.display().to_string(), "made_at": made_at, "version": version,
        "schema_version": schema_version, "files": files.len(), "bytes": checked.bytes,
        "artifacts": artifacts, "missing_artifacts": checked.manifest.missing_artifacts(),
    })
}

fn told(checked: &CheckedBackup) -> String {
    let Manifest { made_at, version, files, .. } = &checked.manifest;
    let size = bytes(&json!({"bytes": checked.bytes}), "bytes");
    format!("made at {made_at:.0} by Punctual {version}, {} files, {size}", files.len())
}

/// The note about artifacts that the backup needs and does not contain.
fn about_artifacts(manifest: &Manifest) -> Option<String> {
    const SHOWN: usize = 5;
    let missing = manifest.missing_artifacts();
    let mut names: Vec<&str> = missing.iter().take(SHOWN).map(|it| it.name.as_str()).collect();
    if missing.len() > SHOWN {
        names.push("…");
    }
    (!missing.is_empty()).then(|| {
        format!(
            "note: the backup needs {} versions of artifacts that are not in it ({}): restore their \
             storage as well, or push them again",
            missing.len(),
            names.join(", ")
        )
    })
}

/// The note about the master key that protects secrets.
fn about_key(data: &Path, manifest: &Manifest) -> Option<String> {
    let wanted = manifest.master_key.as_ref()?;
    let path = data.join("master.key");
    match fs::read_to_string(&path) {
        Ok(key) if fingerprint(&key) == *wanted => None,
        Ok(_) => Some(format!(
            "note: {} is not the key of this backup: its secrets cannot be read with it",
            path.display()
        )),
        Err(_) => Some(format!(
            "note: keys are not part of a backup: put master.key of the old data folder at {} before \
             the first start, or the secrets cannot be read",
            path.display()
        )),
    }
}
