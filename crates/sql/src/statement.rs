//! What a text can ask for.

use std::fmt;
use std::ops::Range;

use domain::access::Privilege;
use domain::id::RunId;
use domain::schedule::CatchUpPolicy;

use crate::clause::Clauses;
use crate::literal::Literal;
use crate::syntax::SyntaxError;

mod tag;

/// A statement and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What it asks for.
    pub statement: Statement,
    /// Its bytes in the text.
    pub place: Range<usize>,
}

/// Something that was written, and the byte at which it stands.
#[derive(Clone, PartialEq, Eq)]
pub struct Spot<T> {
    /// What it is.
    pub value: T,
    /// Where it stands.
    pub at: usize,
}

/// What it is says enough.
impl<T: fmt::Debug> fmt::Debug for Spot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A question about tables: SELECT, WITH, VALUES, TABLE. The room `query` reads it.
    Select(Spot<String>),
    /// A statement with places for values, `$1`, `$2`. [`Template::bind`] makes it whole.
    Template(Template),
    /// CREATE JOB, CREATE OR ALTER JOB, RECREATE JOB.
    CreateJob(CreateJob),
    /// ALTER JOB.
    AlterJob(AlterJob),
    /// DROP JOB.
    DropJob(DropJob),
    /// PAUSE JOB.
    PauseJob(Spot<String>),
    /// RESUME JOB.
    ResumeJob(Spot<String>, Option<CatchUpPolicy>),
    /// EXECUTE JOB.
    ExecuteJob(ExecuteJob),
    /// CANCEL JOB RUN.
    CancelRun(Spot<RunId>),
    /// RETRY JOB RUN.
    RetryRun(Spot<RunId>),
    /// BACKFILL JOB.
    BackfillJob(BackfillJob),
    /// EXPLAIN JOB.
    ExplainJob(ExplainJob),
    /// SHOW CREATE JOB.
    ShowCreateJob(Spot<String>),
    /// SHOW JOBS.
    ShowJobs {
        /// Only names that match: `%` is any text, `_` any letter.
        like: Option<String>,
    },
    /// SHOW JOB RUNS FOR.
    ShowRuns {
        /// The job.
        job: Spot<String>,
        /// How many, at most.
        limit: Option<u32>,
    },
    /// SHOW SHARDS.
    ShowShards,
    /// CREATE, ALTER and DROP SHARD.
    Shard(ShardStatement),
    /// GRANT.
    Grant(Grant),
    /// REVOKE.
    Revoke(Grant),
    /// CREATE, ALTER and DROP USER.
    User(UserStatement),
    /// CREATE, ALTER and DROP ROLE.
    Role(RoleStatement),
    /// CREATE, ALTER and DROP SECRET.
    Secret(SecretStatement),
    /// SET.
    Set(SetStatement),
    /// RESET; everything when no name is given.
    Reset(Option<Spot<String>>),
    /// SHOW of a setting; of all when no name is given.
    Show(Option<Spot<String>>),
    /// BEGIN, COMMIT and ROLLBACK.
    Transaction(Transaction),
    /// DISCARD: forgets what the session has.
    Discard(Discard),
    /// LISTEN.
    Listen(Spot<String>),
    /// UNLISTEN; everything when no name is given.
    Unlisten(Option<Spot<String>>),
    /// COPY … TO STDOUT.
    Copy(Copy),
    /// DEALLOCATE; everything when no name is given.
    Deallocate(Option<Spot<String>>),
    /// CLOSE; everything when no name is given.
    Close(Option<Spot<String>>),
    /// Something that SQL has and this server has not.
    Unsupported {
        /// Its first words.
        verb: Spot<String>,
        /// What would be right.
        hint: &'static str,
    },
}

/// A statement with places for values.
#[derive(Clone, PartialEq)]
pub struct Template {
    /// The text.
    pub text: String,
    /// Where it began in the text that it is a part of.
    pub offset: usize,
    /// How many values it takes.
    pub parameters: usize,
    /// What it is with values that nobody gave, so that it can be described.
    pub shape: Box<Statement>,
}

/// Its text may hold what nobody shall see.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.shape).finish()
    }
}

impl Template {
    /// The statement with these values. They are values whatever they hold: no letter of them is
    /// read as SQL.
    pub fn bind(&self, values: &[Literal]) -> Result<Statement, SyntaxError> {
        crate::parse::bound(&self.text, self.offset, values)
    }
}

/// What becomes of a job of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// It is an error.
    Refuse,
    /// Nothing happens: IF NOT EXISTS.
    Keep,
    /// It is changed: OR ALTER.
    Alter,
    /// It is dropped before: RECREATE.
    Replace,
}

/// CREATE JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateJob {
    /// Its name.
    pub name: Spot<String>,
    /// What becomes of a job of that name.
    pub if_present: IfPresent,
    /// What it is.
    pub clauses: Clauses,
}

/// ALTER JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterJob {
    /// Which one.
    pub name: Spot<String>,
    /// Whether a job that is not there is no error.
    pub if_exists: bool,
    /// Its new name.
    pub rename: Option<Spot<String>>,
    /// What changes.
    pub clauses: Clauses,
}

