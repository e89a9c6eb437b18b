//! Statistics for dashboards.

use std::collections::HashMap;

use domain::id::{JobId, TenantId};
use domain::tally::{Summary, hour_of};
use jiff::Timestamp;
use store::LiveCounts;

use crate::error::Result;
use crate::node::Node;

/// Dead letters are counted up to this number.
const DEAD_LETTERS_MAX: u32 = 1_000;

/// How a tenant's jobs are doing.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Live runs by state.
    pub live: LiveCounts,
    /// Dead letters, counted up to a thousand.
    pub dead_letters: u32,
    /// Runs that ended in this hour and the one before. Statistics of ended runs are a minute or
    /// two late.
    pub last_hour: Summary,
    /// Runs that ended in this hour and the 24 before.
    pub last_day: Summary,
}

/// How the runs of a tenant or of a job ended in one hour.
#[derive(Clone, Debug, PartialEq)]
pub struct HourlyStats {
    /// When the hour began.
    pub at: Timestamp,
    /// Runs that ended in it.
    pub summary: Summary,
}

impl Node {
    /// How a tenant's jobs are doing.
    pub async fn stats(&self, tenant: TenantId) -> Result<Stats> {
        let hour = hour_of(self.store.now().await?);
        let mut stats = Stats {
            live: self.store.live(tenant).await?,
            dead_letters: self.store.count_dead_letters(tenant, DEAD_LETTERS_MAX).await?,
            last_hour: Summary::default(),
            last_day: Summary::default(),
        };
        for (key, amount) in self.store.tallies(tenant, &[JobId::NONE], hour - 24).await? {
            stats.last_day.add(key.measure, key.class, amount);
            if key.hour >= hour - 1 {
                stats.last_hour.add(key.measure, key.class, amount);
            }
        }
        Ok(stats)
    }

    /// How the runs of a job, or of the whole tenant ([`JobId::NONE`]), ended in this hour and so
    /// many before, one entry for each hour, oldest first.
    pub async fn hourly_stats(
        &self,
        tenant: TenantId,
        job: JobId,
        hours: u32,
    ) -> Result<Vec<HourlyStats>> {
        let last = hour_of(self.store.now().await?);
        let first = last - i64::from(hours);
        let empty = |hour: i64| HourlyStats {
            at: Timestamp::from_second(hour * 3_600).unwrap_or(Timestamp::MIN),
            summary: Summary::default(),
        };
        let mut all: Vec<HourlyStats> = (first..=last).map(empty).collect();
        for (key, amount) in self.store.tallies(tenant, &[job], first).await? {
            let entry = usize::try_from(key.hour - first).ok().and_then(|n| all.get_mut(n));
            if let Some(entry) = entry {
                entry.summary.add(key.measure, key.class, amount);
            }
        }
        Ok(all)
    }

    /// How the runs of some jobs ended in this hour and so many before; a job that has no entry had
    /// none.
    pub async fn job_stats(
        &self,
        tenant: TenantId,
        jobs: &[JobId],
        hours: u32,
    ) -> Result<HashMap<JobId, Summary>> {
        let since = hour_of(self.store.now().await?) - i64::from(hours);
        let mut summaries: HashMap<JobId, Summary> = HashMap::new();
        for (key, amount) in self.store.tallies(tenant, jobs, since).await? {
            summaries.entry(key.job).or_default().add(key.measure, key.class, amount);
        }
        Ok(summaries)
    }
}
