//! Uploads of artifacts: archives that have not wholly arrived, in files of this server.
//!
//! An upload is known by the digest that its archive shall have, so that a client that lost its
//! connection asks how much has arrived and sends the rest. The archive is checked as a whole, goes
//! to object storage, and only then gets its row in the store: what a crash leaves behind is an
//! upload that goes on, or an object without a row, which the collector deletes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use agent::artifact::archive::{self, ArchiveContent, ArchiveError};
use axum::body::Body;
use blobs::{BlobError, BlobStore};
use domain::artifact::{ArchiveFacts, ArtifactDigest};
use domain::id::TenantId;
use futures_util::StreamExt;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::problem::{Code, Problem, Result};

/// A tenant's uploads take at most so many times the size of the largest artifact.
const UPLOADS_PER_TENANT: u64 = 4;

/// Where artifacts are kept, and where they arrive.
pub struct ArtifactStorage {
    /// Object storage.
    pub blobs: BlobStore,
    /// The folder of uploads.
    incoming: PathBuf,
    /// The largest archive.
    bytes_max: u64,
    /// Uploads that a request works on.
    busy: Mutex<HashSet<PathBuf>>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// An upload that one request works on, until this is dropped.
struct Upload<'a> {
    storage: &'a ArtifactStorage,
    path: PathBuf,
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.storage.busy().remove(&self.path);
    }
}

impl ArtifactStorage {
    /// Storage with uploads in a folder, which is made if need be.
    pub fn new(
        blobs: BlobStore,
        incoming: PathBuf,
        bytes_max: u64,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> io::Result<Arc<Self>> {
        std::fs::create_dir_all(&incoming)?;
        let busy = Mutex::default();
        Ok(Arc::new(ArtifactStorage { blobs, incoming, bytes_max, busy, clock }))
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, tenant: TenantId, digest: ArtifactDigest) -> PathBuf {
        self.incoming.join(format!("{tenant}-{digest}"))
    }

    fn begin(&self, tenant: TenantId, digest: ArtifactDigest) -> Result<Upload<'_>> {
        let path = self.path(tenant, digest);
        if !self.busy().insert(path.clone()) {
            let text = "another request works on this upload";
            return Err(Problem::new(Code::WrongState, text));
        }
        Ok(Upload { storage: self, path })
    }

    /// How many bytes of an upload have arrived.
    pub async fn received(&self, tenant: TenantId, digest: ArtifactDigest) -> Result<u64> {
        match tokio::fs::metadata(self.path(tenant, digest)).await {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Adds a body to an upload, of which so many bytes have arrived. Answers how many have now. A
    /// body that breaks off leaves what came of it.
    pub async fn receive(
        &self,
        tenant: TenantId,
        digest: ArtifactDigest,
        offset: u64,
        body: Body,
    ) -> Result<u64> {
        let upload = self.begin(tenant, digest)?;
        let mut received = self.received(tenant, digest).await?;
        if received != offset {
            let text = format!("the upload goes on at {received}, not at {offset}");
            return Err(Problem::field(Code::WrongState, "offset", text));
        }
        let of_others = self.bytes_of(tenant).await?.saturating_sub(received);
        let most = self.bytes_max.saturating_mul(UPLOADS_PER_TENANT).saturating_sub(of_others);
        // A body without content leaves no file.
        let mut file = None;
        let mut chunks = body.into_data_stream();
        let mut problem = None;
        while let Some(chunk) = chunks.next().await {
            let Ok(chunk) = chunk else {
                let text = "the body ended too early; send the rest from the offset received";
                problem = Some(Problem::new(Code::InvalidRequest, text));
                break;
            };
            received += chunk.len() as u64;
            if received > self.bytes_max {
                let text = format!("an artifact has at most {} bytes", self.bytes_max);
                problem = Some(Problem::new(Code::BodyTooLarge, text));
                break;
            }
            if received > most {
                let text = "the tenant has too many unfinished uploads";
                problem = Some(Problem::new(Code::QuotaExceeded, text));
                break;
            }
            if file.is_none() {
                let mut options = tokio::fs::OpenOptions::new();
                let opened = options.append(true).create(true).open(&upload.path).await;
                file = Some(opened.map_err(|error| failed(&error))?);
            }
            if let Some(file) = &mut file {
                file.write_all(&chunk).await.map_err(|error| failed(&error))?;
            }
        }
        if let Some(file) = &mut file {
            file.flush().await.map_err(|error| failed(&error))?;
        }
        match problem {
            Some(problem) => {
                if problem.code != Code::InvalidRequest {
                    // It can never be committed.
                    let _ = tokio::fs::remove_file(&upload.path).await;
                }
                Err(problem)
            }
            None => Ok(received),
        }
    }

    async fn bytes_of(&self, tenant: TenantId) -> Result<u64> {
        let (folder, prefix) = (self.incoming.clone(), format!("{tenant}-"));
        let counted = tokio::task::spawn_blocking(move || -> io::Result<u64> {
            let files = std::fs::read_dir(folder)?.flatten();
            let own = files.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix));
            Ok(own.filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum())
        });
        counted.await.map_err(io::Error::other).flatten().map_err(|error| failed(&error))
    }

