//! Where artifacts are kept and for how long, from the settings; and how runs get them.

use std::fs::File;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use agent::artifact::{ArtifactChunks, ArtifactSource, FetchError};
use blobs::{BlobError, BlobReader, BlobStore};
use bytes::Bytes;
use domain::action::{Action, ArtifactAction, Assignment};
use domain::artifact::{ArtifactDigest, ArtifactError, ArtifactReference, ArtifactRetention};
use jiff::SignedDuration;
use sha2::{Digest, Sha256};
use store::{SharedStore, StoreError};

use crate::backup::Hashed;
use crate::cli_error::CliError;
use crate::config::Config;

/// The folder of object storage in the data folder.
const FOLDER: &str = "artifacts";

/// The folder of uploads in the data folder.
pub const UPLOADS: &str = "artifact-uploads";

/// The folder of archived outputs that were read lately, in the data folder.
pub const OUTPUT_CACHE: &str = "output-cache";

/// What the settings say about artifacts.
#[derive(Clone)]
pub struct ArtifactSettings {
    url: String,
    credentials: String,
    /// The largest archive.
    pub bytes_max: u64,
    pub retention: ArtifactRetention,
}

impl ArtifactSettings {
    /// Reads the settings.
    pub fn from_config(config: &Config) -> Result<Self, CliError> {
        let number = "a whole number";
        let keep_versions = config.parse_optional("artifacts.keep_versions", number)?;
        if keep_versions == Some(0) {
            return Err(config.wrong("artifacts.keep_versions", "at least 1, or nothing"));
        }
        let keep_days: Option<u32> = config.parse_optional("artifacts.keep_days", number)?;
        let keep_for = keep_days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
        Ok(ArtifactSettings {
            url: config.text("artifacts.url").to_owned(),
            credentials: config.text("artifacts.credentials").to_owned(),
            bytes_max: config.parse("artifacts.bytes_max", number)?,
            retention: ArtifactRetention { keep_versions, keep_for },
        })
    }

    /// The object storage of a server with this data folder.
    pub fn storage(&self, data: &Path) -> Result<BlobStore, CliError> {
        if self.url.is_empty() {
            let folder = data.join(FOLDER);
            return BlobStore::in_folder(&folder).map_err(|error| {
                CliError::new(format!("cannot keep artifacts in {}: {error}", folder.display()))
            });
        }
        BlobStore::at(&self.url, &self.credentials)
            .map_err(|error| CliError::new(format!("artifacts.url: {error}")))
    }
}

impl ArtifactSettings {
    /// The archives that a restore has put into the data folder, if they belong in another storage
    /// and have not been moved there.
    pub fn restored(&self, data: &Path) -> Option<RestoredArtifacts> {
        let folder = data.join(FOLDER);
        if self.url.is_empty() || restored(&folder).is_empty() {
            return None;
        }
        // The same folder by its path: an archive that was moved to itself would be deleted.
        let storage = Path::new(self.url.strip_prefix("file://").unwrap_or(&self.url));
        if storage.canonicalize().is_ok_and(|storage| folder.canonicalize().ok() == Some(storage)) {
            return None;
        }
        match BlobStore::in_folder(&folder) {
            Ok(blobs) => Some(RestoredArtifacts { folder, blobs }),
            Err(error) => {
                let path = folder.display();
                tracing::warn!(%path, %error, "cannot read restored artifacts");
                None
            }
        }
    }
}

/// Archives in the data folder that belong in the storage of the settings.
#[derive(Clone)]
pub struct RestoredArtifacts {
    folder: PathBuf,
    /// The data folder as object storage.
    blobs: BlobStore,
}

/// The shortest and the longest time between two tries to move restored artifacts.
const IMPORT_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

impl RestoredArtifacts {
    /// Moves the archives to their storage, and tries again while that is unavailable. An archive
    /// that is damaged stays in the data folder.
    pub async fn import(self, blobs: BlobStore) {
        let mut pause = IMPORT_RETRY.0;
        while let Err(problem) = self.import_round(&blobs).await {
            let retry = pause.as_secs();
            tracing::warn!(problem, retry, "cannot move restored artifacts to their storage");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(IMPORT_RETRY.1);
        }
    }

