//! Simulation of schedule changes: starts by the minute before and after, and ticks that would be
//! skipped because earlier runs are still under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::Json;
use axum::extract::State;
use domain::access::Deed;
use domain::id::JobId;
use domain::job::{Definition, Job, Overlap};
use domain::schedule::Schedule;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::job_patch::patched;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::problem::{ErrorBody, Problem, Result};
use crate::week_plan::{PlannedJob, WeekPlan, minute_of, started, week_plan};

/// The most changes of one request, and the most jobs that are spread at once.
const CHANGES_MAX: usize = 100;
const JOBS_MAX: usize = 10_000;

/// How many minutes are compared: when the caller does not say, and at most.
const MINUTES_DEFAULT: u32 = 120;
const MINUTES_MAX: u32 = 7 * 24 * 60;

/// The longest time that starts are spread over.
const JITTER_MAX: u32 = 86_400;

/// Jobs of this priority and above are urgent: spreading leaves them alone.
const URGENT: u8 = 8;

/// Ticks of changed jobs that are visited, of all together.
const TICKS_MAX: usize = 1_000_000;

/// Over how many hours durations are measured.
const MEASURED_HOURS: u32 = 24 * 7;

/// Simulated changes: `changes` or `flatten`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulateBody {
    /// Changes of single jobs, at most 100.
    #[serde(default)]
    changes: Option<Vec<SimulatedChange>>,
    /// Spreads the jobs of a minute.
    #[serde(default)]
    flatten: Option<Flatten>,
    /// The first minute that is compared, within a week; the present one when absent, and the
    /// minute that is spread.
    #[serde(default)]
    from: Option<Timestamp>,
    /// How many minutes are compared; 120 when absent, at most 10,080.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10080)]
    minutes: Option<u32>,
}

/// A change of a job.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedChange {
    /// The job's id or name.
    job: String,
    /// A merge patch (RFC 7396).
    #[schema(value_type = Object)]
    patch: Value,
}

/// Jobs that start in the same minute get a jitter.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Flatten {
    /// A time in the minute.
    at: Timestamp,
    /// Their new jitter.
    #[schema(minimum = 1, maximum = 86400)]
    jitter_seconds: u32,
    /// Only these of them; those that are suggested when absent.
    #[serde(default)]
    job_ids: Option<Vec<Uuid>>,
}

/// Result of a simulation.
#[derive(Serialize, ToSchema)]
pub struct Simulation {
    /// The busiest minute as it is.
    pub peak_before: Option<SimulatedPeak>,
    /// The busiest minute with the change.
    pub peak_after: Option<SimulatedPeak>,
    /// The minutes in which something starts, before or after.
    pub minutes: Vec<SimulatedMinute>,
    /// The jobs that would be changed, and with `flatten` those that would not.
    pub jobs: Vec<SimulatedJob>,
    /// Whether there are more starts than were counted.
    pub is_cut: bool,
    /// When the schedules of all jobs were counted. Null while that happens for the first time: ask
    /// again.
    pub computed_at: Option<Timestamp>,
}

/// A minute with many starts.
#[derive(Serialize, ToSchema)]
pub struct SimulatedPeak {
    /// When it begins.
    pub at: Timestamp,
    /// How many runs start in it.
    pub starts: u64,
}

/// A minute before and after.
#[derive(Serialize, ToSchema)]
pub struct SimulatedMinute {
    /// When it begins.
    pub at: Timestamp,
    /// How many runs start in it now.
    pub before: u64,
    /// How many would.
    pub after: u64,
}

/// A job that would be changed.
#[derive(Serialize, ToSchema)]
pub struct SimulatedJob {
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub name: String,
    /// Whether it is changed here.
    pub is_chosen: bool,
    /// Whether it should be left alone, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the caller may change it.
    pub may_change: bool,
    /// With `changes`: the median duration of its runs in the last week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// With `changes`: ticks that would be skipped if each run takes that long, as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skips_before: Option<u64>,
    /// The same with the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skips_after: Option<u64>,
}

