//! Reconciliation by the leader: pauses of all jobs, calendars that changed, and times that another
//! time-zone database moves.
//!
//! The node that accepts a change of a calendar or a pause applies it. If that node dies between
//! the record and the last of the jobs, or a job is written at the same moment, this step finds the
//! difference. It is idempotent.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use domain::id::{ObjectId, TenantId};
use domain::job::{Job, JobState, When};
use domain::object::ObjectKind;
use jiff::{SignedDuration, Timestamp};

use super::Node;
use crate::error::Result;
use store::SYSTEM;

/// Number of calendars that are read at a time.
const PAGE: u32 = 100;

/// The setting that holds the version of the time-zone database by which jobs were planned.
pub const TZDB_SETTING: &str = "tzdb.version";

/// Versions that the leader has reconciled.
#[derive(Default)]
pub(super) struct Reconciled {
    /// The versions of calendars whose jobs were checked.
    calendars: Mutex<HashMap<ObjectId, u32>>,
    /// Whether the version of the time-zone database was compared.
    zones: Mutex<bool>,
}

impl Node {
    /// Completes changes that a node began and did not finish. Returns the number of changed jobs.
    pub async fn reconcile(&self) -> Result<usize> {
        if self.leads().is_none() {
            return Ok(0);
        }
        let zones = self.reconcile_zones().await?;
        let paused = self.reconcile_pauses().await?;
        let replanned = self.reconcile_calendars().await?;
        if zones + paused + replanned > 0 {
            self.hint();
        }
        Ok(zones + paused + replanned)
    }

    async fn reconcile_calendars(&self) -> Result<usize> {
        let mut changed: HashSet<TenantId> = HashSet::new();
        let mut versions: HashMap<ObjectId, u32> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.store.objects_of_kind(ObjectKind::Calendar, after, PAGE).await?;
            after = page.last().map(|object| object.id);
            let seen = self.reconciled.calendars.lock().unwrap_or_else(PoisonError::into_inner);
            for object in &page {
                if seen.get(&object.id) != Some(&object.version) {
                    changed.insert(object.tenant);
                }
                versions.insert(object.id, object.version);
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        let mut replanned = 0;
        for tenant in changed {
            let uses = |job: &Job| !job.definition.calendars.is_empty();
            for job in self.jobs_of_tenant(Some(tenant), &[], uses).await? {
                let mut fresh = job.definition.clone();
                self.resolve_calendars(tenant, &mut fresh, Some(&job.definition)).await?;
                if fresh.calendars != job.definition.calendars {
                    self.touch_job(job.id, |_| {}, SYSTEM).await?;
                    replanned += 1;
                }
            }
        }
        *self.reconciled.calendars.lock().unwrap_or_else(PoisonError::into_inner) = versions;
        Ok(replanned)
    }

    /// Plans jobs again whose next time is another one by the time-zone database of this machine,
    /// once for each version of the database.
    async fn reconcile_zones(&self) -> Result<usize> {
        if *self.reconciled.zones.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(0);
        }
        let version = self.parts.zones.version();
        let settings = self.store.settings().await?;
        let known = settings.iter().find(|setting| setting.name == TZDB_SETTING);
        let value = format!("\"{version}\"");
        let mut moved = 0;
        if known.is_none_or(|known| known.value != value) {
            if known.is_some() {
                moved = self.replan_zones().await?;
                tracing::info!(version, jobs = moved, "time-zone database changed");
            }
            let expected = known.map_or(0, |known| known.version);
            self.store.set(TZDB_SETTING, Some(&value), expected, SYSTEM).await?;
        }
        *self.reconciled.zones.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(moved)
    }

    /// Plans jobs again whose next time is not one of their schedule any more, or not the first.
    pub async fn replan_zones(&self) -> Result<usize> {
        let now = self.store.now().await?;
        let planned_until = now.saturating_add(self.settings.look_ahead).unwrap_or(now);
        let is_moved = |job: &Job| {
            let has_zone = matches!(job.definition.when, When::Cron { .. });
            let schedule = job.definition.schedule(&self.parts.zones).ok().flatten();
            let (Some(next), Some(schedule), true) = (job.next_run, schedule, has_zone) else {
                return false;
            };
            let before = |at: Timestamp| {
                at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
            };
            let first = schedule.next_nominal(planned_until);
            schedule.next_nominal(before(next)) != Some(next)
                || first.is_some_and(|first| first < next)
        };
        let moved = self.jobs_of_tenant(None, &[JobState::Enabled], is_moved).await?;
        for job in &moved {
            self.replan_job(job.id, SYSTEM).await?;
        }
        Ok(moved.len())
    }
}
