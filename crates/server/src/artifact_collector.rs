//! The collector: versions of artifacts that retention does not keep, and objects that no row names.
//!
//! An object is deleted when it is a day old and the rows of the store, and the jobs, have not needed
//! it for a day. Every server does so, each at its own time: to delete twice is to delete once.

use std::sync::Arc;
use std::time::Duration;

use domain::artifact::{ArtifactRetention, GRACE};
use engine::Engine;
use jiff::Timestamp;

use crate::app::App;
use crate::artifact_uploads::ArtifactStorage;

/// The time between two rounds.
const EVERY: Duration = Duration::from_secs(3_600);

/// How many objects are asked about together.
const PAGE: usize = 200;

/// Deletes what is not needed, over and over.
pub struct ArtifactCollector {
    engine: Arc<Engine>,
    storage: Arc<ArtifactStorage>,
    retention: ArtifactRetention,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// What one round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Versions that were deleted.
    pub versions: usize,
    /// Objects that were deleted.
    pub objects: usize,
}

impl ArtifactCollector {
    /// The collector of a server.
    pub fn new(app: &App, retention: ArtifactRetention) -> Self {
        ArtifactCollector {
            engine: Arc::clone(&app.engine),
            storage: Arc::clone(&app.artifacts),
            retention,
            clock: Arc::clone(&app.clock),
        }
    }

    /// Works until the process ends.
    pub async fn run(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            match self.step().await {
                Ok(Collected { versions: 0, objects: 0 }) => {}
                Ok(Collected { versions, objects }) => {
                    tracing::info!(versions, objects, "old artifacts deleted");
                }
                Err(problem) => tracing::warn!(problem, "old artifacts could not be deleted"),
            }
        }
    }

    /// One round.
    pub async fn step(&self) -> Result<Collected, String> {
        let now = (self.clock)();
        let versions = self.engine.node().expire_artifacts(self.retention, now).await;
        let versions = versions.map_err(|error| error.to_string())?;
        let before = now.saturating_sub(GRACE).unwrap_or(Timestamp::MIN);
        let storage = Arc::clone(&self.storage);
        let swept = tokio::task::spawn_blocking(move || storage.sweep(before.into())).await;
        swept.map_err(|error| error.to_string())?;
        let before = before.as_second();
        let blobs = &self.storage.blobs;
        let old = blobs.written_before(before).await.map_err(|error| error.to_string())?;
        let mut objects = 0;
        for page in old.chunks(PAGE) {
            let unneeded = self.engine.node().unneeded_artifacts(page).await;
            for digest in unneeded.map_err(|error| error.to_string())? {
                // One that was pushed again meanwhile is young.
                let deleted = blobs.delete_if_older(digest, before).await;
                objects += usize::from(deleted.map_err(|error| error.to_string())?);
            }
        }
        Ok(Collected { versions, objects })
    }
}
