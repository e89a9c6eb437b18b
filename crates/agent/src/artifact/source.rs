//! Where the content of artifacts comes from: object storage, or the server of an agent elsewhere.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use domain::action::Assignment;
use domain::artifact::ArtifactDigest;

/// An answer that takes a while.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

/// Finds and sends the artifacts of runs. A run gets those of its own tenant only.
pub trait ArtifactSource: Send + Sync {
    /// The content of the newest version, for a run whose artifact floats.
    fn newest<'a>(&'a self, assignment: &'a Assignment) -> Answer<'a, ArtifactDigest>;

    /// Begins to send the content of the artifact of a run.
    fn open<'a>(
        &'a self,
        assignment: &'a Assignment,
        digest: ArtifactDigest,
    ) -> Answer<'a, Box<dyn ArtifactChunks>>;
}

/// The content of an artifact while it arrives. The receiver compares its digest.
pub trait ArtifactChunks: Send {
    /// The next bytes; none at the end.
    fn next(&mut self) -> Answer<'_, Option<Bytes>>;
}

/// Why an artifact does not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It may come another time.
    #[error("{0}")]
    Unavailable(String),
    /// The tenant has no such version.
    #[error("{0}")]
    Unknown(String),
}

/// No artifacts at all.
pub struct NoArtifacts;

impl ArtifactSource for NoArtifacts {
    fn newest<'a>(&'a self, _: &'a Assignment) -> Answer<'a, ArtifactDigest> {
        Box::pin(async { Err(FetchError::Unknown("this agent has no artifacts".to_owned())) })
    }

    fn open<'a>(
        &'a self,
        _: &'a Assignment,
        _: ArtifactDigest,
    ) -> Answer<'a, Box<dyn ArtifactChunks>> {
        Box::pin(async { Err(FetchError::Unknown("this agent has no artifacts".to_owned())) })
    }
}
