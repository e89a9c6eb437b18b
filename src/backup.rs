//! Backups of a server on the embedded store: made while it runs, restored while it is stopped.
//!
//! A backup is one file, `punctual-<instant>.tar.zst`:
//!
//! ```text
//! punctual.db      jobs, runs, their history, settings of the cluster: as they were at one moment
//! main.db          the database of SQL jobs, if there is one
//! outputs/…        what runs have said
//! artifacts/…      the archives of artifacts, if that was asked for
//! manifest.json    at the end: who made it, and the SHA-256 of every file
//! ```
//!
//! The manifest comes last, so an archive that was cut off has none. Keys are not in it.

mod archive;
mod draft;
mod manifest;
mod restore;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::backup::{Backup, BackupError, BackupParts, BackupStream, Backups, Making};
use axum::body::Bytes;
use blobs::{BlobError, BlobStore};
use domain::action::BackupAction;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cli_error::CliError;
use crate::config::Config;

pub use archive::{Contents, Hashed};
pub use draft::{Draft, file_name, newest};
pub use manifest::{Manifest, fingerprint};
pub use restore::{CheckedBackup, MARK, check, restore};

/// Parts of a stream that wait for a slow reader.
const PARTS_WAITING: usize = 8;

/// How long a reader may take for the next part: others wait for their turn.
const STALLED_MAX: Duration = Duration::from_secs(60);

/// Where backups go.
#[derive(Clone)]
pub enum BackupTarget {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Object storage.
    Storage(BlobStore),
}

/// Makes the backups of a server.
pub struct DataBackups {
    contents: Contents,
    targets: BTreeMap<String, BackupTarget>,
    clock: fn() -> Timestamp,
    /// Backups run one at a time: each needs disk space for a copy of the database.
    turn: Arc<Semaphore>,
}

/// The targets of the settings, by name.
pub fn targets(config: &Config) -> Result<BTreeMap<String, BackupTarget>, CliError> {
    let mut targets = BTreeMap::new();
    for (name, value) in config.named("backup.targets") {
        let wrong = |problem: String| CliError::new(format!("backup.targets.{name}: {problem}"));
        if value.contains("://") {
            let storage = BlobStore::at(value, config.text("backup.credentials"));
            let storage = storage.map_err(|error| wrong(error.to_string()))?;
            targets.insert(name.to_owned(), BackupTarget::Storage(storage));
            continue;
        }
        if !Path::new(value).is_absolute() {
            return Err(wrong(format!("{value:?} must be the whole path of a folder")));
        }
        targets.insert(name.to_owned(), BackupTarget::Folder(PathBuf::from(value)));
    }
    Ok(targets)
}

impl DataBackups {
    /// Backups of this data folder. Deletes the temporary files of a process that was killed.
    pub fn new(
        contents: Contents,
        targets: BTreeMap<String, BackupTarget>,
        clock: fn() -> Timestamp,
    ) -> Self {
        archive::clear(&contents);
        DataBackups { contents, targets, clock, turn: Arc::new(Semaphore::new(1)) }
    }

    fn take_turn(&self) -> Result<OwnedSemaphorePermit, BackupError> {
        Arc::clone(&self.turn).try_acquire_owned().map_err(|_| BackupError::Busy)
    }

    fn target(&self, target: &str) -> Result<&BackupTarget, BackupError> {
        self.targets.get(target).ok_or_else(|| {
            let names: Vec<&str> = self.targets.keys().map(String::as_str).collect();
            let known = match names.as_slice() {
                [] => "backup.targets of the server's settings is empty".to_owned(),
                names => {
                    format!("backup.targets of the server's settings has {}", names.join(", "))
                }
            };
            BackupError::UnknownTarget { name: target.to_owned(), known }
        })
    }
}

