//! Runs: started, stopped, started once more.

use domain::id::RunId;
use domain::job::{Job, LostAnswer};
use domain::run::NewRun;
use engine::{Backfill, EngineError, Trigger};
use jiff::Timestamp;
use query::Value;
use serde_json::Map;
use sql::{BackfillJob, ExecuteJob, Literal, Spanned};

use super::answer::{BACKFILLED, RETRIED, STARTED, text};
use super::{Answer, Result, Session, SqlError};
use crate::problem::Code;

/// The answer of a statement that starts a run.
pub(super) fn started(job: &Job, run: RunId, at: Timestamp) -> Answer {
    Answer::rows(STARTED, vec![vec![Value::Uuid(run.0), text(&job.name), Value::Time(at)]])
}

/// The parameters of a statement, as a JSON object.
fn given(parameters: &[(String, Literal)], at: usize) -> Result<Option<String>> {
    let mut values = Map::new();
    for (name, value) in parameters {
        if values.insert(name.clone(), value.json()).is_some() {
            let message = format!("the parameter {name:?} is given twice");
            return Err(SqlError::new(Code::ValidationFailed, message).or_at(at));
        }
    }
    Ok((!values.is_empty()).then(|| serde_json::Value::Object(values).to_string()))
}

impl Session {
    /// Triggers a run, under the id that the client has already if there is one.
    pub(super) async fn execute_job(
        &self,
        execute: &ExecuteJob,
        run: Option<RunId>,
    ) -> Result<Answer> {
        let job = self.job(&execute.name).await?;
        let new = self.trigger(&job, execute, run).await?;
        Ok(started(&job, new.id, new.scheduled_for))
    }

    /// Starts a run of a job or a DAG.
    pub(super) async fn trigger(
        &self,
        job: &Job,
        execute: &ExecuteJob,
        run: Option<RunId>,
    ) -> Result<NewRun> {
        let at = execute.at.as_ref().map(|at| self.time_of(Some(at))).transpose()?;
        let parameters = given(&execute.parameters, execute.name.at)?;
        let trigger = Trigger {
            at,
            parameters,
            with_dependencies: execute.with_dependencies,
            ..Trigger::default()
        };
        let new = self.app.engine.by(&self.actor).trigger(job.id, trigger, run).await;
        new.map_err(|error| SqlError::from(error).or_at(execute.name.at))
    }

    pub(super) async fn cancel_run(&self, run: &Spanned<RunId>) -> Result<Answer> {
        let text = format!("cancelled by {} with CANCEL JOB RUN", self.actor.name);
        let done = self.app.engine.by(&self.actor).cancel(run.value, &text).await;
        done.map_err(|error| SqlError::from(error).or_at(run.at))?;
        Ok(Answer::done("CANCEL JOB RUN"))
    }

    pub(super) async fn decide_run(
        &self,
        run: &Spanned<RunId>,
        answer: LostAnswer,
        reason: Option<&str>,
    ) -> Result<Answer> {
        let by = format!("{} decided it with DECIDE JOB RUN", self.actor.name);
        let text = reason.unwrap_or(&by);
        let done = self.app.engine.by(&self.actor).decide_run(run.value, answer, text).await;
        done.map_err(|error| SqlError::from(error).or_at(run.at))?;
        Ok(Answer::done("DECIDE JOB RUN"))
    }

    pub(super) async fn retry_run(&self, run: &Spanned<RunId>) -> Result<Answer> {
        let new = self.app.engine.by(&self.actor).redrive(run.value).await;
        let new = new.map_err(|error| SqlError::from(error).or_at(run.at))?;
        Ok(Answer::rows(RETRIED, vec![vec![Value::Uuid(new.id.0)]]))
    }

    pub(super) async fn backfill(&self, backfill: &BackfillJob) -> Result<Answer> {
        let job = self.job(&backfill.name).await?;
        let times = self.backfilled(&job, backfill).await?;
        let rows = times.into_iter().map(|at| vec![Value::Time(at)]).collect();
        Ok(Answer::rows(BACKFILLED, rows))
    }

    /// Asks for runs of a job or a DAG for times of the past.
    pub(super) async fn backfilled(
        &self,
        job: &Job,
        backfill: &BackfillJob,
    ) -> Result<Vec<Timestamp>> {
        let from = self.time_of(Some(&backfill.from))?;
        let until = self.time_of(Some(&backfill.until))?;
        if from > until {
            let message = "TO must not be before FROM";
            return Err(SqlError::new(Code::ValidationFailed, message).or_at(backfill.until.at));
        }
        let BackfillJob { newest_first, dry_run, .. } = *backfill;
        let parameters = given(&backfill.parameters, backfill.name.at)?;
        let asked = Backfill {
            from,
            until,
            concurrency: backfill.concurrency.as_ref().map(|it| it.value),
            newest_first,
            dry_run,
            parameters,
            requested_by: None,
        };
        let times = self.app.engine.by(&self.actor).backfill(job.id, asked).await;
        times.map_err(|error| {
            let at = match (&error, &backfill.concurrency) {
                (EngineError::Invalid { field: "concurrency", .. }, Some(given)) => given.at,
                _ => backfill.from.at,
            };
            SqlError::from(error).or_at(at)
        })
    }
}
