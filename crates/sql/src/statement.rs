//! The statements.

use std::fmt;
use std::ops::Range;

use domain::access::{Privilege, QueueRight};
use domain::hook::HookScheme;
use domain::id::RunId;
use domain::job::LostAnswer;
use domain::schedule::CatchUpPolicy;

use crate::clause::Clauses;
use crate::literal::Literal;
use crate::syntax::SyntaxError;

mod calendar;
mod dag;
mod queue;
mod session;
mod tag;

pub use calendar::{BlackoutStatement, CalendarStatement, PauseAll};
pub use dag::{
    AlterDag, CreateDag, DagClauses, DagStatement, StepChange, StepClause, StepOf, WorkClause,
};
pub use queue::{QueueStatement, SendStatement};
pub use session::{
    AccessMode, Copy, Discard, SavepointStatement, SavepointVerb, SetStatement, Transaction,
};

/// A statement and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// Its byte range in the text.
    pub place: Range<usize>,
}

/// A value and its position in the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The position, in bytes.
    pub at: usize,
}

/// Prints only the value.
impl<T: fmt::Debug> fmt::Debug for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A query: SELECT, WITH, VALUES, TABLE. The crate `query` parses it.
    Select(Spanned<String>),
    /// A statement with parameters `$1`, `$2`. [`Template::bind`] sets their values.
    Template(Template),
    /// CREATE JOB, CREATE OR ALTER JOB, RECREATE JOB.
    CreateJob(CreateJob),
    /// ALTER JOB.
    AlterJob(AlterJob),
    /// DROP JOB.
    DropJob(DropJob),
    /// PAUSE JOB.
    PauseJob(Spanned<String>),
    /// RESUME JOB.
    ResumeJob(Spanned<String>, Option<CatchUpPolicy>),
    /// EXECUTE JOB.
    ExecuteJob(ExecuteJob),
    /// CANCEL JOB RUN.
    CancelRun(Spanned<RunId>),
    /// RETRY JOB RUN.
    RetryRun(Spanned<RunId>),
    /// DECIDE JOB RUN.
    DecideRun {
        /// The run.
        run: Spanned<RunId>,
        /// Decision about the run.
        answer: LostAnswer,
        /// Reason given by the user.
        reason: Option<String>,
    },
    /// BACKFILL JOB.
    BackfillJob(BackfillJob),
    /// EXPLAIN JOB.
    ExplainJob(ExplainJob),
    /// EXPLAIN RUN.
    ExplainRun(Spanned<RunId>),
    /// `EXPLAIN MESSAGE`.
    ExplainMessage(Spanned<RunId>),
    /// RESTORE JOB: its definition becomes that of an earlier version.
    RestoreJob {
        /// The name of the job.
        job: Spanned<String>,
        /// The number of the version.
        version: Spanned<u32>,
    },
    /// SHOW CREATE JOB.
    ShowCreateJob {
        /// The name of the job.
        job: Spanned<String>,
        /// The number of the version; the present one if absent.
        version: Option<Spanned<u32>>,
    },
    /// SHOW JOB VERSIONS.
    ShowVersions {
        /// The name of the job.
        job: Spanned<String>,
        /// The maximum number of rows.
        limit: Option<u32>,
    },
    /// SHOW JOB DIFF.
    ShowDiff {
        /// The name of the job.
        job: Spanned<String>,
        /// The number of the one version; the one before the other if absent.
        from: Option<Spanned<u32>>,
        /// The number of the other version; the present one if absent.
        to: Option<Spanned<u32>>,
    },
    /// SHOW JOBS.
    ShowJobs {
        /// Only names that match this pattern: `%` is any text, `_` any character.
        like: Option<String>,
    },
    /// SHOW JOB RUNS FOR.
    ShowRuns {
        /// The name of the job.
        job: Spanned<String>,
        /// The maximum number of rows.
        limit: Option<u32>,
    },
    /// CREATE, ALTER and DROP CALENDAR.
    Calendar(CalendarStatement),
    /// SHOW CREATE CALENDAR.
    ShowCreateCalendar(Spanned<String>),
    /// SHOW CALENDARS.
    ShowCalendars,
    /// CREATE and DROP BLACKOUT.
    Blackout(BlackoutStatement),
    /// SHOW BLACKOUTS.
    ShowBlackouts,
    /// PAUSE ALL.
    PauseAll(PauseAll),
    /// RESUME ALL.
    ResumeAll {
        /// Whether the jobs of all tenants are resumed.
        is_cluster: bool,
        /// Catch-up policy for the times of the pause; the policy of each job if absent.
        catch_up: Option<CatchUpPolicy>,
    },
    /// SHOW SHARDS.
    ShowShards,
    /// SHOW POOLS.
    ShowPools,
    /// SHOW HOOKS.
    ShowHooks,
    /// CREATE, ALTER and DROP HOOK.
    Hook(HookStatement),
    /// CREATE, ALTER and DROP POOL.
    Pool(PoolStatement),
    /// CREATE, ALTER and DROP SHARD.
    Shard(ShardStatement),
    /// Statements about DAGs and their runs.
    Dag(Box<DagStatement>),
    /// CREATE, ALTER and DROP QUEUE.
    Queue(QueueStatement),
    /// PAUSE QUEUE.
    PauseQueue(Spanned<String>),
    /// `DRAIN QUEUE`.
    DrainQueue(Spanned<String>),
    /// RESUME QUEUE.
    ResumeQueue(Spanned<String>),
    /// SEND TO a queue.
    Send(SendStatement),
    /// SHOW QUEUES.
    ShowQueues {
        /// Only names that match this pattern: `%` is any text, `_` any character.
        like: Option<String>,
    },
    /// GRANT of a privilege or a role.
    Grant(Grant),
    /// REVOKE of a privilege or a role.
    Revoke(Grant),
    /// CREATE, ALTER and DROP USER.
    User(UserStatement),
    /// CREATE, ALTER and DROP ROLE.
    Role(RoleStatement),
    /// CREATE, ALTER and DROP SECRET.
    Secret(SecretStatement),
    /// SET of a session variable.
    Set(SetStatement),
    /// RESET; everything when no name is given.
    Reset(Option<Spanned<String>>),
    /// SHOW of a setting; of all when no name is given.
    Show(Option<Spanned<String>>),
    /// BEGIN, COMMIT and ROLLBACK.
    Transaction(Transaction),
    /// SAVEPOINT, RELEASE and ROLLBACK TO.
    Savepoint(SavepointStatement),
    /// DISCARD: resets the session.
    Discard(Discard),
    /// LISTEN on a channel.
    Listen(Spanned<String>),
    /// UNLISTEN; everything when no name is given.
    Unlisten(Option<Spanned<String>>),
    /// COPY … TO STDOUT.
    Copy(Copy),
    /// DEALLOCATE; everything when no name is given.
    Deallocate(Option<Spanned<String>>),
    /// CLOSE; everything when no name is given.
    Close(Option<Spanned<String>>),
    /// A statement of SQL that this server does not support.
    Unsupported {
        /// Its first words.
        verb: Spanned<String>,
        /// The statement to use instead.
        hint: &'static str,
    },
}

