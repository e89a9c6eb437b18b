//! Jobs: made, changed, removed, held.

use std::collections::HashMap;

use domain::id::JobId;
use domain::job::{Definition, Job, JobState};
use domain::schedule::{CatchUpPolicy, Zone, parse_instant};
use engine::{Deletion, JobChanges, NewJob};
use jiff::Timestamp;
use sql::{AlterJob, Clauses, Context, CreateJob, Defined, DropJob, IfPresent, Refused, Spanned};

use super::{Answer, Result, Session, SqlError};
use crate::problem::{Code, Problem};
use crate::rest::find;
use crate::rest::shape::job::check_tags;
use crate::rest::warnings::warnings;

impl Session {
    /// The job of a name or an id.
    pub(super) async fn job(&self, name: &Spanned<String>) -> Result<Job> {
        let found = find::job(&self.app, &self.actor, &name.value).await;
        found.map_err(|problem| SqlError::from(problem).or_at(name.at))
    }

    /// The job, or none when it is not there and `IF EXISTS` was given.
    pub(super) async fn job_if(
        &self,
        name: &Spanned<String>,
        if_exists: bool,
    ) -> Result<Option<Job>> {
        match if_exists {
            true => Ok(find::job_if_any(&self.app, &self.actor, &name.value).await?),
            false => self.job(name).await.map(Some),
        }
    }

    /// A statement about jobs does not change a DAG.
    fn no_dag(&self, job: &Job, name: &Spanned<String>) -> Result<()> {
        match job.definition.is_dag() {
            true => {
                let text = format!("{} is a DAG, not a job", sql::quoted(&job.name));
                let error = SqlError::new(Code::WrongState, text).with_state("42809");
                Err(error.with_hint("Use CREATE OR ALTER DAG or ALTER DAG.").or_at(name.at))
            }
            false => Ok(()),
        }
    }

    /// The zone of local times that are written without one.
    pub(super) fn zone(&self) -> Zone {
        let name = self.settings.get("timezone").unwrap_or_default();
        self.app.zones.find(&name).unwrap_or(Zone::UTC)
    }

    /// A time as it was written; the present when nothing was.
    pub(super) fn time_of(&self, written: Option<&Spanned<String>>) -> Result<Timestamp> {
        let Some(Spanned { value, at }) = written else { return Ok(self.app.now()) };
        let time = parse_instant(value, &self.zone(), &self.app.zones);
        time.map_err(|error| SqlError::from(error).or_at(*at))
    }

    /// The job that clauses define in a block with other changes: based on `base`, or new, also
    /// where a job is replaced.
    pub(super) async fn define(
        &self,
        clauses: &Clauses,
        base: Option<&Definition>,
        replaced: Option<&Job>,
        among: &JobChanges,
    ) -> Result<Defined> {
        let define = |context: &Context<'_>| clauses.define(base, context);
        let mut defined = self.define_with(clauses, among, define).await?;
        if base.is_none() {
            let mut defaults = self.app.engine.by(&self.actor).job_defaults().await?;
            if let Some(replaced) = replaced {
                defaults = defaults.for_replaced(&replaced.definition);
            }
            defaults.fill(&mut defined.definition, clauses.place_of("timeout").is_some());
        }
        Ok(defined)
    }