/// DROP JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropJob {
    /// Which one.
    pub name: Spot<String>,
    /// Whether a job that is not there is no error.
    pub if_exists: bool,
    /// Whether the history is deleted with the job: PURGE HISTORY. Otherwise it is kept until its
    /// retention is over, and KEEP HISTORY says so.
    pub purge_history: bool,
    /// Whether jobs that depend on it do so no more.
    pub cascade: bool,
}

/// EXECUTE JOB.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteJob {
    /// Which one.
    pub name: Spot<String>,
    /// Values for its action.
    pub parameters: Vec<(String, Literal)>,
    /// When; now when absent.
    pub at: Option<Spot<String>>,
    /// Whether it waits for the jobs that it depends on.
    pub with_dependencies: bool,
}

/// BACKFILL JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillJob {
    /// Which one.
    pub name: Spot<String>,
    /// From this time on.
    pub from: Spot<String>,
    /// Up to this time.
    pub until: Spot<String>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// Only say what would run.
    pub dry_run: bool,
}

/// EXPLAIN JOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainJob {
    /// Which one.
    pub name: Spot<String>,
    /// The time in question; now when absent.
    pub at: Option<Spot<String>>,
}

/// What is given or taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What.
    pub what: Vec<Given>,
    /// To or from whom.
    pub whom: Vec<Grantee>,
}

/// Something that can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A privilege.
    Privilege(Privilege),
    /// The use of a database, by its name.
    Database(Spot<String>),
    /// All that a role has.
    Role(Spot<String>),
}

/// Somebody who is given something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grantee {
    /// Whether it is a user or a role; a user if there is one of that name, when absent.
    pub kind: Option<GranteeKind>,
    /// The name.
    pub name: Spot<String>,
}

/// What somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GranteeKind {
    /// A user.
    User,
    /// A role.
    Role,
}

/// What happens to a thing with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// CREATE.
    Create,
    /// CREATE IF NOT EXISTS.
    CreateIfAbsent,
    /// CREATE OR ALTER.
    CreateOrAlter,
    /// ALTER.
    Alter,
    /// DROP.
    Drop,
    /// DROP IF EXISTS.
    DropIfPresent,
}

/// CREATE, ALTER and DROP USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStatement {
    /// What happens.
    pub verb: Verb,
    /// Their name.
    pub name: Spot<String>,
    /// Their new name.
    pub rename: Option<Spot<String>>,
    /// A password, or that they shall have none.
    pub password: Option<Option<Hidden>>,
    /// Whether they can do nothing for now.
    pub disabled: Option<bool>,
}

/// CREATE, ALTER and DROP ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleStatement {
    /// What happens.
    pub verb: Verb,
    /// Its name.
    pub name: Spot<String>,
    /// Its new name.
    pub rename: Option<Spot<String>>,
    /// What it is for, or that nothing shall say so.
    pub description: Option<Option<String>>,
    /// Whether jobs may act as the role of that name on a database.
    pub run_as: Option<bool>,
}

/// CREATE, ALTER and DROP SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretStatement {
    /// What happens.
    pub verb: Verb,
    /// Its name, as it was written: names of secrets have capital letters.
    pub name: Spot<String>,
    /// Who sees it.
    pub scope: SecretScope,
    /// Its value; none when it is dropped.
    pub value: Option<Hidden>,
}

/// CREATE, ALTER and DROP SHARD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatement {
    /// What happens.
    pub verb: Verb,
    /// Its name, as it was written.
    pub name: Spot<String>,
    /// The database of its statements, or that it shall have none of its own.
    pub database: Option<Option<String>>,
    /// The only node that may own it, or that any may.
    pub node: Option<Option<String>>,
    /// Labels of the nodes that may own it.
    pub labels: Option<Vec<(String, String)>>,
}

/// Who sees a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretScope {
    /// Every job of the tenant.
    Tenant,
    /// Every job.
    Cluster,
    /// One job.
    Job(Spot<String>),
}

/// A value that nobody shall see.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatement {
    /// The name of the setting, in small letters.
    pub name: Spot<String>,
    /// Its value; the default when absent.
    pub value: Option<String>,
    /// Whether it holds until the end of the transaction only.
    pub is_local: bool,
}

/// BEGIN, COMMIT and ROLLBACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// SET TRANSACTION: what it says about isolation holds anyway.
    Characteristics,
}

/// What a session forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything.
    All,
    /// Plans.
    Plans,
    /// Sequences, of which there are none.
    Sequences,
    /// Temporary tables, of which there are none.
    Temp,
}

/// COPY … TO STDOUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The question whose answer is written out.
    pub query: Spot<String>,
    /// Whether it is CSV; PostgreSQL's text otherwise.
    pub csv: bool,
    /// Whether the first line names the columns.
    pub header: bool,
    /// What stands between two values.
    pub delimiter: char,
    /// What stands for nothing.
    pub null: String,
}
