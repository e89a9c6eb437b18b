//! The pruner: history that is old enough goes, in small batches.

use jiff::{SignedDuration, Timestamp};
use store::{Cut, Store};

use super::Node;

impl<S: Store> Node<S> {
    /// Deletes one batch of old history. Answers how many rows it was.
    pub async fn prune(&self) -> store::Result<u64> {
        let now = self.now();
        let ago = |days: u32| {
            now.saturating_sub(SignedDuration::from_hours(24 * i64::from(days)))
                .unwrap_or(Timestamp::MIN)
        };
        let cut = Cut {
            job: None,
            before: ago(self.settings.retention_days),
            failed_before: ago(self
                .settings
                .failed_retention_days
                .max(self.settings.retention_days)),
            keep_last: None,
        };
        self.store.prune(&cut, self.settings.batch_max).await
    }
}
