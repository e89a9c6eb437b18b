//! Questions about tables: the room `query` answers them, on a thread that may wait, in the name of
//! whoever asks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use query::{Cancel, Engine, Limits, Prepared, QueryError, State, Value};
use sql::Spot;

use super::{Answer, Result, Session, SqlError};
use crate::actor::Actor;
use crate::problem::Code;
use crate::sys;

/// The engine of a session, which knows for whom it answers.
#[derive(Default)]
pub(super) struct Tables {
    engine: Mutex<Option<(Actor, Arc<Engine>)>>,
    /// What `current_database()` and `pg_backend_pid()` answer.
    pub(super) database: String,
    pub(super) backend: i32,
    pub(super) limits: Limits,
}

impl Tables {
    /// The engine for an actor; a new one when their rights have changed.
    fn engine(
        &self,
        app: &crate::App,
        actor: &Actor,
    ) -> std::result::Result<Arc<Engine>, QueryError> {
        let mut kept = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((whose, engine)) = kept.as_ref()
            && whose == actor
        {
            return Ok(Arc::clone(engine));
        }
        let made = sys::engine(app, actor, &self.database, self.backend, self.limits)?;
        let made = Arc::new(made);
        *kept = Some((actor.clone(), Arc::clone(&made)));
        Ok(made)
    }
}

/// Ends what is being answered when nobody waits for it any more.
struct EndedWith(Cancel);

impl Drop for EndedWith {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Session {
    /// The same session where clients of PostgreSQL ask: in a database of this name, as a process
    /// of this number, and with so much time for a question.
    pub fn at(mut self, database: &str, backend: i32, time: Duration) -> Self {
        let limits = Limits { time, ..Limits::default() };
        self.tables =
            Tables { database: database.to_owned(), backend, limits, ..Tables::default() };
        self
    }

    /// Reads a question.
    pub(super) async fn prepare(&self, question: &Spot<String>) -> Result<Prepared> {
        let text = question.value.clone();
        let read = self.on_a_thread(move |engine, _| engine.prepare(&text)).await;
        read.map_err(|error| within(error, question))
    }

    /// Asks a question about tables.
    pub(super) async fn select(
        &self,
        question: &Spot<String>,
        parameters: &[Value],
    ) -> Result<Answer> {
        let (text, parameters) = (question.value.clone(), parameters.to_vec());
        let ask = move |engine: &Engine, cancel: &Cancel| {
            let prepared = engine.prepare(&text)?;
            engine.run(&prepared, &parameters, cancel)
        };
        let asked = self.on_a_thread(ask);
        let answer = match self.statement_timeout() {
            None => asked.await,
            Some(longest) => tokio::time::timeout(longest, asked).await.unwrap_or_else(|_| {
                let text = "canceling statement due to statement timeout";
                Err(SqlError::new(Code::RequestTimeout, text))
            }),
        };
        let query::Rows { columns, rows } = answer.map_err(|error| within(error, question))?;
        let tag = format!("SELECT {}", rows.len());
        Ok(Answer { columns, rows, ..Answer::done(&tag) })
    }

    async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine, &Cancel) -> std::result::Result<T, QueryError> + Send + 'static,
    ) -> Result<T> {
        let engine = self.tables.engine(&self.app, &self.actor)?;
        let cancel = Cancel::default();
        let _end = EndedWith(cancel.clone());
        match tokio::task::spawn_blocking(move || work(&engine, &cancel)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(SqlError::internal()),
        }
    }
}

/// A mistake in a question, with its place in the whole text.
fn within(error: SqlError, question: &Spot<String>) -> SqlError {
    let at = error.at.filter(|at| *at <= question.value.len());
    SqlError { at: at.map(|at| at + question.at), ..error }
}

impl From<QueryError> for SqlError {
    fn from(error: QueryError) -> Self {
        let QueryError { state, text, at, hint } = error;
        let code = match state {
            State::Refused => Code::Forbidden,
            State::Unavailable => Code::SchedulerUnavailable,
            State::Internal => Code::Internal,
            State::Cancelled => Code::RequestTimeout,
            State::Syntax => Code::SyntaxError,
            State::NotSupported => Code::NotSupported,
            _ => Code::ValidationFailed,
        };
        SqlError { at, hint, ..SqlError::new(code, text).with_state(state.code()) }
    }
}
