//! The request that an attempt stops.

use domain::run::AttemptEnd;
use tokio::sync::watch;

/// Requests an executor to stop, with the cause: the run was cancelled, it timed out, or its node
/// has lost the claim.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<AttemptEnd>>);

impl Stop {
    /// Listens to requests on a channel.
    pub fn new(requests: watch::Receiver<Option<AttemptEnd>>) -> Self {
        Stop(requests)
    }

    /// Waits until the attempt must stop, and returns the reason. A dropped sender counts as a
    /// cancellation.
    pub async fn requested(&mut self) -> AttemptEnd {
        match self.0.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(AttemptEnd::Cancelled),
            Err(_) => AttemptEnd::Cancelled,
        }
    }
}
