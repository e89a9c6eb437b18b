//! Commands of clients: create and change jobs, trigger and cancel runs.

use std::collections::HashMap;

use domain::decide::plan::tick;
use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Retention, When};
use domain::run::{NewRun, Origin, Outcome, Reason, ReasonCode, RunState};
use domain::schedule::CatchUpPolicy;
use jiff::{SignedDuration, Timestamp};
use store::{Cancelled, Change, Changed, Prepared, RunFilter};
use uuid::Uuid;

use self::alter::Consequence;
use crate::error::{EngineError, Result};
use crate::node::Node;
use crate::queues::no_queue;

mod alter;
mod backfill;
mod check;
mod together;

pub use backfill::Backfill;
pub use together::{CHANGES_MAX, ChangeRefused, JobChange, JobChanges};

/// Number of runs of a deleted job that are cancelled at a time.
const CANCELLED_AT_ONCE: u32 = 200;

/// A change that time overtakes is tried this often.
const ALTER_TRIES_MAX: u32 = 8;

/// A job to be created.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Tenant of the job.
    pub tenant: TenantId,
    /// Creator of the job: it runs with the rights of this user.
    pub owner: UserId,
    /// Its name.
    pub name: String,
    /// Definition of the job.
    pub definition: Definition,
    /// Initial state: enabled, paused or disabled.
    pub state: JobState,
}

/// How a job is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Also if others depend on it; they depend on it no more.
    pub cascade: bool,
    /// Its history is deleted soon, a little at a time. Otherwise it is kept until its retention is
    /// over.
    pub purge_history: bool,
    /// Its runs that go on are cancelled. Otherwise they come to their end.
    pub cancel_running: bool,
    /// Only if it has this version.
    pub expected: Option<u32>,
}

/// A run to be started by hand.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    /// When; now when absent.
    pub at: Option<Timestamp>,
    /// Values for the action, as a JSON object.
    pub parameters: Option<String>,
    /// Whether to wait for the jobs that the job depends on.
    pub with_dependencies: bool,
    /// An id that the client chose: a trigger of the same job with the same id is the same run.
    pub chosen: Option<Uuid>,
    /// User that requests the run.
    pub requested_by: Option<UserId>,
}