    /// Checks an upload that has wholly arrived, and puts it into object storage.
    pub async fn store(&self, tenant: TenantId, digest: ArtifactDigest) -> Result<ArchiveFacts> {
        let upload = self.begin(tenant, digest)?;
        let path = upload.path.clone();
        let checked = tokio::task::spawn_blocking(move || check(path)).await;
        let (found, bytes, content) = match checked.map_err(io::Error::other).flatten() {
            Ok(checked) => checked,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = format!("there is no upload of sha256:{digest}: send its content first");
                return Err(Problem::field(Code::WrongState, "digest", text));
            }
            Err(error) => return Err(failed(&error)),
        };
        if found != digest {
            let _ = tokio::fs::remove_file(&upload.path).await;
            let text =
                format!("is sha256:{digest}, but the content is sha256:{found}; send it again");
            return Err(Problem::invalid("digest", text));
        }
        let content = match content {
            Ok(content) => content,
            Err(ArchiveError::Invalid(problem)) => {
                let _ = tokio::fs::remove_file(&upload.path).await;
                return Err(Problem::invalid("archive", problem));
            }
            Err(ArchiveError::Target(error)) => return Err(failed(&error)),
        };
        let now = (self.clock)().as_second();
        self.blobs.put_file(digest, &upload.path, now).await.map_err(unavailable)?;
        let ArchiveContent { entries, bytes: unpacked_bytes } = content;
        Ok(ArchiveFacts { digest, bytes, unpacked_bytes, entries })
    }

    /// Ends an upload whose row is written. An object that a collector has deleted meanwhile is
    /// written once more.
    pub async fn finish(&self, tenant: TenantId, digest: ArtifactDigest) -> Result<()> {
        let upload = self.begin(tenant, digest)?;
        let now = (self.clock)().as_second();
        self.blobs.put_file(digest, &upload.path, now).await.map_err(unavailable)?;
        let _ = tokio::fs::remove_file(&upload.path).await;
        Ok(())
    }

    /// Deletes what was given up before this time: uploads that nothing was added to, and what a
    /// write to object storage left behind.
    pub(crate) fn sweep(&self, before: SystemTime) {
        for file in std::fs::read_dir(&self.incoming).into_iter().flatten().flatten() {
            let changed = file.metadata().and_then(|it| it.modified());
            let is_old = changed.is_ok_and(|changed| changed < before);
            if is_old && !self.busy().contains(&file.path()) {
                let _ = std::fs::remove_file(file.path());
            }
        }
        self.blobs.delete_leftovers(before);
    }
}

type Checked = (ArtifactDigest, u64, std::result::Result<ArchiveContent, ArchiveError>);

/// The digest of a file, its size, and what is in it.
fn check(path: PathBuf) -> io::Result<Checked> {
    let file = File::open(&path)?;
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    let mut hasher = Sha256::new();
    let mut reader = &file;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let digest = ArtifactDigest(hasher.finalize().into());
    Ok((digest, bytes, archive::check(io::BufReader::new(File::open(&path)?), bytes)))
}

fn failed(error: &io::Error) -> Problem {
    tracing::error!(%error, "an upload of an artifact failed");
    Problem::new(Code::Internal, format!("the upload cannot be kept: {error}"))
}

/// Object storage did not do its part.
pub(crate) fn unavailable(error: BlobError) -> Problem {
    tracing::warn!(%error, "object storage failed");
    Problem::new(Code::SchedulerUnavailable, error.to_string())
}