    /// Moves archives until one finds the storage unavailable.
    async fn import_round(&self, blobs: &BlobStore) -> Result<(), String> {
        for path in restored(&self.folder) {
            match import_one(&path, blobs).await {
                Ok(()) => tracing::info!(path = %path.display(), "artifact moved to its storage"),
                Err(ImportError::Unavailable(problem)) => return Err(problem),
                Err(ImportError::Archive(error)) => {
                    let path = path.display();
                    tracing::warn!(%path, error, "an artifact cannot be moved to its storage");
                }
            }
        }
        Ok(())
    }
}

/// Why an archive was not moved to its storage.
enum ImportError {
    /// The archive is at fault.
    Archive(String),
    /// The storage is unavailable.
    Unavailable(String),
}

/// The archives in a folder of object storage.
fn restored(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries(&folder.join("sha256")).flat_map(|sub| entries(&sub.path()));
    files.map(|file| file.path()).collect()
}

async fn import_one(path: &Path, blobs: &BlobStore) -> Result<(), ImportError> {
    let at_fault = |error: &dyn std::fmt::Display| ImportError::Archive(error.to_string());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digest: ArtifactDigest = name.parse().map_err(|error: ArtifactError| at_fault(&error))?;
    let file = path.to_owned();
    let found = tokio::task::spawn_blocking(move || -> io::Result<ArtifactDigest> {
        let mut hashed = Hashed { inner: File::open(file)?, digest: Sha256::new(), bytes: 0 };
        io::copy(&mut hashed, &mut io::sink())?;
        Ok(ArtifactDigest(hashed.digest.finalize().into()))
    });
    let found = found.await.map_err(io::Error::other).flatten();
    if found.map_err(|error| at_fault(&error))? != digest {
        return Err(at_fault(&"it is damaged"));
    }
    let now = crate::clock::now().as_second();
    blobs.put_file(digest, path, now).await.map_err(|error| match error {
        BlobError::Unavailable(_) => ImportError::Unavailable(error.to_string()),
        error => at_fault(&error),
    })?;
    std::fs::remove_file(path).map_err(|error| at_fault(&error))
}

/// The artifacts of the store and of its object storage. A run gets those of its tenant.
pub struct StoredArtifacts {
    pub store: SharedStore,
    pub blobs: BlobStore,
    /// Archives that are not in `blobs` yet.
    pub restored: Option<RestoredArtifacts>,
}

/// An answer that takes a while.
type Fetch<'a, T> = Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

/// How many versions are looked at together.
const PAGE: u32 = 500;

impl StoredArtifacts {
    /// Whether a version of the artifact has this content, deleted or not.
    async fn has(
        &self,
        assignment: &Assignment,
        digest: ArtifactDigest,
    ) -> Result<bool, FetchError> {
        let (action, reference) = artifact_of(assignment)?;
        let (tenant, name) = (assignment.tenant, &reference.name);
        if let Some(pinned) = action.pinned {
            let found = self.store.artifact(tenant, name, pinned.version).await;
            return Ok(found.map_err(unavailable)?.is_some_and(|it| it.archive.digest == digest));
        }
        let mut after = None;
        loop {
            let page = self.store.list_artifacts(tenant, Some(name), after.as_ref(), PAGE).await;
            let page = page.map_err(unavailable)?;
            if page.items.iter().any(|it| it.archive.digest == digest) {
                return Ok(true);
            }
            after = page.next;
            if after.is_none() {
                return Ok(false);
            }
        }
    }
}

impl ArtifactSource for StoredArtifacts {
    fn newest<'a>(&'a self, assignment: &'a Assignment) -> Fetch<'a, ArtifactDigest> {
        Box::pin(async move {
            let (_, reference) = artifact_of(assignment)?;
            let found = self.store.newest_artifact(assignment.tenant, &reference.name).await;
            let found = found.map_err(unavailable)?;
            found.map(|it| it.archive.digest).ok_or_else(|| unknown(&reference))
        })
    }

