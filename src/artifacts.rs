//! Where artifacts are kept and for how long, from the settings; and how runs get them.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use agent::artifact::{ArtifactChunks, ArtifactSource, FetchError};
use blobs::{BlobError, BlobReader, BlobStore};
use bytes::Bytes;
use domain::action::{Action, ArtifactAction, Assignment};
use domain::artifact::{ArtifactDigest, ArtifactReference, ArtifactRetention};
use jiff::SignedDuration;
use store::{SharedStore, StoreError};

use crate::cli_error::CliError;
use crate::config::Config;

/// The folder of object storage in the data folder.
const FOLDER: &str = "artifacts";

/// The folder of uploads in the data folder.
pub const UPLOADS: &str = "artifact-uploads";

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

/// The artifacts of the store and of its object storage. A run gets those of its tenant.
pub struct StoredArtifacts {
    pub store: SharedStore,
    pub blobs: BlobStore,
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
            let reader = self.blobs.open(digest).await.map_err(blob_error)?;
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
