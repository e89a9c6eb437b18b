//! Artifacts: bundles of code that jobs run.
//!
//! A run asks the [cache](cache) for the content of its artifact by its digest. What is not there is
//! fetched from a [source](ArtifactSource) to a file, compared with the digest, and unpacked by a
//! confined process into a folder that nothing writes to from then on. Its command then gets the
//! folder as `/artifact`, in the same sandbox as every other command.

pub mod archive;
pub(crate) mod cache;
mod source;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;

pub use source::{ArtifactChunks, ArtifactSource, FetchError, NoArtifacts};

/// Whether and how artifacts are run.
#[derive(Clone)]
pub struct ArtifactOptions {
    /// Whether artifacts are run at all.
    pub enabled: bool,
    /// The folder of the cache.
    pub folder: PathBuf,
    /// How much the cache keeps of what does not run.
    pub cache_bytes_max: u64,
    /// The interpreter of Python.
    pub python: PathBuf,
    /// Where artifacts come from.
    pub source: Arc<dyn ArtifactSource>,
}

impl Default for ArtifactOptions {
    fn default() -> Self {
        ArtifactOptions {
            enabled: false,
            folder: PathBuf::from("artifact-cache"),
            cache_bytes_max: 2 << 30,
            python: PathBuf::from("/usr/bin/python3"),
            source: Arc::new(NoArtifacts),
        }
    }
}