/// Starts by the minute, in a window.
struct Window {
    first: i64,
    last: i64,
    before: BTreeMap<i64, u64>,
    /// Starts that the change adds to or removes from each minute.
    change: BTreeMap<i64, i64>,
    ticks: usize,
}

/// Counts the starts of all jobs with some changes, which are not made.
#[utoipa::path(
    post, path = "/v1/schedule:simulate", operation_id = "simulate_schedule", tag = "jobs",
    request_body = SimulateBody,
    responses((status = 200, body = Simulation), (status = 404, body = ErrorBody))
)]
pub(crate) async fn simulate(
    State(app): State<App>,
    actor: Actor,
    Body(body): Body<SimulateBody>,
) -> Result<Json<Simulation>> {
    if body.changes.is_some() == body.flatten.is_some() {
        return Err(Problem::invalid("changes", "give either changes or flatten"));
    }
    let minutes = body.minutes.unwrap_or(MINUTES_DEFAULT);
    if !(1..=MINUTES_MAX).contains(&minutes) {
        let text = format!("must be 1 to {MINUTES_MAX}, not {minutes}");
        return Err(Problem::invalid("minutes", text));
    }
    let now = app.now();
    let from = body.from.or(body.flatten.as_ref().map(|it| it.at)).unwrap_or(now).max(now);
    let latest = now.saturating_add(SignedDuration::from_hours(7 * 24)).unwrap_or(now);
    if from > latest {
        let field = if body.from.is_some() { "from" } else { "flatten.at" };
        return Err(Problem::invalid(field, "must be within seven days"));
    }
    let Some(plan) = week_plan(&app, &actor).await? else {
        return Ok(Json(Simulation {
            peak_before: None,
            peak_after: None,
            minutes: Vec::new(),
            jobs: Vec::new(),
            is_cut: false,
            computed_at: None,
        }));
    };
    let mut window = Window::new(&plan, minute_of(from), minutes);
    let jobs = match &body.flatten {
        Some(flatten) => spread(&actor, &plan, flatten, &mut window, now)?,
        None => {
            let changes = body.changes.unwrap_or_default();
            change(&app, &actor, &plan, changes, &mut window).await?
        }
    };
    Ok(Json(window.finish(&plan, jobs)))
}

impl Window {
    fn new(plan: &WeekPlan, first: i64, minutes: u32) -> Self {
        let last = first + i64::from(minutes);
        let before = plan.minutes.range(first..last).map(|(at, it)| (*at, it.starts)).collect();
        Window { first, last, before, change: BTreeMap::new(), ticks: 0 }
    }

    /// From which tick on a start can lie in the window, and until when.
    fn bounds(&self, spread: SignedDuration) -> (Timestamp, Timestamp) {
        let time = |minute: i64| Timestamp::from_second(minute * 60).unwrap_or(Timestamp::MAX);
        let first = time(self.first).saturating_sub(spread).unwrap_or(Timestamp::MIN);
        (first.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(first), time(self.last))
    }

    /// Adds the starts of a job, or takes them away.
    fn add(
        &mut self,
        job: JobId,
        schedule: &Schedule,
        spread: SignedDuration,
        sign: i64,
        now: Timestamp,
    ) {
        let (after, end) = self.bounds(spread);
        let mut after = after.max(now);
        while let Some(at) = schedule.next(after).filter(|at| *at < end) {
            if self.ticks == TICKS_MAX {
                return;
            }
            self.ticks += 1;
            after = at;
            let minute = minute_of(started(job, at, spread));
            if (self.first..self.last).contains(&minute) {
                *self.change.entry(minute).or_default() += sign;
            }
        }
    }

