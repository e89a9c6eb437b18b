//! The wish that an attempt ends.

use domain::run::AttemptEnd;
use tokio::sync::watch;

/// Tells an executor to stop, and why: somebody asked for it, its time is up, or its node has
/// lost the right to work on it.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<AttemptEnd>>);

impl Stop {
    /// Listens to whoever may ask for the end.
    pub fn new(requests: watch::Receiver<Option<AttemptEnd>>) -> Self {
        Stop(requests)
    }

    /// Waits until the attempt must stop, and says why. Who may ask having gone away is a wish too.
    pub async fn requested(&mut self) -> AttemptEnd {
        match self.0.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(AttemptEnd::Cancelled),
            Err(_) => AttemptEnd::Cancelled,
        }
    }
}