    fn open<'a>(
        &'a self,
        assignment: &'a Assignment,
        digest: ArtifactDigest,
    ) -> Fetch<'a, Box<dyn ArtifactChunks>> {
        Box::pin(async move {
            if !self.has(assignment, digest).await? {
                return Err(unknown(&artifact_of(assignment)?.1));
            }
            let reader = match (self.blobs.open(digest).await, &self.restored) {
                (Err(error), Some(restored)) => {
                    restored.blobs.open(digest).await.map_err(|_| error)
                }
                (reader, _) => reader,
            };
            let reader = reader.map_err(blob_error)?;
            Ok(Box::new(BlobChunks(reader)) as Box<dyn ArtifactChunks>)
        })
    }
}

struct BlobChunks(BlobReader);

impl ArtifactChunks for BlobChunks {
    fn next(&mut self) -> Fetch<'_, Option<Bytes>> {
        Box::pin(async move { self.0.next().await.map_err(blob_error) })
    }
}

/// An object whose row exists comes back, or an operator brings it back: a retry is worth it.
fn blob_error(error: BlobError) -> FetchError {
    FetchError::Unavailable(error.to_string())
}

fn unavailable(error: StoreError) -> FetchError {
    FetchError::Unavailable(error.to_string())
}

fn unknown(reference: &ArtifactReference) -> FetchError {
    FetchError::Unknown(format!("there is no artifact {reference}"))
}

fn artifact_of(
    assignment: &Assignment,
) -> Result<(&ArtifactAction, ArtifactReference), FetchError> {
    let Action::Artifact(action) = &assignment.action else {
        return Err(FetchError::Unknown("the run has no artifact".to_owned()));
    };
    let reference = action.artifact_id.parse();
    Ok((action, reference.map_err(|error| FetchError::Unknown(format!("{error}")))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ArtifactSettings {
        ArtifactSettings {
            url: "s3://bucket".to_owned(),
            credentials: String::new(),
            bytes_max: 1 << 20,
            retention: ArtifactRetention { keep_versions: None, keep_for: None },
        }
    }

    async fn restore(data: &Path, content: &[u8]) -> ArtifactDigest {
        let digest = ArtifactDigest(Sha256::digest(content).into());
        let file = data.join("content");
        std::fs::write(&file, content).unwrap();
        let blobs = BlobStore::in_folder(&data.join(FOLDER)).unwrap();
        blobs.put_file(digest, &file, 0).await.unwrap();
        digest
    }

    #[tokio::test]
    async fn restored_artifacts_wait_for_their_storage() {
        let data = tempfile::tempdir().unwrap();
        assert!(settings().restored(data.path()).is_none());
        let digests = [restore(data.path(), b"one").await, restore(data.path(), b"two").await];
        let artifacts = settings().restored(data.path()).unwrap();
        // A file in the place of the folder makes the storage unavailable.
        let target = tempfile::tempdir().unwrap();
        let blobs = BlobStore::in_folder(target.path()).unwrap();
        std::fs::write(target.path().join("sha256"), "").unwrap();
        let problem = artifacts.import_round(&blobs).await.unwrap_err();
        assert!(problem.contains("unavailable"), "{problem}");
        assert_eq!(restored(&data.path().join(FOLDER)).len(), 2, "they stay");
        let import = tokio::spawn(artifacts.clone().import(blobs.clone()));
        std::fs::remove_file(target.path().join("sha256")).unwrap();
        tokio::time::timeout(Duration::from_secs(30), import).await.unwrap().unwrap();
        for digest in digests {
            assert_eq!(blobs.size(digest).await.unwrap(), Some(3));
        }
        assert!(settings().restored(data.path()).is_none());
    }

    #[tokio::test]
    async fn damaged_archive_does_not_keep_others_from_being_moved() {
        let data = tempfile::tempdir().unwrap();
        let digests = [restore(data.path(), b"one").await, restore(data.path(), b"two").await];
        let damaged = restored(&data.path().join(FOLDER));
        let name = digests[0].to_string();
        let damaged = damaged.iter().find(|path| path.ends_with(&name)).unwrap();
        std::fs::write(damaged, "x").unwrap();
        let target = tempfile::tempdir().unwrap();
        let blobs = BlobStore::in_folder(target.path()).unwrap();
        settings().restored(data.path()).unwrap().import(blobs.clone()).await;
        assert_eq!(blobs.size(digests[0]).await.unwrap(), None);
        assert_eq!(blobs.size(digests[1]).await.unwrap(), Some(3));
        assert!(damaged.exists());
    }
}
