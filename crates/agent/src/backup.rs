//! The interface to backups of the server that an agent is part of. BACKUP actions and the APIs
//! call it; the binary implements it.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use domain::action::BackupAction;
use serde::Serialize;
use tokio::sync::mpsc;

/// An answer that takes a while. Dropping it gives the backup up.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<Backup, BackupError>> + Send + 'a>>;

/// Makes backups.
pub trait Backups: Send + Sync + 'static {
    /// Makes one in a target of the settings: whole, or not at all.
    fn to_target<'a>(&'a self, order: &'a BackupAction) -> Making<'a>;

    /// Makes one that is streamed to the caller. An error in the stream is its end: the part received
    /// before is unusable.
    fn stream(&self, parts: BackupParts) -> Result<BackupStream, BackupError>;
}

/// What a backup contains besides the databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupParts {
    /// The outputs of runs.
    pub outputs: bool,
    /// The archives of artifacts.
    pub artifacts: bool,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// Where it is: the name of the target.
    pub target: String,
    /// The name of its file there.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of the file, in hex.
    pub sha256: String,
    /// How many files are in it.
    pub files: u64,
    /// Older ones that were deleted because only so many are kept.
    pub removed: Vec<String>,
}

/// A backup on its way to the caller.
pub struct BackupStream {
    /// A name for its file.
    pub name: String,
    /// Its bytes.
    pub parts: mpsc::Receiver<std::io::Result<Bytes>>,
}

/// Why there is no backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// This process cannot make backups.
    #[error("{0}")]
    Unsupported(String),
    /// The settings know no such target.
    #[error("there is no target {name:?}: {known}")]
    UnknownTarget {
        /// The name.
        name: String,
        /// The configured targets, as a sentence.
        known: String,
    },
    /// One is being made.
    #[error("another backup is being made: wait for its end")]
    Busy,
    /// It went wrong.
    #[error("{0}")]
    Failed(String),
}

/// The implementation for processes that cannot make backups, with the reason.
pub struct NoBackups(pub &'static str);

impl NoBackups {
    fn refused(&self) -> BackupError {
        BackupError::Unsupported(self.0.to_owned())
    }
}

impl Backups for NoBackups {
    fn to_target<'a>(&'a self, _order: &'a BackupAction) -> Making<'a> {
        Box::pin(async { Err(self.refused()) })
    }

    fn stream(&self, _parts: BackupParts) -> Result<BackupStream, BackupError> {
        Err(self.refused())
    }
}
