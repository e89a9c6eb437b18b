//! SQL on the interfaces: a session runs statements in the name of an actor.
//!
//! A session calls the [`Engine`] in the actor's name and makes no decisions about privileges. Each
//! statement stands on its own: what it did stays done when the next one fails
//! (docs/decisions/015-sql-statements.md). A block of BEGIN and COMMIT holds one change, or several
//! that create, alter and drop jobs; they happen at COMMIT, wholly or not at all.

mod access;
mod answer;
mod calendars;
mod dags;
mod explain;
mod hooks;
mod jobs;
mod pools;
mod problem;
mod queues;
mod runs;
mod secrets;
mod select;
mod settings;
mod shards;
mod show;
mod stream;
mod together;
mod versions;

use domain::id::RunId;
use engine::{CHANGES_MAX, JobChanges};
use query::{Kind, Prepared, Value};
use sql::{Literal, Parsed, SavepointStatement, SavepointVerb, Statement, Transaction};

use crate::actor::{Actor, denied_event};
use crate::app::App;
use crate::problem::Code;

pub use answer::{Answer, Described};
pub use problem::SqlError;
pub use settings::{SETTINGS, Setting};
pub use stream::RowStream;

use select::Tables;
use settings::Settings;

/// The result of a statement.
pub type Result<T> = std::result::Result<T, SqlError>;

/// The statements of one client, one after the other.
pub struct Session {
    app: App,
    actor: Actor,
    settings: Settings,
    block: Block,
    /// The savepoints of the block, oldest first.
    savepoints: Vec<Savepoint>,
    tables: Tables,
}

/// A place in a block to go back to.
#[derive(Debug)]
struct Savepoint {
    name: String,
    /// The changes that the block had before.
    changes: Changes,
}

/// Where a session is with regard to transactions.
#[derive(Debug, Default)]
enum Block {
    /// Outside of a block: a statement is done when it answers.
    #[default]
    None,
    /// Inside of one, with the changes that COMMIT makes.
    Open(Changes),
    /// Inside of one in which something went wrong, with the changes that came before.
    Failed(Changes),
}

/// Changes that wait for COMMIT.
#[derive(Clone, Debug, Default)]
struct Changes {
    statements: Vec<Pending>,
    /// The jobs as those statements leave them that create, alter and drop them.
    jobs: JobChanges,
}

/// A change that waits for COMMIT.
#[derive(Clone, Debug)]
struct Pending {
    statement: Statement,
    /// The id of its run, which the client has already.
    run: RunId,
}

/// Where a session is with regard to transactions, for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Outside of a block.
    Idle,
    /// Inside of one.
    Open,
    /// Inside of one in which something went wrong: only ROLLBACK and COMMIT are answered.
    Failed,
}

impl Session {
    /// A session of a user.
    pub fn new(app: App, actor: Actor) -> Self {
        Session {
            app,
            actor,
            settings: Settings::default(),
            block: Block::None,
            savepoints: Vec::new(),
            tables: Tables::default(),
        }
    }

    /// The actor of the session.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The same session for what its owner may do now.
    pub fn set_actor(&mut self, actor: Actor) {
        self.actor = actor;
    }

