//! When the jobs of a tenant are due in the week to come, by the minute.
//!
//! Counting all schedules of a large tenant takes longer than a request may: it happens beside
//! requests, once for all of them, and a request is answered with what was counted last. Jobs with
//! the same schedule are counted together.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::access::Actor;
use domain::id::{TenantId, UserId};
use domain::job::JobState;
use domain::schedule::Schedule;
use engine::{Cursor, JobFilter};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use uuid::Uuid;

use crate::app::App;
use crate::problem::Result;

/// How far ahead is counted: a week, and what passes until it is counted anew.
const AHEAD: SignedDuration = SignedDuration::from_hours(7 * 24 + 2);

/// What was counted is counted anew after this time, even if no job has changed.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(30);

/// A job may have changed this much before its change can be read.
const LATE: SignedDuration = SignedDuration::from_secs(2);

/// How long a request waits for what is being counted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Changed jobs that are looked at for those of the tenant.
const CHANGES: u32 = 50;

/// Jobs that are read at once.
const PAGE: u32 = 500;

/// Minutes of schedules that are visited, of all jobs together.
const STEPS_MAX: usize = 20_000_000;

/// How many jobs of a minute are named.
const NAMED: usize = 10;

/// Plans that are remembered before all are forgotten.
const PLANS_MAX: usize = 256;

/// Whose jobs are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Scope {
    tenant: TenantId,
    /// Only jobs of this user.
    owner: Option<UserId>,
}

/// The week to come.
pub(crate) struct WeekPlan {
    /// When it was counted.
    pub(crate) computed_at: Timestamp,
    /// How many jobs were counted.
    pub(crate) jobs: usize,
    /// By the minute since the epoch.
    pub(crate) minutes: BTreeMap<i64, PlannedMinute>,
    /// Whether there are more runs than were counted.
    pub(crate) is_cut: bool,
}

/// A minute in which something is due.
#[derive(Default)]
pub(crate) struct PlannedMinute {
    /// How many runs are due in it.
    pub(crate) starts: u64,
    /// The first jobs by name.
    pub(crate) jobs: Vec<(Arc<str>, Uuid)>,
}

/// What was counted last, by scope.
#[derive(Default)]
pub(crate) struct WeekPlans(Mutex<HashMap<Scope, Counted>>);

#[derive(Clone, Default)]
struct Counted {
    latest: watch::Sender<Option<Arc<WeekPlan>>>,
    is_counting: Arc<Mutex<bool>>,
}

/// What is due in the week to come, of the jobs that an actor sees; none while it is counted for
/// the first time.
pub(crate) async fn week_plan(app: &App, actor: &Actor) -> Result<Option<Arc<WeekPlan>>> {
    let sees_all = app.engine.by(actor).sees_all_jobs();
    let scope = Scope { tenant: actor.tenant, owner: (!sees_all).then_some(actor.user) };
    let counted = {
        let mut all = app.week_plans.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PLANS_MAX && !all.contains_key(&scope) {
            all.clear();
        }
        all.entry(scope).or_default().clone()
    };
    let latest = counted.latest.borrow().clone();
    if let Some(plan) = latest
        && plan.is_current(app, scope.tenant).await?
    {
        return Ok(Some(plan));
    }
    let mut changes = counted.latest.subscribe();
    let is_first = {
        let mut is_counting = counted.is_counting.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut *is_counting, true)
    };
    if is_first {
        tokio::spawn(recount(app.clone(), scope, counted.clone()));
    }
    let _ = tokio::time::timeout(PATIENCE, changes.changed()).await;
    Ok(counted.latest.borrow().clone())
}

async fn recount(app: App, scope: Scope, counted: Counted) {
    match count(&app, scope).await {
        Ok(plan) => drop(counted.latest.send_replace(Some(Arc::new(plan)))),
        Err(error) => tracing::warn!(%error, "schedules could not be counted"),
    }
    *counted.is_counting.lock().unwrap_or_else(PoisonError::into_inner) = false;
}

impl WeekPlan {
    /// Whether no job of the tenant has changed since.
    async fn is_current(&self, app: &App, tenant: TenantId) -> Result<bool> {
        if app.now().duration_since(self.computed_at) > AGE_MAX {
            return Ok(false);
        }
        let since = self.computed_at.saturating_sub(LATE).unwrap_or(self.computed_at);
        let changed = app.engine.node().changed_jobs(Cursor::from(since), CHANGES).await?;
        let is_other = changed.iter().all(|job| job.tenant != tenant);
        Ok(is_other && changed.len() < CHANGES as usize)
    }
}

/// Jobs with the same schedule.
struct Group {
    schedule: Schedule,
    jobs: u64,
    /// The first of them by name.
    named: Vec<(Arc<str>, Uuid)>,
}

async fn count(app: &App, scope: Scope) -> engine::Result<WeekPlan> {
    let now = app.now();
    let end = now.saturating_add(AHEAD).unwrap_or(now);
    let filter = JobFilter {
        states: vec![JobState::Enabled],
        due_before: Some(end),
        owner: scope.owner,
        ..JobFilter::of_tenant(scope.tenant)
    };
    let mut groups: HashMap<String, Group> = HashMap::new();
    let (mut after, mut jobs) = (None::<String>, 0);
    loop {
        let page = app.engine.node().list_jobs(&filter, after.as_deref(), PAGE).await?;
        for job in &page.items {
            // The text has everything that makes one schedule differ from another.
            let key = format!("{:?}", job.definition.when);
            if !groups.contains_key(&key) {
                let Ok(Some(schedule)) = job.definition.schedule(&app.zones) else { continue };
                groups.insert(key.clone(), Group { schedule, jobs: 0, named: Vec::new() });
            }
            let Some(group) = groups.get_mut(&key) else { continue };
            jobs += 1;
            group.jobs += 1;
            if group.named.len() < NAMED {
                group.named.push((job.name.as_str().into(), job.id.0));
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let groups: Vec<Group> = groups.into_values().collect();
    let counted = tokio::task::spawn_blocking(move || by_minute(&groups, now, end)).await;
    let (minutes, is_cut) = counted.unwrap_or_default();
    Ok(WeekPlan { computed_at: now, jobs, minutes, is_cut })
}

/// Counts by the minute, and says whether that was too much.
fn by_minute(
    groups: &[Group],
    now: Timestamp,
    end: Timestamp,
) -> (BTreeMap<i64, PlannedMinute>, bool) {
    let mut minutes: BTreeMap<i64, PlannedMinute> = BTreeMap::new();
    let mut steps = 0;
    for group in groups {
        let mut after = now;
        while let Some(at) = group.schedule.next(after).filter(|at| *at < end) {
            if steps == STEPS_MAX {
                return (minutes, true);
            }
            steps += 1;
            let number = at.as_second().div_euclid(60);
            let next = Timestamp::from_second((number + 1) * 60).unwrap_or(Timestamp::MAX);
            // Everything else of the group in this minute is counted without a visit.
            after = next.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(next).min(end);
            let minute = minutes.entry(number).or_default();
            minute.starts += group.jobs * (1 + group.schedule.count(at, after));
            minute.name(&group.named);
        }
    }
    (minutes, false)
}

impl PlannedMinute {
    /// Keeps the first of all names.
    fn name(&mut self, named: &[(Arc<str>, Uuid)]) {
        for job in named {
            let place = self.jobs.partition_point(|known| known <= job);
            if place == NAMED {
                return;
            }
            self.jobs.insert(place, job.clone());
            self.jobs.truncate(NAMED);
        }
    }
}