impl Node {
    /// Creates jobs, each on its own.
    pub async fn create_jobs(&self, jobs: Vec<NewJob>, by: &str) -> Result<Vec<Result<Job>>> {
        let now = self.store.now().await?;
        let mut answers = Vec::with_capacity(jobs.len());
        let mut changes = Vec::new();
        for new in jobs {
            match self.new_job(new, now, &JobChanges::default()).await {
                Ok(job) => {
                    changes.push(creation(job));
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error))),
            }
        }
        let changed = self.store.define(&changes, by).await?;
        let mut done = changes.into_iter().zip(changed).map(|(change, changed)| {
            let created = answer(change, changed)?;
            log_schedule(&created, "job created");
            Ok(created)
        });
        let mut made: Vec<Result<Job>> =
            answers.into_iter().filter_map(|answer| answer.or_else(|| done.next())).collect();
        let written: Vec<Job> = made.iter().flatten().cloned().collect();
        for id in self.overtaken_by_pause(&written, by).await? {
            let paused = self.existing(id).await;
            if let Some(job) = made.iter_mut().find(|it| it.as_ref().is_ok_and(|it| it.id == id)) {
                *job = paused;
            }
        }
        Ok(made)
    }

    /// Creates a job.
    pub async fn create_job(&self, job: NewJob, by: &str) -> Result<Job> {
        let missing = || EngineError::WrongState("the job was not created".into());
        self.create_jobs(vec![job], by).await?.pop().unwrap_or_else(|| Err(missing()))
    }

    /// Whether a job could be created. Its name may still be taken.
    pub async fn check_job(&self, job: NewJob) -> Result<()> {
        let now = self.store.now().await?;
        self.new_job(job, now, &JobChanges::default()).await.map(drop)
    }

    async fn new_job(&self, new: NewJob, now: Timestamp, among: &JobChanges) -> Result<Job> {
        let random = (self.parts.random)().to_be_bytes();
        let bytes = random[..10].try_into().unwrap_or([0; 10]);
        let ms = now.as_millisecond().max(0) as u64;
        let id = JobId(uuid::Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid());
        let now = to_microsecond(now);
        let job = Job {
            id,
            tenant: new.tenant,
            owner: new.owner,
            name: new.name,
            version: 1,
            state: new.state,
            definition: new.definition,
            next_run: None,
            created_at: now,
            updated_at: now,
        };
        self.begun(job, now, among).await
    }

    /// A new job whose schedule begins now, checked.
    async fn begun(&self, mut job: Job, now: Timestamp, among: &JobChanges) -> Result<Job> {
        if job.definition.when.needs_start() {
            job.definition.when.start_at(next_second(now));
        }
        self.resolve_calendars(job.tenant, &mut job.definition, None).await?;
        self.resolve_artifacts(job.tenant, &mut job.definition, None).await?;
        job.definition.parameter_rules = job.definition.checked_rules()?;
        self.check(&job)?;
        self.check_dependencies(&job, among).await?;
        self.check_pool(&job).await?;
        self.check_exactly_once(&job).await?;
        (job.created_at, job.updated_at) = (now, now);
        job.next_run = self.first_time(&job, now)?;
        self.under_pause(&mut job, None).await?;
        Ok(job)
    }

    /// Changes a job: what `edit` makes of it replaces it, unless another change was faster. A
    /// changed schedule never fires the past.
    pub async fn alter_job(
        &self,
        id: JobId,
        edit: impl FnOnce(&mut Job) + Send,
        by: &str,
    ) -> Result<Job> {
        let edit = |job: &mut Job| {
            edit(job);
            Ok::<(), EngineError>(())
        };
        self.try_alter_job(id, edit, by).await
    }

    /// Changes a job if `edit` agrees to it: its error is the answer, and nothing is written.
    pub async fn try_alter_job<E: From<EngineError>>(
        &self,
        id: JobId,
        edit: impl FnOnce(&mut Job) -> std::result::Result<(), E> + Send,
        by: &str,
    ) -> std::result::Result<Job, E> {
        self.alter_job_catching_up(id, None, edit, by).await
    }

    /// Plans a job again from now on, as if its schedule had changed.
    pub(crate) async fn replan_job(&self, id: JobId, by: &str) -> Result<Job> {
        self.alter_job_as(id, (None, Consequence::Replan), |_| Ok::<(), EngineError>(()), by).await
    }

    /// The same, where a pause that ends with it follows another catch-up policy than the job's.
    pub(crate) async fn alter_job_catching_up<E: From<EngineError>>(
        &self,
        id: JobId,
        catch_up: Option<CatchUpPolicy>,
        edit: impl FnOnce(&mut Job) -> std::result::Result<(), E> + Send,
        by: &str,
    ) -> std::result::Result<Job, E> {
        self.alter_job_as(id, (catch_up, Consequence::None), edit, by).await
    }

    async fn alter_job_as<E: From<EngineError>>(
        &self,
        id: JobId,
        (catch_up, consequence): (Option<CatchUpPolicy>, Consequence),
        edit: impl FnOnce(&mut Job) -> std::result::Result<(), E> + Send,
        by: &str,
    ) -> std::result::Result<Job, E> {
        let mut old = self.existing(id).await?;
        let mut job = old.clone();
        edit(&mut job)?;
        let mut altered = self.altered(&old, job, &JobChanges::default()).await?;
        altered.apply(consequence);
        let mut tries = 0;
        loop {
            let now = self.store.now().await.map_err(EngineError::from)?;
            let change = self.change_at(&old, &mut altered, catch_up, now)?;
            let changed = self.store.define(std::slice::from_ref(&change), by).await;
            let changed = changed.map_err(EngineError::from)?.pop();
            self.forget_job(id);
            match changed {
                Some(Changed::VersionConflict(version))
                    if version == old.version && tries < ALTER_TRIES_MAX =>
                {
                    // Times of the old schedule have passed that are not planned yet. They belong
                    // to it, and into the ledger.
                    tries += 1;
                    self.plan_past(&old).await.map_err(EngineError::from)?;
                    let current = self.existing(id).await?;
                    old.next_run = current.next_run;
                    old.state = current.state;
                }
                Some(changed) => {
                    let job = answer(change, changed)?;
                    if job.definition.when != old.definition.when {
                        log_schedule(&job, "schedule changed");
                    }
                    let overtaken = self.overtaken_by_pause(std::slice::from_ref(&job), by).await?;
                    return match overtaken.is_empty() {
                        true => Ok(job),
                        false => Ok(self.existing(id).await?),
                    };
                }
                None => return Err(EngineError::NotFound(format!("job {id}")).into()),
            }
        }
    }

    /// Holds a job: nothing of it starts until it is resumed.
    pub async fn pause_job(&self, id: JobId, by: &str) -> Result<Job> {
        let from = [JobState::Enabled, JobState::Paused];
        let job = self.before_state(id, JobState::Paused, &from).await?;
        // A job that PAUSE ALL has paused stays paused after it from now on.
        if job.state == JobState::Paused && job.definition.paused_by.is_none() {
            return Ok(job);
        }
        let pause = |job: &mut Job| {
            job.state = JobState::Paused;
            Ok::<(), EngineError>(())
        };
        self.alter_job_as(id, (None, Consequence::OwnPause), pause, by).await
    }

    /// Resumes a paused job. Missed times follow its catch-up policy, or the one that is given. A
    /// disabled job is enabled, and its missed times are not caught up.
    pub async fn resume_job(
        &self,
        id: JobId,
        catch_up: Option<CatchUpPolicy>,
        by: &str,
    ) -> Result<Job> {
        let from = [JobState::Enabled, JobState::Paused, JobState::Disabled];
        let job = self.before_state(id, JobState::Enabled, &from).await?;
        if job.state == JobState::Enabled {
            return Ok(job);
        }
        if job.definition.paused_by.is_some()
            && let Some((_, pause)) = self.active_pause(job.tenant).await?
        {
            return Err(EngineError::WrongState(format!(
                "all jobs are paused: {}; end the pause with RESUME ALL",
                pause.reason
            )));
        }
        let resume = |job: &mut Job| {
            job.state = JobState::Enabled;
            Ok::<(), EngineError>(())
        };
        self.alter_job_catching_up(id, catch_up, resume, by).await
    }

    /// Switches a job off.
    pub async fn disable_job(&self, id: JobId, by: &str) -> Result<Job> {
        self.set_state(
            id,
            JobState::Disabled,
            &[JobState::Enabled, JobState::Paused, JobState::Disabled],
            by,
        )
        .await
    }

    /// Removes a job. Its runs that go on come to their end, unless the caller cancels them after
    /// this. Returns the names of the jobs that depended on this one alone and have no schedule:
    /// from now on they run only on request.
    pub async fn delete_job(&self, id: JobId, deletion: Deletion, by: &str) -> Result<Vec<String>> {
        let Deletion { cascade, purge_history, expected, .. } = deletion;
        let job = self.existing(id).await?;
        let check = move |job: &Job| match expected {
            Some(expected) if expected != job.version => {
                Err(EngineError::VersionConflict { expected, current: job.version })
            }
            _ => Ok(()),
        };
        check(&job)?;
        let edges = self.store.dependencies(job.tenant).await?;
        let dependents: Vec<JobId> =
            edges.iter().filter(|(_, upstream)| *upstream == id).map(|(job, _)| *job).collect();
        if !cascade && !dependents.is_empty() {
            let names = self.names(&dependents).await?;
            return Err(EngineError::WrongState(format!(
                "other jobs depend on it: {}",
                names.join(", ")
            )));
        }
        let mut unscheduled = Vec::new();
        for dependent in dependents {
            let mut has_schedule = true;
            let detach = |job: &mut Job| {
                let definition = &mut job.definition;
                definition.depends_on.retain(|upstream| upstream.job != id);
                if definition.when == When::AfterDependencies && definition.depends_on.is_empty() {
                    definition.when = When::Manual;
                    has_schedule = false;
                }
            };
            let job = self.alter_job(dependent, detach, by).await?;
            if !has_schedule {
                unscheduled.push(job.name);
            }
        }
        let delete = |job: &mut Job| {
            check(job)?;
            job.state = JobState::Deleted;
            if purge_history {
                // The pruner follows the rules of deleted jobs too.
                job.definition.retention = Retention::NOTHING;
            }
            Ok::<(), EngineError>(())
        };
        self.try_alter_job(id, delete, by).await?;
        Ok(unscheduled)
    }

    /// Requests the cancellation of every live run of a deleted job. Returns those that nodes hold.
    pub(crate) async fn cancel_runs_of(&self, job: JobId, by: &str) -> Result<Vec<RunId>> {
        let states = vec![RunState::Pending, RunState::Queued, RunState::Running, RunState::Held];
        let filter = RunFilter { states, ..RunFilter::of_job(job) };
        let text = "its job was deleted".to_owned();
        let reason = Reason { code: ReasonCode::CancelRequested, text };
        let (mut before, mut held) = (None, Vec::new());
        loop {
            let page = self.store.list_runs(&filter, before, CANCELLED_AT_ONCE).await?;
            for run in &page.items {
                // One that has ended meanwhile needs nothing.
                if let Cancelled::Requested(_) = self.cancel(run.id, &reason, by).await? {
                    held.push(run.id);
                }
            }
            before = page.next;
            if before.is_none() {
                return Ok(held);
            }
        }
    }

    /// A job that is in one of the states from which it can get to another.
    async fn before_state(&self, id: JobId, to: JobState, from: &[JobState]) -> Result<Job> {
        let job = self.existing(id).await?;
        if from.contains(&job.state) {
            return Ok(job);
        }
        if let (JobState::Completed, JobState::Enabled, When::At { at }) =
            (job.state, to, &job.definition.when)
        {
            return Err(EngineError::AlreadyRan { name: job.name, at: *at });
        }
        let text = format!("job {} is {:?}", job.name, job.state).to_lowercase();
        Err(EngineError::WrongState(text))
    }

    async fn set_state(
        &self,
        id: JobId,
        state: JobState,
        from: &[JobState],
        by: &str,
    ) -> Result<Job> {
        let job = self.before_state(id, state, from).await?;
        if job.state == state {
            return Ok(job);
        }
        self.alter_job(id, |job| job.state = state, by).await
    }

    /// The run of a trigger.
    pub async fn triggered(&self, id: JobId, trigger: Trigger) -> Result<NewRun> {
        let job =
            self.job(id, 0).await?.ok_or_else(|| EngineError::NotFound(format!("job {id}")))?;
        self.triggered_of(&job, trigger)
    }

    /// The run of a trigger of a job.
    pub fn triggered_of(&self, job: &Job, trigger: Trigger) -> Result<NewRun> {
        if let Some(problem) = job.unreadable() {
            return Err(EngineError::WrongState(problem));
        }
        let now = self.now();
        let at = trigger.at.unwrap_or(now);
        Ok(NewRun {
            id: match trigger.chosen {
                Some(chosen) => RunId::of_chosen(job.id, chosen),
                None => RunId::of_request(at, (self.parts.random)()),
            },
            // A run for a past time cannot start before it was requested.
            due_at: at.max(now),
            ignore_dependencies: !trigger.with_dependencies,
            parameters: job.definition.run_parameters(trigger.parameters)?,
            priority: job.definition.priority,
            requested_by: trigger.requested_by,
            ..tick(job, at, Origin::Manual, 0)
        })
    }

    /// Starts a failed run once more, as a new run with the same parameters that a user requests.
    pub async fn redriven(&self, run: RunId, requested_by: Option<UserId>) -> Result<NewRun> {
        let view = self
            .store
            .run(run)
            .await?
            .ok_or_else(|| EngineError::NotFound(format!("run {run}")))?;
        let again = [
            Outcome::Failed,
            Outcome::Timeout,
            Outcome::Cancelled,
            Outcome::Skipped,
            Outcome::Missed,
        ];
        match view.state {
            RunState::Ended(outcome) if again.contains(&outcome) => {}
            state => return Err(EngineError::WrongState(format!("run {run} is {state}"))),
        }
        let trigger = Trigger { parameters: view.parameters, requested_by, ..Trigger::default() };
        let fresh = self.triggered(view.job, trigger).await?;
        Ok(NewRun { scheduled_for: view.scheduled_for, ..fresh })
    }

    pub(crate) async fn existing(&self, id: JobId) -> Result<Job> {
        let found = self.store.jobs_by_id(&[id]).await?.pop();
        found.ok_or_else(|| EngineError::NotFound(format!("job {id}")))
    }

    async fn names(&self, ids: &[JobId]) -> Result<Vec<String>> {
        let jobs: HashMap<JobId, String> =
            self.store.jobs_by_id(ids).await?.into_iter().map(|job| (job.id, job.name)).collect();
        Ok(ids.iter().map(|id| jobs.get(id).cloned().unwrap_or_else(|| id.to_string())).collect())
    }

    /// The first time that an enabled job is due when its schedule begins now.
    fn first_time(&self, job: &Job, now: Timestamp) -> Result<Option<Timestamp>> {
        let schedule = job.definition.schedule(&self.parts.zones)?;
        Ok(match (&job.definition.when, schedule) {
            // A one-time job of the past is late, but still runs.
            (When::At { at }, _) => Some(*at),
            (_, Some(schedule)) => {
                let just_before = now.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(now);
                schedule.next_nominal(just_before)
            }
            (_, None) => None,
        })
    }
}

