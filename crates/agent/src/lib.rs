//! Executes attempts.
//!
//! An [`Agent`] is given an [`Assignment`] and a [`Stop`], and returns an [`AttemptResult`]. It
//! knows nothing of stores, schedules or retries, because it may run on another machine than these.
//! Actions are dangerous by nature, so every executor begins with its restrictions.

pub mod artifact;
pub mod backup;
pub mod context;
pub mod descriptors;
mod exec;
pub mod guard;
pub mod output;
pub mod sandbox;
mod secrets;
mod stop;

use std::sync::Arc;

use artifact::ArtifactOptions;
use backup::{Backups, NoBackups};
use domain::action::{Action, Assignment};
use domain::id::TenantId;
use domain::job::Definition;
use domain::run::{AttemptResult, ErrorCode};

pub use exec::external::{ExternalOptions, ExternalProblem, Network};
pub use exec::http::HttpOptions;
pub use exec::sql::{
    Database, DatabaseError, DatabaseSource, Databases, PostgresDatabase, SqliteDatabase,
};
use output::{Masked, Output};
use secrets::Remembering;
pub use secrets::{SecretError, Secrets, StaticSecrets};
pub use stop::Stop;
use tracing::Instrument;

/// The options of an agent, as the administrator configured them.
pub struct Options {
    /// Where the values of `${secrets.NAME}` come from.
    pub secrets: Arc<dyn Secrets>,
    /// Options of HTTP jobs.
    pub http: HttpOptions,
    /// Which commands of this machine may be started, and how.
    pub external: ExternalOptions,
    /// Where SQL and PROCEDURE actions may work.
    pub databases: Databases,
    /// Whether and how artifacts are run. Their sandbox is that of commands.
    pub artifacts: ArtifactOptions,
    /// Makes backups of the server.
    pub backups: Arc<dyn Backups>,
}

impl Default for Options {
    /// No secrets, and only actions that are safe for every tenant.
    fn default() -> Self {
        Options {
            secrets: Arc::new(StaticSecrets::default()),
            http: HttpOptions::default(),
            external: ExternalOptions::default(),
            databases: Databases::default(),
            artifacts: ArtifactOptions::default(),
            backups: Arc::new(NoBackups("this agent is not part of a server")),
        }
    }
}

/// Carries out attempts.
pub struct Agent {
    secrets: Arc<dyn Secrets>,
    http: exec::http::Http,
    external: ExternalOptions,
    launcher: exec::external::Launcher,
    artifacts: exec::artifact::ArtifactRunner,
    databases: Databases,
    backups: Arc<dyn Backups>,
}

/// One attempt under way: the input of every executor.
pub(crate) struct Attempt<'a> {
    /// The action and the run it belongs to.
    pub assignment: &'a Assignment,
    /// Where its output goes.
    pub output: Masked,
    /// Where the values of `${secrets.NAME}` come from.
    pub secrets: &'a dyn Secrets,
    /// Signal to stop.
    pub stop: Stop,
}

impl Agent {
    /// An agent with these options.
    pub fn new(options: Options) -> Self {
        if options.external.enabled || options.artifacts.enabled {
            options.external.sweep();
        }
        let artifacts = exec::artifact::ArtifactRunner::new(options.artifacts, &options.external);
        Agent {
            artifacts,
            secrets: options.secrets,
            http: exec::http::Http::new(options.http),
            external: options.external,
            launcher: exec::external::Launcher::default(),
            databases: options.databases,
            backups: options.backups,
        }
    }

    /// Makes the first command start as fast as the others, and logs what its sandbox will lack.
    pub async fn prepare(self: Arc<Self>) {
        if self.external.enabled {
            exec::external::warm_up(&self.external, &self.launcher).await;
        }
        exec::artifact::warm_up(&self.artifacts).await;
    }

    /// Tests whether a tenant's database answers, and returns its description, or the error.
    pub async fn try_database(&self, tenant: TenantId, name: &str) -> Result<String, String> {
        self.databases.hello(tenant, name, self.secrets.as_ref()).await
    }

    /// Whether this agent knows a tenant's database, or the default one when the name is absent. It
    /// is not connected to. A database is not called unknown when it cannot be looked up now.
    pub async fn known_database(&self, tenant: TenantId, name: Option<&str>) -> Result<(), String> {
        match self.databases.find(tenant, name).await {
            Err(failure) if failure.code.to_string() == exec::sql::UNKNOWN_DATABASE => {
                Err(format!("{}: {}", failure.code, failure.message))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Why this agent's policy refuses an action, judged by the definition alone; none when it
    /// permits it. A run of an action that is refused fails without a retry.
    pub fn objection(&self, tenant: TenantId, definition: &Definition) -> Option<String> {
        let permitted = match &definition.action {
            Action::Http(action) => self.http.permitted(tenant, action),
            Action::External(action) => exec::external::permitted(&self.external, action).map(drop),
            Action::Artifact(action) => self.artifacts.permitted(action).map(drop),
            Action::Sql(action) => exec::sql::permitted(action, definition.run_as.as_deref()),
            Action::Noop | Action::Backup(_) | Action::Procedure(_) | Action::Queue(_) => Ok(()),
        };
        let failure = permitted.err().filter(|failure| failure.code.is_refusal())?;
        Some(format!("{}: {}", failure.code, failure.message))
    }

    /// Executes an attempt. Every error is part of the result, and every log line meanwhile carries
    /// the run and the attempt.
    pub async fn execute(
        &self,
        assignment: &Assignment,
        output: Output,
        stop: Stop,
    ) -> AttemptResult {
        let span = tracing::info_span!(
            "attempt",
            run = %assignment.run,
            attempt = assignment.attempt,
            job = assignment.job_name,
        );
        let output = Masked::new(output);
        let secrets = Remembering::new(self.secrets.as_ref(), output.clone());
        let attempt = Attempt { assignment, output: output.clone(), secrets: &secrets, stop };
        output.result(self.carry_out(attempt).instrument(span).await)
    }

    /// The same with an output that is kept, and is whole when the answer comes.
    pub async fn perform(
        &self,
        assignment: &Assignment,
        output: Output,
        stop: Stop,
    ) -> AttemptResult {
        let mut result = self.execute(assignment, output.clone(), stop).await;
        match output.finish().await {
            Ok(output) => result.output = output,
            Err(problem) => {
                let attempt = assignment.attempt;
                tracing::warn!(run = %assignment.run, attempt, problem, "some output was not kept");
            }
        }
        result
    }

    async fn carry_out(&self, attempt: Attempt<'_>) -> AttemptResult {
        let assignment = attempt.assignment;
        tracing::debug!(deadline = %assignment.deadline, "an attempt begins");
        match &assignment.action {
            Action::Noop => AttemptResult::completed(),
            // The engine sends messages itself: no agent has the store.
            Action::Queue(_) => {
                let code = ErrorCode::Refused("NOT_SUPPORTED".to_owned());
                AttemptResult::failed(code, "an agent cannot send messages to queues")
            }
            Action::Backup(action) => {
                exec::backup::run(self.backups.as_ref(), action, attempt).await
            }
            Action::Http(action) => self.http.execute(action, attempt).await,
            Action::External(action) => {
                exec::external::run(&self.external, &self.launcher, action, attempt).await
            }
            Action::Artifact(action) => self.artifacts.run(action, attempt).await,
            Action::Sql(action) => exec::sql::script(attempt, action, &self.databases).await,
            Action::Procedure(action) => {
                exec::sql::procedure(attempt, action, &self.databases).await
            }
        }
    }
}
