//! Questions about tables: the room `query` answers them, on a thread that may block.

use std::sync::Arc;

use query::{Cancel, Engine, Limits, Prepared, QueryError, Rows, State, Value};
use sql::{Copy, Spot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{Answer, Described, Result, Session, SqlError};
use crate::problem::{Code, Problem};
use crate::sys;

/// Ends an answer that nobody waits for any more.
struct Wanted(Cancel);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Session {
    /// The engine of this session. It is made for the first question and kept.
    async fn engine(&mut self) -> Result<Arc<Engine>> {
        if let Some(engine) = &self.engine {
            return Ok(Arc::clone(engine));
        }
        let database = self.database().await?;
        let (backend, limits) = (self.backend, Limits::default());
        let engine = sys::engine(&self.app, &self.actor, &database, backend, limits)?;
        let engine = Arc::new(engine);
        self.engine = Some(Arc::clone(&engine));
        Ok(engine)
    }

    /// The name of the tenant, which is the database that clients are told to be connected to.
    async fn database(&self) -> Result<String> {
        if let Some(name) = &self.database {
            return Ok(name.clone());
        }
        let standing = self.app.scheduler.standing(self.actor.user).await?;
        let tenant = standing.map(|standing| standing.tenant.clone());
        let own = tenant.filter(|tenant| tenant.id == self.actor.tenant);
        Ok(own.map_or_else(|| self.actor.tenant.to_string(), |tenant| tenant.name))
    }

    /// What a question will answer.
    pub(super) async fn describe_question(&mut self, question: &Spot<String>) -> Result<Described> {
        let engine = self.engine().await?;
        let prepared = prepared(engine, question).await?;
        let Prepared { columns, parameters, .. } = prepared;
        Ok(Described { columns, parameters: parameters.len(), parameter_kinds: parameters })
    }

    /// Asks a question, for as long as somebody waits for the answer and it may take.
    pub(super) async fn select(
        &mut self,
        question: &Spot<String>,
        parameters: &[Value],
    ) -> Result<Answer> {
        let engine = self.engine().await?;
        let question_prepared = prepared(Arc::clone(&engine), question).await?;
        let wanted = Wanted(Cancel::default());
        let (cancel, parameters) = (wanted.0.clone(), parameters.to_vec());
        let asked = spawn_blocking(move || engine.run(&question_prepared, &parameters, &cancel));
        let answer = match self.statement_timeout() {
            None => asked.await,
            Some(longest) => match timeout(longest, asked).await {
                Ok(answer) => answer,
                Err(_) => {
                    let text = "canceling statement due to statement timeout";
                    return Err(SqlError::new(Code::RequestTimeout, text));
                }
            },
        };
        let answer = answer.map_err(|_| SqlError::internal())?;
        let Rows { columns, rows } =
            answer.map_err(|error| SqlError::of_question(error, question))?;
        let tag = format!("SELECT {}", rows.len());
        Ok(Answer { columns, rows, ..Answer::done(&tag) })
    }

    /// The same to be written out.
    pub(super) async fn copy(&mut self, copy: &Copy) -> Result<Answer> {
        let answer = self.select(&copy.query, &[]).await?;
        Ok(Answer { tag: format!("COPY {}", answer.rows.len()), ..answer })
    }
}

async fn prepared(engine: Arc<Engine>, question: &Spot<String>) -> Result<Prepared> {
    let text = question.value.clone();
    let prepared = spawn_blocking(move || engine.prepare(&text)).await;
    let prepared = prepared.map_err(|_| SqlError::internal())?;
    prepared.map_err(|error| SqlError::of_question(error, question))
}

impl SqlError {
    /// A mistake in a question, with its place in the whole text.
    fn of_question(error: QueryError, question: &Spot<String>) -> Self {
        let at = error.at.filter(|at| *at <= question.value.len());
        let error = SqlError::from(error);
        SqlError { at: at.map(|at| at + question.at), ..error }
    }
}

impl From<QueryError> for SqlError {
    fn from(error: QueryError) -> Self {
        let code = match error.state {
            State::Syntax => Code::SyntaxError,
            State::NotSupported => Code::NotSupported,
            State::Cancelled => Code::RequestTimeout,
            State::Refused => Code::Forbidden,
            State::Unavailable => Code::SchedulerUnavailable,
            State::Internal => Code::Internal,
            State::NoTable
            | State::NoColumn
            | State::Ambiguous
            | State::NoFunction
            | State::InvalidText
            | State::InvalidValue
            | State::InvalidPattern
            | State::TooMuch
            | State::Mismatch => Code::InvalidRequest,
        };
        let QueryError { state, text, at, hint } = error;
        let problem = Problem::new(code, text);
        SqlError { problem, sqlstate: Some(state.code()), at, hint }
    }
}
