//! When the jobs of a tenant are due in the week to come, by the minute.
//!
//! Counting all schedules of a large tenant takes longer than a request may: it happens beside
//! requests, once for all of them, and a request is answered with what was counted last. Jobs with
//! the same schedule and without jitter are counted together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::access::Actor;
use domain::id::{JobId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::schedule::{Schedule, jitter};
use engine::{Cursor, JobFilter};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use uuid::Uuid;

use crate::app::App;
use crate::problem::Result;

/// How far ahead is counted: a week, and what passes until it is counted anew.
const AHEAD: SignedDuration = SignedDuration::from_hours(7 * 24 + 2);

/// A plan is counted anew after this time, even if no job has changed.
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

/// The jobs that are counted: all of a tenant, or those of one owner.
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
    /// The jobs that were counted, grouped by schedule.
    pub(crate) groups: Vec<PlannedGroup>,
    /// Whether there are more runs than were counted.
    pub(crate) is_cut: bool,
}

/// Jobs with the same schedule.
pub(crate) struct PlannedGroup {
    /// When they are due.
    pub(crate) schedule: Schedule,
    /// The jobs, by name.
    pub(crate) jobs: Vec<PlannedJob>,
}

/// A job that is due in the week to come.
#[derive(Clone)]
pub(crate) struct PlannedJob {
    pub(crate) name: Arc<str>,
    pub(crate) id: JobId,
    pub(crate) owner: UserId,
    /// Spreads its starts over this time.
    pub(crate) jitter: SignedDuration,
    pub(crate) priority: u8,
    pub(crate) start_deadline: Option<SignedDuration>,
    /// Whether other jobs wait for it.
    pub(crate) is_waited_for: bool,
}

/// A minute in which something is due.
#[derive(Default)]
pub(crate) struct PlannedMinute {
    /// How many runs are due in it.
    pub(crate) starts: u64,
    /// The first jobs by name.
    pub(crate) jobs: Vec<(Arc<str>, Uuid)>,
}

/// The last plan of each scope.
#[derive(Default)]
pub(crate) struct WeekPlans(Mutex<HashMap<Scope, Counted>>);

#[derive(Clone, Default)]
struct Counted {
    latest: watch::Sender<Option<Arc<WeekPlan>>>,
    is_counting: Arc<Mutex<bool>>,
}

/// Runs that are due in the next seven days, of the jobs that an actor sees; none while they are
/// counted for the first time.
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

async fn count(app: &App, scope: Scope) -> engine::Result<WeekPlan> {
    let now = app.now();
    let end = now.saturating_add(AHEAD).unwrap_or(now);
    let filter = JobFilter {
        states: vec![JobState::Enabled],
        due_before: Some(end),
        owner: scope.owner,
        ..JobFilter::of_tenant(scope.tenant)
    };
    let waited_for = app.engine.node().jobs_waited_for(scope.tenant).await?;
    let mut groups: HashMap<String, PlannedGroup> = HashMap::new();
    let (mut after, mut jobs) = (None::<String>, 0);
    loop {
        let page = app.engine.node().list_jobs(&filter, after.as_deref(), PAGE).await?;
        for job in &page.items {
            // The text has everything that makes one schedule differ from another.
            let key = format!("{:?} {:?}", job.definition.when, job.definition.calendars);
            if !groups.contains_key(&key) {
                let Ok(Some(schedule)) = job.definition.schedule(&app.zones) else { continue };
                groups.insert(key.clone(), PlannedGroup { schedule, jobs: Vec::new() });
            }
            let Some(group) = groups.get_mut(&key) else { continue };
            jobs += 1;
            group.jobs.push(PlannedJob::new(job, &waited_for));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let groups: Vec<PlannedGroup> = groups.into_values().collect();
    let counted = tokio::task::spawn_blocking(move || {
        let (minutes, is_cut) = by_minute(&groups, now, end);
        (minutes, groups, is_cut)
    });
    let (minutes, groups, is_cut) = counted.await.unwrap_or_default();
    Ok(WeekPlan { computed_at: now, jobs, minutes, groups, is_cut })
}

impl PlannedJob {
    fn new(job: &Job, waited_for: &HashSet<JobId>) -> Self {
        PlannedJob {
            name: job.name.as_str().into(),
            id: job.id,
            owner: job.owner,
            jitter: job.definition.jitter,
            priority: job.definition.priority,
            start_deadline: job.definition.start_deadline,
            is_waited_for: waited_for.contains(&job.id),
        }
    }

    /// When a tick of it starts.
    pub(crate) fn start(&self, at: Timestamp) -> Timestamp {
        started(self.id, at, self.jitter)
    }
}

/// When a tick of a job starts.
pub(crate) fn started(job: JobId, at: Timestamp, spread: SignedDuration) -> Timestamp {
    at.saturating_add(jitter(job.0.into_bytes(), at, spread)).unwrap_or(at)
}

/// The minute of a time, since the epoch.
pub(crate) fn minute_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(60)
}

/// Counts by the minute, and says whether that was too much.
fn by_minute(
    groups: &[PlannedGroup],
    now: Timestamp,
    end: Timestamp,
) -> (BTreeMap<i64, PlannedMinute>, bool) {
    let mut minutes: BTreeMap<i64, PlannedMinute> = BTreeMap::new();
    let mut steps = 0;
    for group in groups {
        let (spread, exact): (Vec<&PlannedJob>, Vec<&PlannedJob>) =
            group.jobs.iter().partition(|job| job.jitter.is_positive());
        let named: Vec<(Arc<str>, Uuid)> =
            exact.iter().take(NAMED).map(|job| (job.name.clone(), job.id.0)).collect();
        let mut after = now;
        while !exact.is_empty() {
            let Some(at) = group.schedule.next(after).filter(|at| *at < end) else { break };
            if steps == STEPS_MAX {
                return (minutes, true);
            }
            steps += 1;
            let number = minute_of(at);
            let next = Timestamp::from_second((number + 1) * 60).unwrap_or(Timestamp::MAX);
            // Everything else of the group in this minute is counted without a visit.
            after = next.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(next).min(end);
            let minute = minutes.entry(number).or_default();
            minute.starts += exact.len() as u64 * (1 + group.schedule.count(at, after));
            minute.name(&named);
        }
        // Each tick of a job with jitter has a start of its own.
        let mut after = now;
        while !spread.is_empty() {
            let Some(at) = group.schedule.next(after).filter(|at| *at < end) else { break };
            after = at;
            if steps + spread.len() > STEPS_MAX {
                return (minutes, true);
            }
            steps += spread.len();
            for job in &spread {
                let minute = minutes.entry(minute_of(job.start(at))).or_default();
                minute.starts += 1;
                minute.name(&[(job.name.clone(), job.id.0)]);
            }
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
