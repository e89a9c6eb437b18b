//! What a tenant decides for jobs that say nothing.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::job::{Definition, Retention, When};
use crate::schedule::DstPolicy;

/// The defaults of a tenant. A job takes them when it is created or replaced, and shows them as its
/// own: a later change of the tenant does not reach it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobDefaults {
    /// The timeout of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// The rules for daylight saving time.
    pub dst: DstPolicy,
    /// How long history is kept.
    pub retention: Retention,
}

impl JobDefaults {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == JobDefaults::default()
    }

    /// Fills in what a definition leaves open. `has_timeout` says whether it has a timeout of its
    /// own: a definition always has one.
    pub fn fill(&self, definition: &mut Definition, has_timeout: bool) {
        if let Some(timeout) = self.timeout.filter(|_| !has_timeout) {
            definition.timeout = timeout;
        }
        if let When::Cron { dst, .. } = &mut definition.when {
            dst.gap = dst.gap.or(self.dst.gap);
            dst.overlap = dst.overlap.or(self.dst.overlap);
        }
        let (own, tenant) = (&mut definition.retention, &self.retention);
        own.days = own.days.or(tenant.days);
        own.failed_days = own.failed_days.or(tenant.failed_days);
        own.keep_last = own.keep_last.or(tenant.keep_last);
        own.keep_completed = own.keep_completed.or(tenant.keep_completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::KeepCompleted;
    use crate::schedule::{GapRule, OverlapRule};

    #[test]
    fn a_job_takes_what_it_does_not_say() {
        let defaults = JobDefaults {
            timeout: Some(SignedDuration::from_secs(60)),
            dst: DstPolicy { gap: Some(GapRule::ShiftAfter), overlap: Some(OverlapRule::Both) },
            retention: Retention {
                days: Some(7),
                keep_completed: Some(KeepCompleted::Sample(10)),
                ..Retention::default()
            },
        };
        let cron = |dst| When::Cron { expression: "0 2 * * *".into(), zone: "UTC".into(), dst };
        let own = DstPolicy { gap: Some(GapRule::Skip), overlap: None };
        let mut job = Definition { when: cron(own), ..Definition::default() };
        job.retention.days = Some(90);
        let timeout = job.timeout;
        defaults.fill(&mut job, true);
        assert_eq!(job.timeout, timeout);
        let both = Some(OverlapRule::Both);
        assert_eq!(job.when, cron(DstPolicy { gap: Some(GapRule::Skip), overlap: both }));
        let kept = (job.retention.days, job.retention.failed_days, job.retention.keep_completed);
        assert_eq!(kept, (Some(90), None, Some(KeepCompleted::Sample(10))));
        defaults.fill(&mut job, false);
        assert_eq!(job.timeout, SignedDuration::from_secs(60));
        let mut untouched = Definition::default();
        JobDefaults::default().fill(&mut untouched, false);
        assert_eq!(untouched, Definition::default());
    }
}