    fn finish(self, plan: &WeekPlan, jobs: Vec<SimulatedJob>) -> Simulation {
        let numbers: BTreeSet<i64> =
            self.before.keys().chain(self.change.keys()).copied().collect();
        let time = |minute: i64| Timestamp::from_second(minute * 60).unwrap_or(Timestamp::MIN);
        let minute = |number: &i64| {
            let before = self.before.get(number).copied().unwrap_or(0);
            let change = self.change.get(number).copied().unwrap_or(0);
            SimulatedMinute {
                at: time(*number),
                before,
                after: before.saturating_add_signed(change),
            }
        };
        let minutes: Vec<SimulatedMinute> = numbers.iter().map(minute).collect();
        let peak = |starts: fn(&SimulatedMinute) -> u64| {
            let most = minutes.iter().rev().max_by_key(|it| starts(it)).filter(|it| starts(it) > 0);
            most.map(|it| SimulatedPeak { at: it.at, starts: starts(it) })
        };
        Simulation {
            peak_before: peak(|it| it.before),
            peak_after: peak(|it| it.after),
            is_cut: plan.is_cut || self.ticks == TICKS_MAX,
            computed_at: Some(plan.computed_at),
            minutes,
            jobs,
        }
    }
}

/// Gives the jobs of a minute a jitter.
fn spread(
    actor: &Actor,
    plan: &WeekPlan,
    flatten: &Flatten,
    window: &mut Window,
    now: Timestamp,
) -> Result<Vec<SimulatedJob>> {
    if !(1..=JITTER_MAX).contains(&flatten.jitter_seconds) {
        let text = format!("must be 1 to {JITTER_MAX}, not {}", flatten.jitter_seconds);
        return Err(Problem::invalid("flatten.jitter_seconds", text));
    }
    let jitter = SignedDuration::from_secs(i64::from(flatten.jitter_seconds));
    let minute = minute_of(flatten.at);
    let begin = Timestamp::from_second(minute * 60).unwrap_or(flatten.at);
    let before = begin.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(begin);
    let end = Timestamp::from_second((minute + 1) * 60).unwrap_or(Timestamp::MAX);
    let chosen: Option<BTreeSet<Uuid>> =
        flatten.job_ids.as_ref().map(|ids| ids.iter().copied().collect());
    let mut jobs = Vec::new();
    for group in &plan.groups {
        // Jobs that start then because of their jitter are spread already.
        if group.schedule.next(before).is_none_or(|at| at >= end) {
            continue;
        }
        for job in &group.jobs {
            let may_change = actor.may(Deed::AlterJob(job.owner)).is_ok();
            let reason = reason_to_leave(job, jitter, may_change);
            let is_chosen = may_change
                && match &chosen {
                    Some(chosen) => chosen.contains(&job.id.0),
                    None => reason.is_none(),
                };
            if is_chosen {
                window.add(job.id, &group.schedule, job.jitter, -1, now);
                window.add(job.id, &group.schedule, jitter, 1, now);
            }
            jobs.push(SimulatedJob {
                job_id: job.id.0,
                name: job.name.to_string(),
                is_chosen,
                reason,
                may_change,
                median_seconds: None,
                skips_before: None,
                skips_after: None,
            });
        }
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    jobs.truncate(JOBS_MAX);
    Ok(jobs)
}

/// Why a job should start when it does.
fn reason_to_leave(job: &PlannedJob, jitter: SignedDuration, may_change: bool) -> Option<String> {
    if !may_change {
        return Some("you may not change it".to_owned());
    }
    if job.jitter >= jitter {
        return Some(format!("its jitter is {} s already", job.jitter.as_secs()));
    }
    if job.priority >= URGENT {
        return Some(format!("priority {}", job.priority));
    }
    if let Some(deadline) = job.start_deadline.filter(|deadline| *deadline < jitter) {
        return Some(format!("it must start within {} s", deadline.as_secs()));
    }
    job.is_waited_for.then(|| "other jobs wait for it".to_owned())
}

/// Changes single jobs.
async fn change(
    app: &App,
    actor: &Actor,
    plan: &WeekPlan,
    changes: Vec<SimulatedChange>,
    window: &mut Window,
) -> Result<Vec<SimulatedJob>> {
    if !(1..=CHANGES_MAX).contains(&changes.len()) {
        let text = format!("must be 1 to {CHANGES_MAX}, not {}", changes.len());
        return Err(Problem::invalid("changes", text));
    }
    let counted: HashMap<JobId, &Schedule> = plan
        .groups
        .iter()
        .flat_map(|group| group.jobs.iter().map(move |job| (job.id, &group.schedule)))
        .collect();
    let now = app.now();
    let mut jobs = Vec::new();
    for (i, asked) in changes.into_iter().enumerate() {
        let place = format!("changes[{i}]");
        let job = find::plain_job(app, actor, &asked.job).await;
        let job = job.map_err(|problem| problem.inside(&place))?;
        let new = changed_definition(app, actor, &job, asked.patch).await;
        let new = new.map_err(|problem| problem.inside(&format!("{place}.patch")))?;
        if let Some(schedule) = counted.get(&job.id) {
            window.add(job.id, schedule, job.definition.jitter, -1, now);
        }
        let schedule = new.schedule(&app.zones).map_err(Problem::from);
        let schedule = schedule.map_err(|problem| problem.inside(&format!("{place}.patch")))?;
        if let Some(schedule) = &schedule {
            window.add(job.id, schedule, new.jitter, 1, now);
        }
        let median = match actor.may(Deed::SeeRuns(job.owner)) {
            Ok(()) => {
                let stats = app.engine.by(actor).job_stats(&[job.id], MEASURED_HOURS).await?;
                stats.get(&job.id).and_then(|stats| stats.durations.percentile(50))
            }
            Err(_) => None,
        };
        let old = job.definition.schedule(&app.zones)?;
        let skips = |definition: &Definition, schedule: &Option<Schedule>| {
            median.map(|median| skips(definition, schedule.as_ref(), median, window, now))
        };
        jobs.push(SimulatedJob {
            job_id: job.id.0,
            name: job.name.clone(),
            is_chosen: true,
            reason: None,
            may_change: actor.may(Deed::AlterJob(job.owner)).is_ok(),
            median_seconds: median.map(|median| median.as_secs_f64()),
            skips_before: skips(&job.definition, &old),
            skips_after: skips(&new, &schedule),
        });
    }
    Ok(jobs)
}

async fn changed_definition(
    app: &App,
    actor: &Actor,
    job: &Job,
    patch: Value,
) -> Result<Definition> {
    let spec = patched(job, patch)?;
    let upstream = find::upstream(app, actor, &spec).await?;
    let mut definition = spec.definition(upstream, app.now(), &app.zones)?;
    if !definition.calendars.is_empty() {
        app.engine.by(actor).resolve_calendars(&mut definition).await?;
    }
    Ok(definition)
}

/// How many ticks of the window are skipped if every run takes as long as the median.
fn skips(
    definition: &Definition,
    schedule: Option<&Schedule>,
    median: SignedDuration,
    window: &Window,
    now: Timestamp,
) -> u64 {
    let (Some(schedule), Overlap::Skip) = (schedule, definition.overlap) else { return 0 };
    let places = definition.concurrency.unwrap_or(1).max(1) as usize;
    let (after, end) = window.bounds(SignedDuration::ZERO);
    let (mut after, mut skipped, mut ticks) = (after.max(now), 0, 0);
    let mut ends: Vec<Timestamp> = Vec::new();
    while let Some(at) = schedule.next(after).filter(|at| *at < end && ticks < TICKS_MAX) {
        ticks += 1;
        after = at;
        ends.retain(|ended| *ended > at);
        if ends.len() >= places {
            skipped += 1;
        } else {
            ends.extend(at.checked_add(median).ok());
        }
    }
    skipped
}
