//! The pruner: deletes old history, in small batches.

use domain::job::Retention;
use domain::queue::KeepCompleted;
use jiff::{SignedDuration, Timestamp};
use store::{RetentionCutoff, SampleCutoff};

use super::Node;

/// A completed run that is not in the sample of its job is there for so long, for clients that wait
/// for its end.
const SAMPLED_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Runs of this much time before are looked at for the sample: a longer look would read all that
/// is kept, in every round.
const SAMPLE_SPAN: SignedDuration = SignedDuration::from_hours(24);

impl Node {
    /// Deletes one batch of old history, and one of each job that has a rule of its own, which one
    /// that was deleted with its history has too. Returns how many rows it was.
    pub async fn prune(&self) -> store::Result<u64> {
        let now = self.store.now().await?;
        let batch = self.settings.batch_max;
        let mut gone = self.store.prune(&self.cut(Retention::default(), now), batch).await?;
        let mut after = None;
        loop {
            let rules = self.store.retention_rules(after, batch).await?;
            for (job, rule) in &rules {
                let cut = RetentionCutoff { job: Some(*job), ..self.cut(*rule, now) };
                gone += self.store.prune(&cut, batch).await?;
            }
            match rules.last() {
                Some((job, _)) => after = Some(*job),
                None => break,
            }
        }
        Ok(gone + self.prune_deleted_jobs().await?)
    }

    /// Removes deleted jobs whose history is gone. Returns how many.
    async fn prune_deleted_jobs(&self) -> store::Result<u64> {
        let (mut removed, mut after) = (0, None);
        loop {
            let pruned = self.store.prune_deleted_jobs(after, self.settings.batch_max).await?;
            removed += pruned.removed;
            match pruned.last {
                Some(last) => after = Some(last),
                None => return Ok(removed),
            }
        }
    }

    /// Deletes one batch of idempotency keys whose time is over. Returns how many.
    pub async fn forget_requests(&self) -> store::Result<u64> {
        self.store.forget_requests(self.settings.batch_max).await
    }

    /// Deletes one batch of keys that expired long ago. Returns how many.
    pub async fn forget_keys(&self) -> store::Result<u64> {
        self.store.forget_keys(self.settings.batch_max).await
    }

    /// Deletes rows of child runs whose parent is gone. Returns how many.
    pub async fn prune_parts(&self) -> store::Result<u64> {
        let steps = self.store.prune_dags(self.settings.batch_max).await?;
        Ok(steps + self.store.prune_parts(self.settings.batch_max).await?)
    }

    /// Cutoffs of a retention rule; the node's settings are the default. Failures are kept at least
    /// as long as the other runs.
    fn cut(&self, rule: Retention, now: Timestamp) -> RetentionCutoff {
        let ago = |days: u32| {
            now.saturating_sub(SignedDuration::from_hours(24 * i64::from(days)))
                .unwrap_or(Timestamp::MIN)
        };
        let days = rule.days.unwrap_or(self.settings.retention_days);
        let failed_days = rule.failed_days.unwrap_or(self.settings.failed_retention_days).max(days);
        RetentionCutoff {
            job: None,
            before: ago(days),
            failed_before: ago(failed_days),
            keep_last: rule.keep_last,
            sample: rule.keep_completed.and_then(KeepCompleted::kept_below).map(|kept_below| {
                let before = now.saturating_sub(SAMPLED_AFTER).unwrap_or(Timestamp::MIN);
                let since = before.saturating_sub(SAMPLE_SPAN).unwrap_or(Timestamp::MIN);
                SampleCutoff { kept_below, before, since }
            }),
        }
    }
}