/// A statement with parameters.
#[derive(Clone, PartialEq)]
pub struct Template {
    /// The text of the statement.
    pub text: String,
    /// Its offset in the complete text.
    pub offset: usize,
    /// The number of parameters.
    pub parameters: usize,
    /// The statement with empty values, to describe its result.
    pub shape: Box<Statement>,
}

/// The text may contain secrets.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.shape).finish()
    }
}

impl Template {
    /// The statement with these values. They are never parsed as SQL.
    pub fn bind(&self, values: &[Literal]) -> Result<Statement, SyntaxError> {
        crate::parse::bound(&self.text, self.offset, values)
    }
}

/// How CREATE JOB treats an existing job of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// The statement fails.
    Refuse,
    /// Does nothing: IF NOT EXISTS.
    Keep,
    /// Changes it: OR ALTER.
    Alter,
    /// Replaces it: RECREATE.
    Replace,
}

/// CREATE JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// How to treat an existing job of that name.
    pub if_present: IfPresent,
    /// Its definition.
    pub clauses: Clauses,
}

/// ALTER JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// Whether a missing job is not an error.
    pub if_exists: bool,
    /// The new name.
    pub rename: Option<Spanned<String>>,
    /// The changes.
    pub clauses: Clauses,
}

/// DROP JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// Whether a missing job is not an error.
    pub if_exists: bool,
    /// Whether the history is deleted with the job: PURGE HISTORY. Otherwise it is kept until its
    /// retention ends, which is also the meaning of KEEP HISTORY.
    pub purge_history: bool,
    /// Whether to remove the dependencies of other jobs on it.
    pub cascade: bool,
    /// Whether its runs that have not ended are cancelled: CANCEL RUNNING.
    pub cancel_running: bool,
}

/// EXECUTE JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// The parameters of the run.
    pub parameters: Vec<(String, Literal)>,
    /// The time of the run; now if absent.
    pub at: Option<Spanned<String>>,
    /// Whether it waits for the jobs that it depends on.
    pub with_dependencies: bool,
}

