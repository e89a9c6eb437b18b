//! Defaults of a tenant for job fields that are not set.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::job::{Definition, Retention, When};
use crate::queue::KeepCompleted;
use crate::schedule::{Cron, DstPolicy, GapRule, OverlapRule};

/// The defaults of a tenant. A job takes them when it is created, and shows them as its own: a
/// later change of the tenant does not reach it.
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

    /// Fills in the open fields of a definition. `has_timeout` is whether it has a timeout of its
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

    /// The defaults that apply when a definition is replaced. Fields that it left open stay open,
    /// so that its own document changes nothing.
    pub fn for_replaced(mut self, replaced: &Definition) -> JobDefaults {
        if replaced.has_default_timeout() {
            self.timeout = None;
        }
        if let When::Cron { dst, .. } = &replaced.when {
            self.dst.gap = self.dst.gap.filter(|_| dst.gap.is_some());
            self.dst.overlap = self.dst.overlap.filter(|_| dst.overlap.is_some());
        }
        let (own, old) = (&mut self.retention, &replaced.retention);
        own.days = own.days.filter(|_| old.days.is_some());
        own.failed_days = own.failed_days.filter(|_| old.failed_days.is_some());
        own.keep_last = own.keep_last.filter(|_| old.keep_last.is_some());
        own.keep_completed = own.keep_completed.filter(|_| old.keep_completed.is_some());
        self
    }

    /// A definition with explicit values for open fields that these defaults would fill: a new job
    /// that is made of it is the same. `cluster` is how long the cluster keeps history. The absence
    /// of a `keep_last` limit cannot be made explicit.
    pub fn spelled_out(&self, definition: &Definition, cluster: Retention) -> Definition {
        let mut definition = definition.clone();
        if let When::Cron { expression, dst, .. } = &mut definition.when {
            if self.dst.gap.is_some() {
                dst.gap = dst.gap.or(Some(GapRule::default()));
            }
            if self.dst.overlap.is_some()
                && let Ok(cron) = expression.parse::<Cron>()
            {
                dst.overlap = dst.overlap.or(Some(OverlapRule::of_cron(&cron)));
            }
        }
        let own = &mut definition.retention;
        if self.retention.days.is_some() {
            own.days = own.days.or(cluster.days);
        }
        if self.retention.failed_days.is_some() {
            own.failed_days = own.failed_days.or(cluster.failed_days);
        }
        if self.retention.keep_completed.is_some() {
            own.keep_completed = own.keep_completed.or(Some(KeepCompleted::All));
        }
        definition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that is older than the defaults: its open fields stay open when it is replaced, and
    /// are explicit in a job that is made of it.
    #[test]
    fn what_a_job_left_open_is_not_decided_later() {
        let dst = DstPolicy { gap: Some(GapRule::ShiftAfter), overlap: Some(OverlapRule::Second) };
        let retention = Retention {
            days: Some(7),
            failed_days: Some(8),
            keep_last: None,
            keep_completed: Some(KeepCompleted::None),
        };
        let timeout = Some(SignedDuration::from_secs(60));
        let defaults = JobDefaults { timeout, dst, retention };
        let cron = |expression: &str, dst| {
            let (expression, zone) = (expression.to_owned(), "Europe/Berlin".to_owned());
            Definition { when: When::Cron { expression, zone, dst }, ..Definition::default() }
        };
        let open = cron("30 2 * * *", DstPolicy::default());
        let mut again = open.clone();
        defaults.for_replaced(&open).fill(&mut again, false);
        assert_eq!(again, open);
        // A field that is no longer set follows the tenant, as in a new job.
        let mut set = cron("30 2 * * *", dst);
        set.retention = Retention { days: Some(1), ..retention };
        set.timeout = SignedDuration::from_secs(5);
        assert_eq!(defaults.for_replaced(&set), defaults);
        let mut new = open.clone();
        defaults.for_replaced(&set).fill(&mut new, false);
        assert_eq!((new.retention, new.timeout), (retention, SignedDuration::from_secs(60)));

        let cluster = Retention { days: Some(30), failed_days: Some(90), ..Retention::default() };
        for (expression, overlap) in
            [("30 2 * * *", OverlapRule::First), ("*/5 * * * *", OverlapRule::Both)]
        {
            let spelled = defaults.spelled_out(&cron(expression, DstPolicy::default()), cluster);
            let rules = DstPolicy { gap: Some(GapRule::Skip), overlap: Some(overlap) };
            assert_eq!(spelled.when, cron(expression, rules).when);
            let keep_completed = Some(KeepCompleted::All);
            assert_eq!(spelled.retention, Retention { keep_completed, ..cluster });
            let mut new = spelled.clone();
            defaults.fill(&mut new, true);
            assert_eq!(new, spelled, "nothing is left for the tenant to decide");
        }
        assert_eq!(JobDefaults::default().spelled_out(&open, cluster), open);
    }

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
