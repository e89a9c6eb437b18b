//! The schema `sys`: the state of the scheduler as tables for SELECT.
//!
//! Every row comes through the [`Engine`] in the name of the session's actor. No table reads a
//! store, and no text of a query reaches one; so no user sees with SELECT what they would not see
//! on another interface.

mod acks;
mod artifacts;
mod calendars;
mod cluster;
mod dags;
mod jobs;
mod pages;
mod people;
mod queues;
mod runs;
mod tables;

use std::future::Future;
use std::sync::Arc;

use engine::EngineError;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use query::{Engine, Limits, Pages, QueryError, Scan, Session, Source, State, Table};
use tokio::runtime::Handle;

use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem};

pub(crate) use jobs::state_name;
pub use runs::{attempt_uuid, run_of_attempt};
pub use tables::TABLES;

/// The result of `version()`.
const VERSION: &str = concat!("PostgreSQL 15.0 (Punctual ", env!("CARGO_PKG_VERSION"), ")");

/// The tables as one person sees them.
#[derive(Clone)]
pub(crate) struct Sys {
    app: App,
    actor: Arc<Actor>,
    runtime: Handle,
    session: Session,
}

/// An engine that answers questions in the name of an actor. It must be made inside of a runtime,
/// and asked on a thread that may block.
pub fn engine(
    app: &App,
    actor: &Actor,
    database: &str,
    backend: i32,
    limits: Limits,
) -> Result<Engine, QueryError> {
    let session = Session {
        user: actor.name.clone(),
        database: database.to_owned(),
        backend,
        version: VERSION.to_owned(),
    };
    let source = Sys {
        app: app.clone(),
        actor: Arc::new(actor.clone()),
        runtime: Handle::current(),
        session,
    };
    Engine::in_pool(Arc::new(source), limits, app.queries.account(actor))
}

impl Sys {
    /// Waits for an answer of the scheduler.
    fn ask<T, E: Into<Problem>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, QueryError> {
        self.runtime.block_on(answer).map_err(|error| problem(error.into()))
    }

    /// The same, where what is not there is no error.
    fn ask_for<T>(
        &self,
        answer: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<Option<T>, QueryError> {
        match self.runtime.block_on(answer) {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::NotFound(_)) => Ok(None),
            Err(error) => Err(problem(error.into())),
        }
    }
}

/// A problem of the scheduler as one of a question.
fn problem(problem: Problem) -> QueryError {
    let state = match problem.code {
        Code::Forbidden | Code::Unauthenticated => State::Refused,
        Code::SchedulerUnavailable => State::Unavailable,
        Code::Internal => State::Internal,
        _ => State::NotSupported,
    };
    QueryError::new(state, problem.message)
}

impl Source for Sys {
    fn tables(&self) -> &'static [Table] {
        &TABLES
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
        let pages: Box<dyn Pages> = match scan.table.name {
            "jobs" => jobs::jobs(self, scan)?,
            "job_runs" => runs::job_runs(self, scan)?,
            "job_run_acks" => acks::job_run_acks(self, scan)?,
            "job_dependencies" => jobs::dependencies(self, scan)?,
            "next_runs" => jobs::next_runs(self, scan)?,
            "tick_hours" => jobs::tick_hours(self)?,
            "ledger" => runs::ledger(self, scan)?,
            "dead_letters" => runs::dead_letters(self, scan)?,
            "job_secrets" => people::job_secrets(self)?,
            "users" => people::users(self)?,
            "roles" => people::roles(self)?,
            "grants" => people::grants(self)?,
            "tenants" => people::tenants(self)?,
            "settings" => people::settings(self)?,
            "databases" => people::databases(self)?,
            "nodes" => cluster::nodes(self)?,
            "audit" => cluster::audit(self, scan)?,
            "performance" => cluster::performance(self)?,
            "shards" => cluster::shards(self)?,
            "calendars" => calendars::calendars(self)?,
            "blackouts" => calendars::blackouts(self)?,
            "pauses" => calendars::pauses(self)?,
            "pools" => cluster::pools(self)?,
            "hooks" => cluster::hooks(self)?,
            "dags" => dags::dags(self)?,
            "dag_runs" => dags::dag_runs(self, scan)?,
            "dag_steps" => dags::dag_steps(self, scan)?,
            "artifacts" => artifacts::artifacts(self)?,
            "queues" => queues::queues(self)?,
            "messages" => queues::messages(self)?,
            name => {
                let text = format!("there is no reader for sys.{name}");
                return Err(QueryError::new(State::Internal, text));
            }
        };
        Ok(Box::new(pages::Exact::new(pages, scan)))
    }

    fn now(&self) -> Timestamp {
        self.app.now()
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        self.app.zones.find(name).ok().map(|zone| zone.time_zone().clone())
    }

    fn session(&self) -> Session {
        self.session.clone()
    }
}