    /// Where it is with regard to transactions.
    pub fn block(&self) -> BlockState {
        match self.block {
            Block::None => BlockState::Idle,
            Block::Open(_) => BlockState::Open,
            Block::Failed(_) => BlockState::Failed,
        }
    }

    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name)
    }

    /// Sets a setting from the startup packet of a client.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, Some(value), false, &self.app.zones)
    }

    /// The statements of a text.
    pub fn parse(&self, text: &str) -> Result<Vec<Parsed>> {
        Ok(sql::parse(text)?)
    }

    /// Fails an open block after a syntax error.
    pub fn fail(&mut self) {
        if let Block::Open(pending) = &mut self.block {
            self.block = Block::Failed(std::mem::take(pending));
        }
    }

    /// The columns of a statement's answer, and the types of its parameters.
    pub async fn describe(&self, statement: &Statement) -> Result<Described> {
        Ok(match statement {
            Statement::Select(question) => {
                let Prepared { columns, parameters, .. } = self.prepare(question).await?;
                Described { columns, parameters }
            }
            Statement::Template(template) => Described {
                columns: answer::columns(&template.shape),
                parameters: vec![Kind::Text; template.parameters],
            },
            Statement::Copy(copy) => {
                let columns = self.prepare(&copy.query).await?.columns;
                Described { columns, parameters: Vec::new() }
            }
            statement => Described { columns: answer::columns(statement), parameters: Vec::new() },
        })
    }

    /// Runs a statement with values for its `$1`, `$2`. A lack of privileges is answered, and the audit
    /// too.
    pub async fn run(&mut self, statement: &Statement, parameters: &[Value]) -> Result<Answer> {
        let result = self.perform(statement, parameters).await;
        if let Err(error) = &result
            && error.problem.code == Code::Forbidden
        {
            let tag = statement.tag();
            let details = serde_json::json!({ "request": tag, "problem": error.problem.message });
            let event = denied_event(&self.actor, details.to_string());
            self.app.engine.node().record(event).await?;
        }
        result
    }

    /// The same where the interface writes the audit row.
    pub(crate) async fn perform(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<Answer> {
        let result = self.in_block(statement, parameters).await;
        if result.is_err() {
            self.fail();
        }
        result
    }

    async fn in_block(&mut self, statement: &Statement, parameters: &[Value]) -> Result<Answer> {
        if let Statement::Transaction(transaction) = statement {
            return self.transaction(*transaction).await;
        }
        if let Statement::Savepoint(savepoint) = statement {
            return self.savepoint(savepoint);
        }
        if matches!(self.block, Block::Failed(_)) {
            return Err(SqlError::in_failed_block());
        }
        let bound;
        let statement = match statement {
            Statement::Template(template) => {
                let values: Vec<Literal> = parameters.iter().map(answer::literal).collect();
                bound = template.bind(&values)?;
                &bound
            }
            statement => statement,
        };
        if statement.changes() && self.is_read_only() {
            return Err(SqlError::in_read_only(statement.tag()));
        }
        match &self.block {
            Block::Open(changes) if statement.changes() => {
                let changes = changes.clone();
                let (changes, answer) = self.add_change(changes, statement).await?;
                self.block = Block::Open(changes);
                Ok(answer)
            }
            _ => self.execute(statement, parameters, None).await,
        }
    }

    /// Adds a change to those of a block, and answers what a client would see.
    async fn add_change(
        &self,
        mut changes: Changes,
        statement: &Statement,
    ) -> Result<(Changes, Answer)> {
        let is_of_job = together::is_of_job(statement);
        let others = changes.statements.iter().map(|pending| &pending.statement);
        if !changes.statements.is_empty()
            && (!is_of_job || !others.clone().all(together::is_of_job))
        {
            return Err(SqlError::second_change());
        }
        if changes.statements.len() >= CHANGES_MAX {
            return Err(SqlError::too_many_changes(CHANGES_MAX));
        }
        let run = RunId::of_request(self.app.now(), (self.app.random)());
        let answer = match is_of_job {
            true => self.change_job(&mut changes.jobs, statement).await?,
            false => self.check(statement, run).await?,
        };
        changes.statements.push(Pending { statement: statement.clone(), run });
        Ok((changes, answer))
    }

    /// SAVEPOINT, RELEASE and ROLLBACK TO, which goes on in a block that has failed, too.
    fn savepoint(&mut self, statement: &SavepointStatement) -> Result<Answer> {
        let SavepointStatement { verb, name } = statement;
        let tag = Statement::Savepoint(statement.clone()).tag();
        let changes = match (&self.block, verb) {
            (Block::None, _) => return Err(SqlError::needs_block(tag).or_at(name.at)),
            (Block::Failed(_), SavepointVerb::Set | SavepointVerb::Release) => {
                return Err(SqlError::in_failed_block());
            }
            (Block::Open(changes) | Block::Failed(changes), _) => changes,
        };
        if *verb == SavepointVerb::Set {
            let (name, changes) = (name.value.clone(), changes.clone());
            self.savepoints.push(Savepoint { name, changes });
            return Ok(Answer::done(tag));
        }
        let found = self.savepoints.iter().rposition(|savepoint| savepoint.name == name.value);
        let Some(found) = found else {
            return Err(SqlError::no_savepoint(&name.value).or_at(name.at));
        };
        if *verb == SavepointVerb::Release {
            self.savepoints.truncate(found);
            return Ok(Answer::done(tag));
        }
        self.block = Block::Open(self.savepoints[found].changes.clone());
        self.savepoints.truncate(found + 1);
        Ok(Answer::done(tag))
    }

    async fn transaction(&mut self, transaction: Transaction) -> Result<Answer> {
        let block = std::mem::take(&mut self.block);
        if matches!(transaction, Transaction::Commit | Transaction::Rollback) {
            self.savepoints.clear();
        }
        match (transaction, block) {
            (Transaction::Characteristics(_), Block::None) => {
                let notice = "SET TRANSACTION can only be used in transaction blocks";
                Ok(Answer::done("SET").with_notice(notice))
            }
            (Transaction::Characteristics(mode), block) => {
                self.block = block;
                self.set_access(mode)?;
                Ok(Answer::done("SET"))
            }
            (Transaction::Begin(mode), Block::None) => {
                self.set_access(mode)?;
                self.block = Block::Open(Changes::default());
                Ok(Answer::done("BEGIN"))
            }
            (Transaction::Begin(_), Block::Failed(pending)) => {
                self.block = Block::Failed(pending);
                Err(SqlError::in_failed_block())
            }
            (Transaction::Begin(_), block) => {
                self.block = block;
                Ok(Answer::done("BEGIN").with_notice("there is already a transaction in progress"))
            }
            (Transaction::Commit | Transaction::Rollback, Block::None) => {
                let tag = Statement::Transaction(transaction).tag();
                Ok(Answer::done(tag).with_notice("there is no transaction in progress"))
            }
            (Transaction::Commit, Block::Open(pending)) => {
                self.settings.end_block();
                let done = match pending.statements.as_slice() {
                    [] => return Ok(Answer::done("COMMIT")),
                    [Pending { statement, run }] => {
                        let done = self.execute(statement, &[], Some(*run)).await;
                        let is_checked = is_checked(statement);
                        done.map_err(|error| if is_checked { error.if_gone() } else { error })
                    }
                    _ => self.change_together(&pending.jobs).await.map_err(SqlError::if_gone),
                };
                // Its place is in a text that was sent before.
                let done = done.map_err(|error| SqlError { at: None, ..error })?;
                Ok(Answer { notices: done.notices, ..Answer::done("COMMIT") })
            }
            (Transaction::Commit | Transaction::Rollback, _) => {
                self.settings.end_block();
                Ok(Answer::done("ROLLBACK"))
            }
        }
    }

    /// Checks that a change could be made now, and answers what a client would see.
    async fn check(&self, statement: &Statement, run: RunId) -> Result<Answer> {
        match statement {
            Statement::ExecuteJob(execute) => {
                let job = self.job(&execute.name).await?;
                return Ok(runs::started(&job, run, self.time_of(execute.at.as_ref())?));
            }
            Statement::BackfillJob(backfill) => {
                let dry = sql::BackfillJob { dry_run: true, ..backfill.clone() };
                return self.backfill(&dry).await;
            }
            Statement::Dag(dag) => return self.check_dag(dag, run).await,
            Statement::PauseQueue(name)
            | Statement::ResumeQueue(name)
            | Statement::DrainQueue(name) => {
                self.queue_named(name).await?;
            }
            Statement::Send(send) => {
                self.queue_named(&send.queue).await?;
            }
            Statement::PauseJob(name)
            | Statement::ResumeJob(name, _)
            | Statement::RestoreJob { job: name, .. } => {
                self.job(name).await?;
            }
            _ => {}
        }
        Ok(Answer::done(statement.tag()))
    }

    async fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        run: Option<RunId>,
    ) -> Result<Answer> {
        match statement {
            Statement::Select(question) => self.select(question, parameters).await,
            Statement::Copy(copy) => self.copy(copy).await,
            Statement::Template(_) | Statement::Transaction(_) | Statement::Savepoint(_) => {
                Err(SqlError::internal())
            }
            Statement::CreateJob(create) => self.create_job(create).await,
            Statement::AlterJob(alter) => self.alter_job(alter).await,
            Statement::DropJob(drop) => self.drop_job(drop).await,
            Statement::PauseJob(name) => self.pause_job(name).await,
            Statement::ResumeJob(name, catch_up) => self.resume_job(name, *catch_up).await,
            Statement::ExecuteJob(execute) => self.execute_job(execute, run).await,
            Statement::CancelRun(run) => self.cancel_run(run).await,
            Statement::RetryRun(run) => self.retry_run(run).await,
            Statement::BackfillJob(backfill) => self.backfill(backfill).await,
            Statement::DecideRun { run, answer, reason } => {
                self.decide_run(run, *answer, reason.as_deref()).await
            }
            Statement::ExplainJob(explain) => self.explain_job(explain).await,
            Statement::ExplainRun(run) => self.explain_run(run).await,
            Statement::ExplainMessage(message) => self.explain_message(message).await,
            Statement::RestoreJob { job, version } => self.restore_job(job, version).await,
            Statement::ShowCreateJob { job, version } => {
                self.show_create_job(job, version.as_ref()).await
            }
            Statement::ShowVersions { job, limit } => self.show_versions(job, *limit).await,
            Statement::ShowDiff { job, from, to } => {
                self.show_diff(job, from.as_ref(), to.as_ref()).await
            }
            Statement::ShowJobs { like } => self.show_jobs(like.as_deref()).await,
            Statement::ShowRuns { job, limit } => self.show_runs(job, *limit).await,
            Statement::Grant(grant) => self.grant(grant, true).await,
            Statement::Revoke(grant) => self.grant(grant, false).await,
            Statement::User(user) => self.user(user).await,
            Statement::Role(role) => self.role(role).await,
            Statement::Secret(secret) => self.secret(secret).await,
            Statement::Shard(shard) => self.shard(shard).await,
            Statement::Pool(pool) => self.pool(pool).await,
            Statement::Hook(hook) => self.hook(hook).await,
            Statement::Dag(dag) => Box::pin(self.dag(dag, run)).await,
            Statement::Queue(queue) => self.queue(queue).await,
            Statement::PauseQueue(name) => self.pause_queue(name, true).await,
            Statement::DrainQueue(name) => self.drain_queue(name).await,
            Statement::ResumeQueue(name) => self.pause_queue(name, false).await,
            Statement::Send(send) => self.send(send).await,
            Statement::ShowQueues { like } => self.show_queues(like.as_deref()).await,
            Statement::ShowShards => self.show_shards().await,
            Statement::Calendar(calendar) => self.calendar(calendar).await,
            Statement::ShowCalendars => self.show_calendars().await,
            Statement::ShowCreateCalendar(name) => self.show_create_calendar(name).await,
            Statement::Blackout(blackout) => self.blackout(blackout).await,
            Statement::ShowBlackouts => self.show_blackouts().await,
            Statement::PauseAll(pause) => self.pause_all(pause).await,
            Statement::ResumeAll { is_cluster, catch_up } => {
                self.resume_all(*is_cluster, *catch_up).await
            }
            Statement::ShowPools => self.show_pools().await,
            Statement::ShowHooks => self.show_hooks().await,
            Statement::Set(set) => {
                let is_local = set.is_local || settings::is_of_block(&set.name.value);
                if is_local && matches!(self.block, Block::None) {
                    let notice = "SET LOCAL can only be used in transaction blocks";
                    return Ok(Answer::done("SET").with_notice(notice));
                }
                let (name, value) = (&set.name, set.value.as_deref());
                let done = self.settings.set(&name.value, value, is_local, &self.app.zones);
                done.map_err(|error| error.or_at(name.at))?;
                Ok(Answer::done("SET"))
            }
            Statement::Reset(name) => {
                match name {
                    None => self.settings.reset(),
                    Some(name) => {
                        let done = self.settings.set(&name.value, None, false, &self.app.zones);
                        done.map_err(|error| error.or_at(name.at))?;
                    }
                }
                Ok(Answer::done("RESET"))
            }
            Statement::Show(name) => self.show_setting(name.as_ref()),
            Statement::Discard(what) => {
                if *what == sql::Discard::All {
                    if !matches!(self.block, Block::None) {
                        return Err(SqlError::not_in_block("DISCARD ALL"));
                    }
                    self.settings.reset();
                }
                Ok(Answer::done(statement.tag()))
            }
            // The wire listens, prepares and closes; here there is nothing to do.
            Statement::Listen(_)
            | Statement::Unlisten(_)
            | Statement::Deallocate(_)
            | Statement::Close(_) => Ok(Answer::done(statement.tag())),
            Statement::Unsupported { verb, hint } => Err(SqlError::unsupported(verb, hint)),
        }
    }

    /// The same to be written out.
    async fn copy(&self, copy: &sql::Copy) -> Result<Answer> {
        let answer = self.select(&copy.query, &[]).await?;
        let tag = answer.tag.replace("SELECT", "COPY");
        Ok(Answer { tag, ..answer })
    }
}

/// Whether the job or queue of a change was found before COMMIT: if it is missing then, another
/// client removed it.
fn is_checked(statement: &Statement) -> bool {
    together::is_of_job(statement)
        || matches!(
            statement,
            Statement::ExecuteJob(_)
                | Statement::BackfillJob(_)
                | Statement::PauseJob(_)
                | Statement::ResumeJob(..)
                | Statement::PauseQueue(_)
                | Statement::ResumeQueue(_)
                | Statement::Send(_)
        )
}
