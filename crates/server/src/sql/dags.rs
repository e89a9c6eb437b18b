//! DAGs and their runs.

use domain::dag::{DagError, check};
use domain::id::RunId;
use domain::job::{Job, JobState};
use engine::{Deletion, EngineError, JobChanges, JobFilter, NewJob, StepMark};
use query::{Row, Value};
use sql::{AlterDag, CreateDag, DagStatement, Defined, DropJob, IfPresent, Spanned, StepOf};

use super::answer::{
    DAG_BACKFILLED, DAG_EXPLAINED, DAG_PRINTED, DAG_STARTED, DAGS, RERUN, or_null, text,
};
use super::jobs::{dropped, redefine};
use super::show::{PAGE, ROWS_MAX, is_like, schedule};
use super::{Answer, Result, Session, SqlError};
use crate::problem::{Code, Problem};
use crate::rest::find;
use crate::rest::shape::job_view::next_run;
use crate::sys::state_name;

impl Session {
    /// The DAG of a name or an id.
    async fn dag_named(&self, name: &Spanned<String>) -> Result<Job> {
        let found = find::dag(&self.app, &self.actor, &name.value).await;
        found.map_err(|problem| SqlError::from(problem).or_at(name.at))
    }

    /// The DAG, or none if it does not exist and need not.
    async fn dag_if(&self, name: &Spanned<String>, if_exists: bool) -> Result<Option<Job>> {
        match self.app.engine.by(&self.actor).dag(&name.value).await {
            Ok(dag) => Ok(Some(dag)),
            Err(EngineError::NotFound(_)) if if_exists => Ok(None),
            Err(error) => Err(SqlError::from(error).or_at(name.at)),
        }
    }

    /// Checks that a change could be made now, and answers what a client would see.
    pub(super) async fn check_dag(&self, asked: &DagStatement, run: RunId) -> Result<Answer> {
        match asked {
            DagStatement::Create(create) => {
                self.new_dag(create, None).await?;
            }
            DagStatement::Alter(alter) => {
                if let Some(dag) = self.dag_if(&alter.name, alter.if_exists).await? {
                    self.altered(alter, &dag).await?;
                }
            }
            DagStatement::Pause(name) | DagStatement::Resume(name, _) => {
                self.dag_named(name).await?;
            }
            DagStatement::Drop(drop) => {
                self.dag_if(&drop.name, drop.if_exists).await?;
            }
            DagStatement::Execute(execute) => {
                let dag = self.dag_named(&execute.name).await?;
                return Ok(started(&dag, run, self.time_of(execute.at.as_ref())?));
            }
            DagStatement::Backfill(backfill) => {
                let dry = sql::BackfillJob { dry_run: true, ..backfill.clone() };
                return self.backfill_dag(&dry).await;
            }
            DagStatement::Rerun { run, rerun, .. } => {
                return self.rerun(run, rerun, true).await;
            }
            _ => {}
        }
        Ok(Answer::done(sql::Statement::Dag(Box::new(asked.clone())).tag()))
    }

