//! Artifacts of a worker, over REST.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io::{Read, Seek, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use agent::artifact::{ArtifactChunks, ArtifactSource, FetchError};
use bytes::Bytes;
use domain::action::{ArtifactAction, Assignment};
use domain::artifact::{ArtifactDigest, ArtifactReference, VersionReference};
use reqwest::Method;
use tokio::task::spawn_blocking;

use super::{pin, text_of};
use crate::cli_error::CliError;
use crate::client::{Client, Flow};
use crate::exit::{Exit, Failure};

/// An archive is read in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

/// An answer that takes a while.
type Fetch<'a, T> = Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

/// The versions of one artifact.
pub struct RestArtifacts {
    client: Arc<Client>,
    name: String,
    /// The numbers of the versions that were seen, by their digests.
    versions: Mutex<HashMap<ArtifactDigest, u32>>,
}

/// The name and the version of a reference; `latest` if it names none.
pub fn parts(reference: &str) -> Result<(String, String), Failure> {
    let read = reference.parse::<ArtifactReference>().map_err(|error| {
        Failure::from(CliError::new(format!("{error}")).hint("for example customer_sync@3"))
    })?;
    let version = match read.version {
        VersionReference::Number(version) => version.to_string(),
        VersionReference::NewestNow | VersionReference::Latest => "latest".to_owned(),
    };
    Ok((read.name, version))
}

impl RestArtifacts {
    /// The versions of the artifact of an action.
    pub fn new(
        client: Arc<Client>,
        reference: &str,
        action: &ArtifactAction,
    ) -> Result<Self, Failure> {
        let pinned = action.pinned.map(|pinned| (pinned.digest, pinned.version));
        let versions = Mutex::new(pinned.into_iter().collect());
        Ok(RestArtifacts { client, name: parts(reference)?.0, versions })
    }

    fn version(&self, digest: ArtifactDigest) -> Option<String> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&digest).map(u32::to_string)
    }
}

impl ArtifactSource for RestArtifacts {
    fn newest<'a>(&'a self, _: &'a Assignment) -> Fetch<'a, ArtifactDigest> {
        Box::pin(async move {
            let (client, name) = (Arc::clone(&self.client), self.name.clone());
            let ask = move || client.get(&["v1", "artifacts", &name, "versions", "latest"]);
            let shown = spawn_blocking(ask).await.map_err(|error| gone(&error))?;
            let found = shown.and_then(|shown| pin(&shown)).map_err(|it| fetch_error(&it))?;
            let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions.insert(found.digest, found.version);
            Ok(found.digest)
        })
    }

    fn open<'a>(
        &'a self,
        _: &'a Assignment,
        digest: ArtifactDigest,
    ) -> Fetch<'a, Box<dyn ArtifactChunks>> {
        Box::pin(async move {
            let none = || FetchError::Unknown(format!("{} has no sha256:{digest}", self.name));
            let version = self.version(digest).ok_or_else(none)?;
            let (client, name) = (Arc::clone(&self.client), self.name.clone());
            let download = move || -> Result<File, Failure> {
                let path = ["v1", "artifacts", &name, "versions", &version, "content"];
                let mut file = tempfile::tempfile()?;
                client.call(Method::GET, &path).stream(None, |piece| {
                    file.write_all(piece)?;
                    Ok(Flow::More)
                })?;
                file.rewind()?;
                Ok(file)
            };
            let file = spawn_blocking(download).await.map_err(|error| gone(&error))?;
            let file = file.map_err(|failure| fetch_error(&failure))?;
            Ok(Box::new(DownloadedFile(file)) as Box<dyn ArtifactChunks>)
        })
    }
}

/// An archive that has arrived.
struct DownloadedFile(File);

impl ArtifactChunks for DownloadedFile {
    fn next(&mut self) -> Fetch<'_, Option<Bytes>> {
        Box::pin(async move {
            let mut piece = vec![0; PIECE_BYTES];
            let read = self.0.read(&mut piece);
            let read = read.map_err(|error| FetchError::Unavailable(error.to_string()))?;
            piece.truncate(read);
            Ok((read > 0).then(|| Bytes::from(piece)))
        })
    }
}

fn gone(error: &tokio::task::JoinError) -> FetchError {
    FetchError::Unavailable(error.to_string())
}

fn fetch_error(failure: &Failure) -> FetchError {
    match failure {
        Failure::Ended(Exit::NotFound, error) => FetchError::Unknown(error.to_string()),
        failure => FetchError::Unavailable(text_of(failure)),
    }
}