    /// The same for what has clauses of jobs and others.
    pub(super) async fn define_with(
        &self,
        clauses: &Clauses,
        among: &JobChanges,
        define: impl FnOnce(&Context<'_>) -> std::result::Result<Defined, Refused>,
    ) -> Result<Defined> {
        let mut upstream: HashMap<String, JobId> = HashMap::new();
        for name in clauses.upstream() {
            if let Some(job) = self.job_among(among, name, true).await? {
                upstream.insert(name.value.clone(), job.id);
            }
        }
        let (zones, zone) = (&self.app.zones, self.zone());
        let context = Context { zones, zone: &zone, upstream: &upstream };
        let defined = define(&context)?;
        check_tags(&defined.definition.tags)
            .map_err(|problem| SqlError::of_clauses(problem, clauses, 0))?;
        Ok(defined)
    }

    pub(super) async fn new_job(&self, create: &CreateJob, among: &JobChanges) -> Result<NewJob> {
        let Defined { definition, state } = self.define(&create.clauses, None, None, among).await?;
        Ok(NewJob {
            tenant: self.actor.tenant,
            owner: self.actor.user,
            name: create.name.value.clone(),
            definition,
            state: state.unwrap_or(JobState::Enabled),
        })
    }

    pub(super) async fn create_job(&self, create: &CreateJob) -> Result<Answer> {
        let tag = sql::Statement::CreateJob(create.clone()).tag();
        let present = match create.if_present {
            IfPresent::Refuse => None,
            _ => self.job_if(&create.name, true).await?,
        };
        let Some(job) = present else {
            let new = self.new_job(create, &JobChanges::default()).await?;
            return self.create(new, create, tag).await;
        };
        self.no_dag(&job, &create.name)?;
        if create.if_present == IfPresent::Keep {
            let name = sql::quoted(&job.name);
            let notice = format!("job {name} already exists, skipping");
            return Ok(Answer::done(tag).with_notice(notice));
        }
        // The job is replaced in one step: no tick is lost between the old definition and the new
        // one, and dependent jobs still depend on it.
        let edit = self.redefinition(create, &job, &JobChanges::default()).await?;
        let edit = move |job: &mut Job| {
            edit(job);
            Ok(())
        };
        let done = self.app.engine.by(&self.actor).alter_job(job.id, edit).await;
        let job = done.map_err(|problem| of_create(problem, create))?;
        Ok(self.told(Answer::done(tag), &job).await)
    }

    async fn create(&self, new: NewJob, create: &CreateJob, tag: &str) -> Result<Answer> {
        let placed = |problem| of_create(problem, create);
        let done = self.app.engine.by(&self.actor).create_jobs(vec![new]).await;
        let done = done.map_err(|error| placed(error.into()))?.pop();
        let job = done.ok_or_else(SqlError::internal)?.map_err(|error| placed(error.into()))?;
        Ok(self.told(Answer::done(tag), &job).await)
    }

    /// An answer with what may surprise about a job.
    pub(super) async fn told(&self, mut answer: Answer, job: &Job) -> Answer {
        answer.notices.extend(warnings(&self.app, job).await);
        answer
    }

    /// The job that CREATE OR ALTER or RECREATE makes of an existing one.
    pub(super) async fn redefinition(
        &self,
        create: &CreateJob,
        job: &Job,
        among: &JobChanges,
    ) -> Result<impl FnOnce(&mut Job) + Send + use<>> {
        let is_anew = create.if_present == IfPresent::Replace;
        let Defined { mut definition, state } =
            self.define(&create.clauses, None, Some(job), among).await?;
        if is_anew && definition.when.needs_start() {
            definition.when.start_at(self.app.now());
        }
        Ok(redefine(definition, state.or(is_anew.then_some(JobState::Enabled))))
    }

    /// The job that ALTER JOB makes of an existing one.
    pub(super) async fn alteration(
        &self,
        alter: &AlterJob,
        job: &Job,
        among: &JobChanges,
    ) -> Result<impl FnOnce(&mut Job) + Send + use<>> {
        let base = Some(&job.definition);
        let Defined { definition, state } = self.define(&alter.clauses, base, None, among).await?;
        let rename = alter.rename.as_ref().map(|name| name.value.clone());
        Ok(move |job: &mut Job| {
            redefine(definition, state)(job);
            if let Some(name) = rename {
                job.name = name;
            }
        })
    }

    pub(super) async fn alter_job(&self, alter: &AlterJob) -> Result<Answer> {
        let answer = Answer::done("ALTER JOB");
        let Some(job) = self.job_if(&alter.name, alter.if_exists).await? else {
            return Ok(answer.with_notice(no_job(&alter.name)));
        };
        self.no_dag(&job, &alter.name)?;
        let version = job.version;
        let change = self.alteration(alter, &job, &JobChanges::default()).await?;
        let edit = move |job: &mut Job| {
            // The change is based on the version that was read: all of the clauses or none take
            // effect.
            if job.version != version {
                let (expected, current) = (version, job.version);
                return Err(engine::EngineError::VersionConflict { expected, current }.into());
            }
            change(job);
            Ok(())
        };
        let done = self.app.engine.by(&self.actor).alter_job(job.id, edit).await;
        let at = alter.rename.as_ref().map_or(alter.name.at, |name| name.at);
        let job = done.map_err(|problem| SqlError::of_clauses(problem, &alter.clauses, at))?;
        Ok(self.told(answer, &job).await)
    }

    pub(super) async fn drop_job(&self, drop: &DropJob) -> Result<Answer> {
        let answer = Answer::done("DROP JOB");
        let Some(job) = self.job_if(&drop.name, drop.if_exists).await? else {
            return Ok(answer.with_notice(no_job(&drop.name)));
        };
        let deletion = Deletion {
            cascade: drop.cascade,
            purge_history: drop.purge_history,
            cancel_running: drop.cancel_running,
            expected: None,
        };
        let done = self.app.engine.by(&self.actor).delete_job(job.id, deletion).await;
        let unscheduled = done.map_err(|error| of_drop(error, drop))?;
        Ok(dropped(answer, drop, &unscheduled))
    }

    pub(super) async fn pause_job(&self, name: &Spanned<String>) -> Result<Answer> {
        let job = self.job(name).await?;
        let done = self.app.engine.by(&self.actor).pause_job(job.id).await;
        done.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done("PAUSE JOB"))
    }