/// BACKFILL JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// The beginning of the time range.
    pub from: Spanned<String>,
    /// The end of the time range.
    pub until: Spanned<String>,
    /// How many runs may be at work at a time.
    pub concurrency: Option<Spanned<u32>>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// Only list the runs.
    pub dry_run: bool,
    /// The parameters of the runs.
    pub parameters: Vec<(String, Literal)>,
}

/// EXPLAIN JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainJob {
    /// The name of the job.
    pub name: Spanned<String>,
    /// The time to explain; the job as a whole if absent.
    pub at: Option<Spanned<String>>,
}

/// GRANT and REVOKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The granted or revoked privileges and roles.
    pub what: Vec<Grantable>,
    /// The recipients.
    pub whom: Vec<Grantee>,
}

/// A privilege, database or role that can be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantable {
    /// A privilege.
    Privilege(Privilege),
    /// The use of a database, by its name.
    Database(Spanned<String>),
    /// A right to the messages of a queue, by its name.
    Queue(QueueRight, Spanned<String>),
    /// All privileges of a role.
    Role(Spanned<String>),
}

/// The recipient of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grantee {
    /// User or role; if absent, a user if one of that name exists.
    pub kind: Option<GranteeKind>,
    /// The name.
    pub name: Spanned<String>,
}

/// The kind of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GranteeKind {
    /// A user.
    User,
    /// A role.
    Role,
}

/// The operation on a named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// CREATE; fails if the object exists.
    Create,
    /// CREATE IF NOT EXISTS.
    CreateIfAbsent,
    /// CREATE OR ALTER.
    CreateOrAlter,
    /// ALTER; fails if the object does not exist.
    Alter,
    /// DROP; fails if the object does not exist.
    Drop,
    /// DROP IF EXISTS.
    DropIfPresent,
}

/// CREATE, ALTER and DROP USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStatement {
    /// The operation.
    pub verb: Verb,
    /// The name of the user.
    pub name: Spanned<String>,
    /// The new name.
    pub rename: Option<Spanned<String>>,
    /// The new password, or none to remove it.
    pub password: Option<Option<Hidden>>,
    /// Whether the user is disabled.
    pub disabled: Option<bool>,
}

/// CREATE, ALTER and DROP ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleStatement {
    /// The operation.
    pub verb: Verb,
    /// The name of the role.
    pub name: Spanned<String>,
    /// The new name.
    pub rename: Option<Spanned<String>>,
    /// The new description, or none to remove it.
    pub description: Option<Option<String>>,
    /// Whether jobs may use the database role of this name (`RUN AS`).
    pub run_as: Option<bool>,
}

/// CREATE, ALTER and DROP SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written: names of secrets are case-sensitive.
    pub name: Spanned<String>,
    /// The scope of the secret.
    pub scope: SecretScope,
    /// The value; none for DROP.
    pub value: Option<Hidden>,
}

/// CREATE, ALTER and DROP SHARD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written.
    pub name: Spanned<String>,
    /// The database of its statements, or none to use that of the job.
    pub database: Option<Option<String>>,
    /// The only node that may own it, or none for any.
    pub node: Option<Option<String>>,
    /// Labels of the nodes that may own it.
    pub labels: Option<Vec<(String, String)>>,
}

/// CREATE, ALTER and DROP POOL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written.
    pub name: Spanned<String>,
    /// The total weight of the runs that have a place.
    pub size: Option<Spanned<u32>>,
    /// The new description, or none to remove it.
    pub description: Option<Option<String>>,
}

/// CREATE, ALTER and DROP HOOK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookStatement {
    /// The operation.
    pub verb: Verb,
    /// The name as it was written.
    pub name: Spanned<String>,
    /// The name of the job that it triggers.
    pub job: Option<Spanned<String>>,
    /// How deliveries are checked.
    pub scheme: Option<HookScheme>,
    /// Where parameters are in the body of a delivery.
    pub parameters: Option<Vec<(String, String)>>,
    /// How many deliveries it accepts in a second.
    pub rate: Option<u32>,
    /// Whether it refuses every delivery.
    pub disabled: Option<bool>,
    /// The new description, or none to remove it.
    pub description: Option<Option<String>>,
    /// Whether it gets a new secret: ROTATE SECRET.
    pub rotate: bool,
}

/// The scope of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretScope {
    /// Every job of the tenant.
    Tenant,
    /// Every job.
    Cluster,
    /// One job.
    Job(Spanned<String>),
}

/// A value that must not be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}
