//! Outputs in object storage: a reader fetches one whole, compares its digest, and keeps it for a
//! while on the disk of this server, because readers ask for it in many small parts.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agent::output::ArchivedOutput;
use blobs::{BlobError, BlobStore};
use domain::artifact::ArtifactDigest;
use domain::id::RunId;
use sha2::{Digest, Sha256};

/// How much of the archive is kept on the disk of this server.
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// Why an archived output cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputArchiveError {
    /// Object storage does not answer; another time it may.
    Unavailable(String),
    /// Object storage does not have it, or not as it was.
    Lost(String),
    /// The disk of this server is at fault.
    Disk(String),
}

impl fmt::Display for OutputArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputArchiveError::Unavailable(problem) | OutputArchiveError::Lost(problem) => {
                f.write_str(problem)
            }
            OutputArchiveError::Disk(problem) => {
                write!(f, "archived outputs cannot be kept on this server: {problem}")
            }
        }
    }
}

/// The archive of outputs.
pub struct OutputArchive {
    /// Object storage.
    pub blobs: BlobStore,
    /// What was fetched lately, and what is being packed or fetched.
    folder: PathBuf,
    /// Fetches under way, so that readers of the same output share one.
    fetches: Mutex<HashMap<ArtifactDigest, Weak<tokio::sync::Mutex<()>>>>,
    /// The files of the folder as they were when their digests were compared.
    checked: Mutex<HashMap<ArtifactDigest, FileStamp>>,
    /// Numbers temporary files.
    count: AtomicU64,
}

/// What changes with the content of a file. To compute a digest for each small part of an output
/// would take longer than to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of the last change, which a program cannot set.
    changed: (i64, i64),
}

impl FileStamp {
    fn from_file(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Ok(FileStamp { inode: found.ino(), bytes: found.len(), changed })
    }
}

/// A file that is deleted with this.
pub(crate) struct TemporaryFile(pub PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // The folder is emptied at the next start anyway.
        let _ = fs::remove_file(&self.0);
    }
}

impl OutputArchive {
    /// The archive, with a folder of its own on this server, which is emptied.
    pub fn new(blobs: BlobStore, folder: PathBuf) -> io::Result<Arc<Self>> {
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)?.flatten() {
            fs::remove_file(entry.path())?;
        }
        let (fetches, checked, count) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Ok(Arc::new(OutputArchive { blobs, folder, fetches, checked, count }))
    }

    /// A new temporary file.
    pub(crate) fn temporary(&self) -> TemporaryFile {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        TemporaryFile(self.folder.join(format!("{number}.part")))
    }

    /// The output of an attempt as a file, from this server or from object storage.
    pub async fn open(
        &self,
        run: RunId,
        attempt: u32,
        archived: ArchivedOutput,
    ) -> Result<File, OutputArchiveError> {
        let path = self.folder.join(archived.digest.to_string());
        if let Some(file) = self.cached(&path, archived.digest) {
            return Ok(file);
        }
        let fetch = {
            let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            fetches.retain(|_, fetch| fetch.strong_count() > 0);
            match fetches.get(&archived.digest).and_then(Weak::upgrade) {
                Some(fetch) => fetch,
                None => {
                    let fetch = Arc::default();
                    fetches.insert(archived.digest, Arc::downgrade(&fetch));
                    fetch
                }
            }
        };
        let _fetching = fetch.lock().await;
        if let Some(file) = self.cached(&path, archived.digest) {
            return Ok(file);
        }
        let part = self.fetch(run, attempt, archived).await?;
        let disk = |error: io::Error| OutputArchiveError::Disk(error.to_string());
        // Opened before it can be deleted for another one.
        let file = File::open(&part.0).map_err(disk)?;
        fs::rename(&part.0, &path).map_err(disk)?;
        let stamp = FileStamp::from_file(&file).map_err(disk)?;
        self.checked().insert(archived.digest, stamp);
        self.shrink(&path).map_err(disk)?;
        Ok(file)
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<ArtifactDigest, FileStamp>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of an output that was fetched before; none if it is gone or was changed since.
    fn cached(&self, path: &Path, digest: ArtifactDigest) -> Option<File> {
        let stamp = self.checked().get(&digest).copied()?;
        let file = File::open(path).ok()?;
        if FileStamp::from_file(&file).ok()? == stamp {
            return Some(file);
        }
        tracing::warn!(%digest, "cached output was changed on disk, it is fetched again");
        None
    }

    /// The object of an attempt that has no record of one. A backup that was made while the files
    /// were moved has such records.
    pub async fn find(
        &self,
        run: RunId,
        attempt: u32,
    ) -> Result<Option<ArchivedOutput>, OutputArchiveError> {
        let (folder, begin) = ArchivedOutput::object_prefix(run, attempt);
        let found = self.blobs.find_named(&folder, &begin).await;
        let found = found.map_err(|error| OutputArchiveError::Unavailable(error.to_string()))?;
        Ok(found.and_then(|(name, bytes)| {
            let (_, _, digest) = ArchivedOutput::parts_of_name(&name)?;
            Some(ArchivedOutput { digest, bytes })
        }))
    }

    /// Fetches an object to a temporary file and compares its digest.
    async fn fetch(
        &self,
        run: RunId,
        attempt: u32,
        archived: ArchivedOutput,
    ) -> Result<TemporaryFile, OutputArchiveError> {
        let failed = |error: BlobError| match error {
            BlobError::Unavailable(_) => OutputArchiveError::Unavailable(error.to_string()),
            BlobError::Absent(_) => OutputArchiveError::Lost(format!(
                "object storage has no object sha256:{}, the archived output",
                archived.digest
            )),
            BlobError::Damaged(_) => damaged(archived),
        };
        let disk = |error: io::Error| OutputArchiveError::Disk(error.to_string());
        let name = archived.object_name(run, attempt);
        let mut object = self.blobs.open_named(&name, archived.digest).await.map_err(failed)?;
        let part = self.temporary();
        let mut file = File::create_new(&part.0).map_err(disk)?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        while let Some(chunk) = object.next().await.map_err(failed)? {
            bytes += chunk.len() as u64;
            if bytes > archived.bytes {
                return Err(damaged(archived));
            }
            hasher.update(&chunk);
            // Of a few kilobytes each, into the page cache.
            file.write_all(&chunk).map_err(disk)?;
        }
        if ArtifactDigest(hasher.finalize().into()) != archived.digest {
            return Err(damaged(archived));
        }
        Ok(part)
    }

    /// Deletes what was fetched first while there is too much, but for one file.
    fn shrink(&self, newest: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            // One that another request deletes meanwhile counts no more.
            let Ok(metadata) = entry.metadata() else { continue };
            let is_part = entry.path().extension().is_some();
            if !is_part && entry.path() != newest {
                files.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        files.sort();
        let newest = fs::metadata(newest).map_or(0, |metadata| metadata.len());
        let mut total = newest + files.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (_, bytes, path) in files {
            if total <= CACHE_BYTES_MAX {
                break;
            }
            let digest = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            digest.and_then(|digest: ArtifactDigest| self.checked().remove(&digest));
            let _ = fs::remove_file(path);
            total -= bytes;
        }
        Ok(())
    }
}

fn damaged(archived: ArchivedOutput) -> OutputArchiveError {
    let digest = archived.digest;
    OutputArchiveError::Lost(format!("object sha256:{digest}, the archived output, is damaged"))
}