    pub(super) async fn resume_job(
        &self,
        name: &Spanned<String>,
        catch_up: Option<CatchUpPolicy>,
    ) -> Result<Answer> {
        let job = self.job(name).await?;
        let done = self.app.engine.by(&self.actor).resume_job(job.id, catch_up).await;
        done.map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok(Answer::done("RESUME JOB"))
    }
}

/// Gives a job another definition, and a state if one is named.
pub(super) fn redefine(
    definition: Definition,
    state: Option<JobState>,
) -> impl FnOnce(&mut Job) + Send {
    move |job: &mut Job| {
        let is_rescheduled = job.definition.when != definition.when;
        job.definition = definition;
        job.state = match (state, job.state) {
            (Some(state), _) => state,
            // A one-time job that has run gets another time.
            (None, JobState::Completed) if is_rescheduled => JobState::Enabled,
            (None, state) => state,
        };
    }
}

pub(super) fn of_create(problem: Problem, create: &CreateJob) -> SqlError {
    SqlError::of_clauses(problem, &create.clauses, create.name.at)
}

/// Why a job is not removed.
pub(super) fn of_drop(error: engine::EngineError, drop: &DropJob) -> SqlError {
    let is_needed = matches!(error, engine::EngineError::WrongState(_));
    let error = SqlError::from(error).or_at(drop.name.at);
    match is_needed {
        true => error.with_state("2BP01").with_hint("DROP JOB … CASCADE removes it anyway."),
        false => error,
    }
}

/// Adds notices about the removed job and about jobs that lost their schedule with it.
pub(super) fn dropped(mut answer: Answer, drop: &DropJob, unscheduled: &[String]) -> Answer {
    for name in unscheduled {
        let name = sql::quoted(name);
        answer = answer.with_notice(format!("job {name} has no schedule left: it runs on request"));
    }
    match drop.purge_history {
        true => answer.with_notice("run history will be deleted within a day"),
        false => answer,
    }
}

pub(super) fn no_job(name: &Spanned<String>) -> String {
    format!("job {} does not exist, skipping", sql::quoted(&name.value))
}
