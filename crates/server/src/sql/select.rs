//! Questions about tables: the crate `query` answers them, on a thread that may wait, in the name of
//! the actor.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use query::{Cancel, Column, Engine, Prepared, QueryError, State, Value};
use sql::Spanned;
use tokio::sync::oneshot;

use super::stream::{Batches, EndedWith, RowStream, within};
use super::{Answer, Result, Session, SqlError};
use crate::actor::Actor;
use crate::problem::Code;
use crate::queries::Admitted;
use crate::sys;

/// How long a statement may take where nothing else says.
const TIME_MAX: Duration = Duration::from_secs(30);

/// An engine, and the actor for which it answers.
type Kept = (Actor, Engine);

/// The engine of a session. A statement takes it, and gives it back when it has ended; a second
/// statement of the session meanwhile, of another portal, makes one of its own.
pub(super) struct Tables {
    idle: Arc<Mutex<Option<Kept>>>,
    /// Values of `current_database()` and `pg_backend_pid()`.
    database: String,
    backend: i32,
    time_max: Duration,
}

impl Default for Tables {
    fn default() -> Self {
        let (idle, database) = (Arc::default(), String::new());
        Tables { idle, database, backend: 0, time_max: TIME_MAX }
    }
}

impl Tables {
    /// An engine for an actor; a new one when their rights have changed.
    fn take(&self, app: &crate::App, actor: &Actor) -> std::result::Result<Engine, QueryError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        match idle.filter(|(whose, _)| whose == actor) {
            Some((_, engine)) => Ok(engine),
            None => {
                let limits = app.queries.statement(self.time_max);
                sys::engine(app, actor, &self.database, self.backend, limits)
            }
        }
    }
}

/// Resources of a query: an engine, and a slot among the statements.
struct StatementEngine {
    engine: Engine,
    release: Box<dyn FnOnce(Engine) + Send>,
    admitted: Admitted,
}

impl Session {
    /// The same session where clients of PostgreSQL ask: in a database of this name, as a process
    /// of this number, and with so much time for a question.
    pub fn at(mut self, database: &str, backend: i32, time_max: Duration) -> Self {
        let database = database.to_owned();
        self.tables = Tables { database, backend, time_max, ..Tables::default() };
        self
    }

    /// Lets a statement in, and finds it an engine.
    fn desk(&self) -> Result<StatementEngine> {
        let admitted = self.app.queries.admit(&self.actor)?;
        let engine = self.tables.take(&self.app, &self.actor)?;
        let (idle, actor) = (Arc::clone(&self.tables.idle), self.actor.clone());
        let release = Box::new(move |engine| {
            *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some((actor, engine));
        });
        Ok(StatementEngine { engine, release, admitted })
    }

    /// Reads a question.
    pub(super) async fn prepare(&self, question: &Spanned<String>) -> Result<Prepared> {
        let text = question.value.clone();
        let StatementEngine { engine, release, admitted } = self.desk()?;
        let work = move || {
            let prepared = engine.prepare(&text);
            release(engine);
            drop(admitted);
            prepared
        };
        let thread = self.app.queries.spawn(work).ok_or_else(SqlError::internal)?;
        let prepared = thread.await.map_err(|_| SqlError::internal())?;
        prepared.map_err(|error| within(error.into(), place_of(question)))
    }

    /// Asks a question about tables. The answer has the first rows; the others come as they are
    /// read.
    pub(super) async fn select(
        &self,
        question: &Spanned<String>,
        parameters: &[Value],
    ) -> Result<Answer> {
        let (text, parameters) = (question.value.clone(), parameters.to_vec());
        let StatementEngine { engine, release, admitted } = self.desk()?;
        let limits = self.app.queries.statement(self.tables.time_max);
        let patience = self.app.queries.limits.read_timeout;
        let (mut batches, receive) = Batches::new(limits.rows, patience);
        let (told, columns) = oneshot::channel::<Vec<Column>>();
        let cancel = Cancel::within(self.statement_timeout());
        let mut stream = RowStream {
            batches: receive,
            is_over: false,
            patience,
            place: place_of(question),
            _end: EndedWith(cancel.clone()),
        };
        let work = move || {
            let answer = || {
                let prepared = engine.prepare(&text)?;
                let _ = told.send(prepared.columns.clone());
                engine.each(&prepared, &parameters, &cancel, &mut batches)
            };
            let outcome = answer();
            // The engine is released before the end is reported: the next statement finds it.
            release(engine);
            batches.finish(outcome, || drop(admitted));
        };
        self.app.queries.spawn(work).ok_or_else(SqlError::internal)?;
        let rows = stream.next().await?.unwrap_or_default();
        let columns = columns.await.map_err(|_| SqlError::internal())?;
        let (tag, rest) = match stream.is_over {
            true => (format!("SELECT {}", rows.len()), None),
            false => ("SELECT".to_owned(), Some(stream)),
        };
        Ok(Answer { columns, rows, rest, ..Answer::done(&tag) })
    }
}

fn place_of(question: &Spanned<String>) -> (usize, usize) {
    (question.at, question.value.len())
}

impl From<QueryError> for SqlError {
    fn from(error: QueryError) -> Self {
        let QueryError { state, text, at, hint } = error;
        let code = match state {
            State::Refused => Code::Forbidden,
            State::Unavailable => Code::SchedulerUnavailable,
            State::Internal => Code::Internal,
            State::Cancelled => Code::RequestTimeout,
            State::OutOfMemory => Code::RateLimited,
            State::Syntax => Code::SyntaxError,
            State::NotSupported => Code::NotSupported,
            _ => Code::ValidationFailed,
        };
        SqlError { at, hint, ..SqlError::new(code, text).with_state(state.code()) }
    }
}
