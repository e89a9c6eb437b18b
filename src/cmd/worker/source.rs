//! Artifacts of a worker, over REST.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use agent::artifact::{ArtifactChunks, ArtifactSource, FetchError};
use bytes::Bytes;
use domain::action::{ArtifactAction, Assignment};
use domain::artifact::{ArtifactDigest, ArtifactReference, VersionReference};
use reqwest::Method;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{pin, text_of};
use crate::cli_error::CliError;
use crate::client::{Client, Flow};
use crate::exit::{Exit, Failure};

/// How many pieces of an archive wait for the disk.
const PIECES: usize = 16;

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
            let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            let version = versions.get(&digest).map(u32::to_string);
            drop(versions);
            let none = || FetchError::Unknown(format!("{} has no sha256:{digest}", self.name));
            let version = version.ok_or_else(none)?;
            let (client, name) = (Arc::clone(&self.client), self.name.clone());
            let (pieces, arriving) = mpsc::channel(PIECES);
            spawn_blocking(move || {
                let path = ["v1", "artifacts", &name, "versions", &version, "content"];
                let sent = client.call(Method::GET, &path).stream(None, |piece| {
                    let piece = Ok(Bytes::copy_from_slice(piece));
                    Ok(pieces.blocking_send(piece).map_or(Flow::Enough, |()| Flow::More))
                });
                if let Err(failure) = sent {
                    // A receiver that is gone needs no answer.
                    let _ = pieces.blocking_send(Err(fetch_error(&failure)));
                }
            });
            Ok(Box::new(ArrivingPieces(arriving)) as Box<dyn ArtifactChunks>)
        })
    }
}

struct ArrivingPieces(mpsc::Receiver<Result<Bytes, FetchError>>);

impl ArtifactChunks for ArrivingPieces {
    fn next(&mut self) -> Fetch<'_, Option<Bytes>> {
        Box::pin(async move { self.0.recv().await.transpose() })
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