impl Backups for DataBackups {
    fn to_target<'a>(&'a self, order: &'a BackupAction) -> Making<'a> {
        Box::pin(async move {
            let target = self.target(&order.target)?.clone();
            let turn = self.take_turn()?;
            let (contents, now, mut wish) = (self.contents.clone(), (self.clock)(), order.clone());
            let (folder, storage) = match target {
                BackupTarget::Folder(folder) => (folder, None),
                BackupTarget::Storage(storage) => {
                    wish.keep = None;
                    (archive::outgoing(&contents), Some(storage))
                }
            };
            let made_in = folder.clone();
            let wanted = BackupWanted::default();
            let go_on = wanted.clone();
            let work = move || {
                let made = into_folder(&contents, &folder, &wish, now, &|| go_on.is_wanted());
                made.map(|made| (made, turn))
            };
            let made = tokio::task::spawn_blocking(work).await;
            drop(wanted);
            let failed = |error: &dyn std::fmt::Display| {
                BackupError::Failed(format!("target {}: {error}", order.target))
            };
            let made = made.map_err(io::Error::other).and_then(|made| made);
            // The turn lasts until the file is in the storage.
            let (mut made, _turn) = made.map_err(|error| failed(&error))?;
            if let Some(storage) = storage {
                let file = OutgoingFile(made_in.join(&made.name));
                let sent = send(&storage, &made.name, &file.0, order.keep).await;
                made.removed = sent.map_err(|error| failed(&error))?;
                let before = now.saturating_sub(domain::artifact::GRACE).unwrap_or(Timestamp::MIN);
                let delete = move || storage.delete_leftovers(before.into());
                // Files that stay are met again with the next backup.
                let _ = tokio::task::spawn_blocking(delete).await;
            }
            Ok(made)
        })
    }

    fn stream(&self, wish: BackupParts) -> Result<BackupStream, BackupError> {
        let turn = self.take_turn()?;
        let (contents, now) = (self.contents.clone(), (self.clock)());
        let (send, parts) = tokio::sync::mpsc::channel(PARTS_WAITING);
        tokio::task::spawn_blocking(move || {
            let wanted = || !send.is_closed();
            let mut out = io::BufWriter::with_capacity(
                256 << 10,
                StreamWriter { send: &send, runtime: Handle::current() },
            );
            let made = archive::write(&contents, wish, now, &mut out, &wanted)
                .and_then(|_| io::Write::flush(&mut out));
            // Nothing half goes out when the writer is dropped.
            let _ = out.into_parts();
            if let Err(error) = made
                && !send.is_closed()
            {
                tracing::error!(%error, "backup download failed");
                // Send the error: a stream that just ended would look complete. The turn is
                // released first, so that only this slow reader waits for it.
                drop(turn);
                let _ = send.blocking_send(Err(error));
            }
        });
        Ok(BackupStream { name: file_name(now), parts })
    }
}

/// A backup on its way to object storage. It is deleted with this.
struct OutgoingFile(PathBuf);

impl Drop for OutgoingFile {
    fn drop(&mut self) {
        // What stays is deleted at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a backup to object storage, where it is whole or absent, and deletes those that are too
/// many. Answers their names.
async fn send(
    storage: &BlobStore,
    name: &str,
    file: &Path,
    keep: Option<u32>,
) -> Result<Vec<String>, BlobError> {
    storage.put_named(name, file).await?;
    let Some(keep) = keep else { return Ok(Vec::new()) };
    let mut names = storage.names().await?;
    names.retain(|name| draft::is_backup(name));
    names.sort_unstable();
    names.truncate(names.len().saturating_sub(keep as usize));
    for name in &names {
        storage.delete_named(name).await?;
    }
    Ok(names)
}

/// Makes a backup in a folder, and deletes those that are too many.
fn into_folder(
    contents: &Contents,
    folder: &Path,
    order: &BackupAction,
    now: Timestamp,
    wanted: &dyn Fn() -> bool,
) -> io::Result<Backup> {
    let mut draft = Draft::begin(folder, &file_name(now))?;
    let parts = BackupParts { outputs: order.outputs, artifacts: order.artifacts };
    let manifest = archive::write(contents, parts, now, &mut draft, wanted)?;
    let written = draft.finish()?;
    let removed = match order.keep {
        Some(keep) => draft::keep_newest(folder, keep)?,
        None => Vec::new(),
    };
    Ok(Backup {
        target: order.target.clone(),
        name: written.name,
        bytes: written.bytes,
        sha256: written.sha256,
        files: manifest.files.len() as u64,
        removed,
    })
}

/// Tells the thread that makes a backup that its caller is gone.
#[derive(Clone, Default)]
struct BackupWanted(Arc<Dropped>);

#[derive(Default)]
struct Dropped(AtomicBool);

impl BackupWanted {
    fn is_wanted(&self) -> bool {
        !self.0.0.load(Ordering::Relaxed)
    }
}

impl Drop for BackupWanted {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Sends the written bytes to the reader of the stream.
struct StreamWriter<'a> {
    send: &'a Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl io::Write for StreamWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = Ok(Bytes::copy_from_slice(bytes));
        match self.runtime.block_on(self.send.send_timeout(part, STALLED_MAX)) {
            Ok(()) => Ok(bytes.len()),
            Err(SendTimeoutError::Timeout(_)) => Err(io::Error::other("its reader has stalled")),
            Err(SendTimeoutError::Closed(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
