//! EXPLAIN JOB, EXPLAIN RUN and EXPLAIN MESSAGE, as rows.

use domain::decide::explain::Report;
use domain::id::RunId;
use engine::EngineError;
use query::{Row, Value};
use sql::{ExplainJob, Spanned};

use super::answer::{EXPLAINED, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::rest::find;

impl Session {
    pub(super) async fn explain_job(&self, explain: &ExplainJob) -> Result<Answer> {
        let at = explain.at.as_ref().map(|at| at.value.as_str());
        let engine = self.app.engine.by(&self.actor);
        let zone = self.zone();
        let explained = engine.explain(&explain.name.value, at, Some(&zone)).await;
        let explained = match explained {
            Err(EngineError::NotFound(_)) => {
                let problem = find::no_job(&self.app, &self.actor, &explain.name.value).await?;
                return Err(SqlError::from(problem).or_at(explain.name.at));
            }
            explained => explained.map_err(|error| SqlError::from(error).or_at(explain.name.at))?,
        };
        let explained = explained.map_err(|error| match &explain.at {
            Some(at) => SqlError::from(error).or_at(at.at),
            None => SqlError::from(error),
        })?;
        Ok(Answer::rows(EXPLAINED, rows(&explained.report)))
    }

    pub(super) async fn explain_run(&self, run: &Spanned<RunId>) -> Result<Answer> {
        let explained = self.app.engine.by(&self.actor).explain_run(run.value).await;
        let explained = explained.map_err(|error| SqlError::from(error).or_at(run.at))?;
        Ok(Answer::rows(EXPLAINED, rows(&explained.report)))
    }

    pub(super) async fn explain_message(&self, message: &Spanned<RunId>) -> Result<Answer> {
        let explained = self.app.engine.by(&self.actor).explain_message(message.value).await;
        let (_, explained) = explained.map_err(|error| SqlError::from(error).or_at(message.at))?;
        Ok(Answer::rows(EXPLAINED, rows(&explained.report)))
    }
}

fn rows(report: &Report) -> Vec<Row> {
    let row = |line: &domain::decide::explain::Line| {
        vec![
            text(line.aspect.name()),
            or_null(line.at, Value::Time),
            text(&line.text),
            or_null(line.status, |status| text(status.name())),
            or_null(line.code.as_deref(), text),
            or_null(line.run, |run| Value::Uuid(run.0)),
        ]
    };
    report.lines.iter().map(row).collect()
}
