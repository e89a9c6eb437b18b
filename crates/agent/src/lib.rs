//! Carries out attempts: what a run does when its time has come.
//!
//! An [`Agent`] is given an [`Assignment`] and a [`Stop`], and answers with an [`AttemptResult`].
//! It knows nothing of stores, schedules or retries, because it may run far from all of them. What
//! it does is dangerous by nature, so every executor begins with what it may not do.

pub mod context;
mod exec;
pub mod output;
mod secrets;
mod stop;

use std::sync::Arc;

use domain::action::{Action, Assignment};
use domain::run::AttemptResult;

pub use exec::sql::{Database, DatabaseError, Databases, PostgresDatabase, SqliteDatabase};
use output::Output;
pub use secrets::{SecretError, Secrets, StaticSecrets};
pub use stop::Stop;

/// What an agent may do and use, as the administrator decided.
pub struct Options {
    /// Where the values of `${secrets.NAME}` come from.
    pub secrets: Arc<dyn Secrets>,
    /// Where SQL and PROCEDURE actions may work.
    pub databases: Databases,
}

/// Carries out attempts.
pub struct Agent {
    secrets: Arc<dyn Secrets>,
    databases: Databases,
}

/// One attempt while it is carried out: what every executor works with.
pub(crate) struct Attempt<'a> {
    /// What to do.
    pub assignment: &'a Assignment,
    /// Where its output goes.
    pub output: Output,
    /// Where the values of `${secrets.NAME}` come from.
    pub secrets: &'a dyn Secrets,
    /// Tells when it must end.
    pub stop: Stop,
}

impl Agent {
    /// An agent with these options.
    pub fn new(options: Options) -> Self {
        Agent { secrets: options.secrets, databases: options.databases }
    }

    /// Carries out an attempt. Everything that goes wrong is part of the answer.
    pub async fn execute(
        &self,
        assignment: &Assignment,
        output: Output,
        stop: Stop,
    ) -> AttemptResult {
        let attempt = Attempt { assignment, output, secrets: self.secrets.as_ref(), stop };
        match &assignment.action {
            Action::Noop => AttemptResult::completed(),
            Action::Sql(action) => exec::sql::script(attempt, action, &self.databases).await,
            Action::Procedure(action) => {
                exec::sql::procedure(attempt, action, &self.databases).await
            }
            Action::Http(_) | Action::External(_) => exec::unknown(&attempt),
        }
    }
}