impl Node {
    /// Requests the cancellation of a run.
    pub async fn cancel_run(&self, run: RunId, text: &str, by: &str) -> Result<Cancelled> {
        let reason = Reason { code: ReasonCode::CancelRequested, text: text.to_owned() };
        match self.cancel(run, &reason, by).await? {
            Cancelled::NotFound => Err(EngineError::NotFound(format!("run {run}"))),
            Cancelled::EndedBefore(outcome) => {
                Err(EngineError::WrongState(format!("run {run} has ended as {outcome} already")))
            }
            cancelled => Ok(cancelled),
        }
    }
}

/// The change that creates a job.
fn creation(job: Job) -> Change {
    Change { job, expected: None, prepared: Prepared::Keep, plan: None, changed: Vec::new() }
}

/// Logs a new schedule.
fn log_schedule(job: &Job, event: &str) {
    let (schedule, next) = (job.definition.when.kind(), job.next_run.map(tracing::field::display));
    tracing::info!(job = %job.name, job_id = %job.id, schedule, next, "{event}");
}

/// An instant as a store keeps it.
fn to_microsecond(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// The whole second at or after an instant: where an interval begins that names no start, so that
/// its times read well and fit into a question to the second.
fn next_second(at: Timestamp) -> Timestamp {
    let whole = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(whole).unwrap_or(at)
}

fn answer(change: Change, changed: Changed) -> Result<Job> {
    let job = change.job;
    match changed {
        Changed::Done => Ok(job),
        Changed::NameTaken(by) => Err(EngineError::NameTaken { name: job.name, by }),
        Changed::VersionConflict(current) => {
            Err(EngineError::VersionConflict { expected: change.expected.unwrap_or(0), current })
        }
        Changed::NotFound if job.definition.is_queue() => Err(no_queue(&job.name)),
        Changed::NotFound => Err(EngineError::NotFound(format!("job {}", job.name))),
        Changed::TooMany => Err(EngineError::TooManyJobs),
    }
}