    pub(super) async fn dag(&self, asked: &DagStatement, run: Option<RunId>) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let done = Answer::done(sql::Statement::Dag(Box::new(asked.clone())).tag());
        match asked {
            DagStatement::Create(create) => self.create_dag(create, done).await,
            DagStatement::Alter(alter) => self.alter_dag(alter, done).await,
            DagStatement::Drop(drop) => self.drop_dag(drop, done).await,
            DagStatement::Pause(name) => {
                let dag = self.dag_named(name).await?;
                let paused = engine.pause_job(dag.id).await;
                paused.map_err(|error| SqlError::from(error).or_at(name.at))?;
                Ok(done)
            }
            DagStatement::Resume(name, catch_up) => {
                let dag = self.dag_named(name).await?;
                let resumed = engine.resume_job(dag.id, *catch_up).await;
                resumed.map_err(|error| SqlError::from(error).or_at(name.at))?;
                Ok(done)
            }
            DagStatement::Execute(execute) => {
                let dag = self.dag_named(&execute.name).await?;
                let new = self.trigger(&dag, execute, run).await?;
                Ok(started(&dag, new.id, new.scheduled_for))
            }
            DagStatement::Backfill(backfill) => self.backfill_dag(backfill).await,
            DagStatement::CancelRun(run) => {
                let placed = |error| SqlError::from(error).or_at(run.at);
                engine.dag_run(run.value).await.map_err(placed)?;
                let text = format!("cancelled by {} with CANCEL DAG RUN", self.actor.name);
                engine.cancel(run.value, &text).await.map_err(placed)?;
                Ok(done)
            }
            DagStatement::ResumeRun(run) => {
                let resumed = engine.resume_dag_run(run.value).await;
                resumed.map_err(|error| SqlError::from(error).or_at(run.at))?;
                Ok(done)
            }
            DagStatement::Rerun { run, rerun, dry_run } => self.rerun(run, rerun, *dry_run).await,
            DagStatement::Mark { step, is_skipped, note } => {
                let mark = if *is_skipped { StepMark::Skipped } else { StepMark::Succeeded };
                let StepOf { step: name, item, run } = step;
                let marked = engine.mark_step(run.value, &name.value, *item, mark, note).await;
                marked.map_err(|error| of_step(error, step))?;
                Ok(done)
            }
            DagStatement::Decide { step, answer, note } => {
                let (run, name) = (step.run.value, &step.step.value);
                let decided = engine.decide_approval(run, name, *answer, note).await;
                decided.map_err(|error| of_step(error, step))?;
                Ok(done)
            }
            DagStatement::ExplainRun { run, at } => {
                let at = at.as_ref().map(|at| self.time_of(Some(at))).transpose()?;
                let lines = engine.explain_dag_run(run.value, at).await;
                let lines = lines.map_err(|error| SqlError::from(error).or_at(run.at))?;
                Ok(Answer::rows(DAG_EXPLAINED, lines.iter().map(|line| vec![text(line)]).collect()))
            }
            DagStatement::ExplainStep { step, at } => {
                let at = at.as_ref().map(|at| self.time_of(Some(at))).transpose()?;
                let (run, name) = (step.run.value, &step.step.value);
                let explained = engine.explain_step(run, name, step.item, at).await;
                let lines = explained.map_err(|error| of_step(error, step))?.lines;
                Ok(Answer::rows(DAG_EXPLAINED, lines.iter().map(|line| vec![text(line)]).collect()))
            }
            DagStatement::ShowCreate { dag: name, version } => {
                let mut dag = self.dag_named(name).await?;
                if let Some(version) = version {
                    dag = self.job_at(&dag, version).await?;
                }
                let printed = self.printed(&dag).await?;
                Ok(Answer::rows(DAG_PRINTED, vec![vec![text(&dag.name), text(printed)]]))
            }
            DagStatement::Show { like } => self.show_dags(like.as_deref()).await,
        }
    }

    /// The DAG that the clauses of a statement define; an error points at its step.
    async fn new_dag(&self, create: &CreateDag, replaced: Option<&Job>) -> Result<Defined> {
        let (clauses, among) = (&create.clauses, JobChanges::default());
        let mut defaults = self.app.engine.by(&self.actor).job_defaults().await?;
        if let Some(dag) = replaced {
            defaults = defaults.for_replaced(&dag.definition);
        }
        let define = |context: &sql::Context<'_>| {
            let mut defined = clauses.define(None, context)?;
            defaults.fill(&mut defined.definition, true);
            Ok(defined)
        };
        let defined = self.define_with(&clauses.job, &among, define).await?;
        checked(&defined, create.name.at, |error| clauses.place_of(error))?;
        Ok(defined)
    }

    async fn altered(&self, alter: &AlterDag, dag: &Job) -> Result<Defined> {
        let among = JobChanges::default();
        let define = |context: &sql::Context<'_>| alter.define(&dag.definition, context);
        let defined = self.define_with(&alter.clauses.job, &among, define).await?;
        checked(&defined, alter.name.at, |error| alter.place_of(error))?;
        Ok(defined)
    }

    async fn create_dag(&self, create: &CreateDag, done: Answer) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let at = create.name.at;
        let placed = |problem| SqlError::of_clauses(problem, &create.clauses.job, at);
        let present = match create.if_present {
            IfPresent::Refuse => None,
            _ => self.dag_if(&create.name, true).await?,
        };
        if let (Some(dag), IfPresent::Keep) = (&present, create.if_present) {
            let name = sql::quoted(&dag.name);
            return Ok(done.with_notice(format!("DAG {name} already exists, skipping")));
        }
        let Defined { definition, state } = self.new_dag(create, present.as_ref()).await?;
        let job = match present {
            Some(dag) => {
                let change = redefine(definition, state);
                let edit = move |job: &mut Job| {
                    change(job);
                    Ok::<(), Problem>(())
                };
                engine.alter_job(dag.id, edit).await.map_err(placed)?
            }
            None => {
                let new = NewJob {
                    tenant: self.actor.tenant,
                    owner: self.actor.user,
                    name: create.name.value.clone(),
                    definition,
                    state: state.unwrap_or(JobState::Enabled),
                };
                let made = engine.create_jobs(vec![new]).await;
                let made = made.map_err(|error| placed(error.into()))?.pop();
                made.ok_or_else(SqlError::internal)?.map_err(|error| placed(error.into()))?
            }
        };
        Ok(self.told(done, &job).await)
    }

    async fn alter_dag(&self, alter: &AlterDag, done: Answer) -> Result<Answer> {
        let Some(dag) = self.dag_if(&alter.name, alter.if_exists).await? else {
            return Ok(done.with_notice(no_dag(&alter.name)));
        };
        let version = dag.version;
        let Defined { definition, state } = self.altered(alter, &dag).await?;
        let rename = alter.rename.as_ref().map(|name| name.value.clone());
        let edit = move |job: &mut Job| {
            if job.version != version {
                let (expected, current) = (version, job.version);
                return Err(EngineError::VersionConflict { expected, current }.into());
            }
            redefine(definition, state)(job);
            if let Some(name) = rename {
                job.name = name;
            }
            Ok::<(), Problem>(())
        };
        let altered = self.app.engine.by(&self.actor).alter_job(dag.id, edit).await;
        let at = alter.rename.as_ref().map_or(alter.name.at, |name| name.at);
        let placed = |problem| SqlError::of_clauses(problem, &alter.clauses.job, at);
        Ok(self.told(done, &altered.map_err(placed)?).await)
    }

    async fn drop_dag(&self, drop: &DropJob, done: Answer) -> Result<Answer> {
        let Some(dag) = self.dag_if(&drop.name, drop.if_exists).await? else {
            return Ok(done.with_notice(no_dag(&drop.name)));
        };
        let deletion = Deletion {
            cascade: drop.cascade,
            purge_history: drop.purge_history,
            cancel_running: drop.cancel_running,
            expected: None,
        };
        let deleted = self.app.engine.by(&self.actor).delete_job(dag.id, deletion).await;
        let unscheduled = deleted.map_err(|error| {
            let is_needed = matches!(error, EngineError::WrongState(_));
            let error = SqlError::from(error).or_at(drop.name.at);
            match is_needed {
                true => {
                    error.with_state("2BP01").with_hint("DROP DAG … CASCADE removes it anyway.")
                }
                false => error,
            }
        })?;
        Ok(dropped(done, drop, &unscheduled))
    }

    async fn backfill_dag(&self, backfill: &sql::BackfillJob) -> Result<Answer> {
        let dag = self.dag_named(&backfill.name).await?;
        let times = self.backfilled(&dag, backfill).await?;
        let rows = times.into_iter().map(|at| vec![Value::Time(at)]).collect();
        Ok(Answer::rows(DAG_BACKFILLED, rows))
    }

    async fn rerun(
        &self,
        run: &Spanned<RunId>,
        rerun: &domain::dag::rerun::Rerun,
        dry_run: bool,
    ) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let report = engine.rerun_dag(run.value, rerun.clone(), dry_run).await;
        let report = report.map_err(|error| SqlError::from(error).or_at(run.at))?;
        let new = report.run.map(|new| new.id);
        let row = |name: &str, action: &str, outcome: Option<&str>| -> Row {
            let id = or_null(new, |id: RunId| Value::Uuid(id.0));
            vec![id, text(name), text(action), or_null(outcome, text)]
        };
        let again = report.again.iter().map(|name| row(name, "RUN", None));
        let adopted = report.adopted.iter().map(|(name, end)| row(name, "ADOPT", Some(end.name())));
        let removed = report.removed.iter().map(|name| row(name, "REMOVE", None));
        Ok(Answer::rows(RERUN, again.chain(adopted).chain(removed).collect()))
    }

    async fn show_dags(&self, like: Option<&str>) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let filter = JobFilter::of_tenant(self.actor.tenant);
        let (mut after, mut rows) = (None::<String>, Vec::new());
        loop {
            let page = engine.list_dags(&filter, after.as_deref(), PAGE).await?;
            let mut dags = page.items;
            dags.retain(|dag| like.is_none_or(|pattern| is_like(&dag.name, pattern)));
            let ids: Vec<_> = dags.iter().map(|dag| dag.id).collect();
            let last = engine.last_runs(&ids).await?;
            for dag in &dags {
                let last = last.iter().find(|last| last.job == dag.id);
                let steps = dag.definition.dag.as_ref().map_or(0, |dag| dag.steps.len());
                rows.push(vec![
                    text(&dag.name),
                    text(state_name(dag.state)),
                    text(schedule(&dag.definition.when)),
                    Value::Int(steps as i64),
                    or_null(next_run(dag, &self.app), Value::Time),
                    or_null(last.map(|last| last.scheduled_for), Value::Time),
                    or_null(last.map(|last| last.outcome.name()), text),
                    or_null(dag.definition.description.as_ref(), text),
                ]);
            }
            after = page.next;
            if after.is_none() || rows.len() >= ROWS_MAX {
                break;
            }
        }
        let is_cut = after.is_some() || rows.len() > ROWS_MAX;
        rows.truncate(ROWS_MAX);
        let answer = Answer::rows(DAGS, rows);
        Ok(match is_cut {
            true => answer.with_notice(format!("only the first {ROWS_MAX} DAGs are shown")),
            false => answer,
        })
    }
}

fn started(dag: &Job, run: RunId, at: jiff::Timestamp) -> Answer {
    Answer::rows(DAG_STARTED, vec![vec![Value::Uuid(run.0), text(&dag.name), Value::Time(at)]])
}

fn no_dag(name: &Spanned<String>) -> String {
    format!("DAG {} does not exist, skipping", sql::quoted(&name.value))
}

/// An error of a run points at the run, one of the step at the step.
fn of_step(error: EngineError, step: &StepOf) -> SqlError {
    let error = SqlError::from(error);
    let at = if error.problem.code == Code::ExecutionNotFound { step.run.at } else { step.step.at };
    error.or_at(at)
}

/// Whether the graph of a definition is sound.
fn checked(
    defined: &Defined,
    otherwise: usize,
    place: impl Fn(&DagError) -> Option<usize>,
) -> Result<()> {
    let Some(dag) = defined.definition.dag.as_deref() else { return Ok(()) };
    check(dag).map(drop).map_err(|error| {
        let code = match error {
            DagError::Cycle(_) => Code::DependencyCycle,
            _ => Code::ValidationFailed,
        };
        let at = place(&error).unwrap_or(otherwise);
        SqlError::new(code, error.to_string()).or_at(at)
    })
}
