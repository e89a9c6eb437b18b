//! Why a statement did not run: a problem of every interface, and where in the text it is.

use domain::schedule::AtError;
use engine::EngineError;
use sql::{Clauses, Refused, RefusedKind, Spanned, SyntaxError};
use vault::VaultError;

use crate::problem::{Code, Problem};

/// Why a statement did not run.
#[derive(Debug)]
pub struct SqlError {
    /// The error.
    pub problem: Box<Problem>,
    /// Another SQLSTATE than the problem's.
    pub sqlstate: Option<&'static str>,
    /// The byte of the text at which it is.
    pub at: Option<usize>,
    /// The next step for the author.
    pub hint: Option<String>,
}

impl SqlError {
    /// A problem of a kind.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Problem::new(code, message).into()
    }

    /// The SQLSTATE.
    pub fn sqlstate(&self) -> &'static str {
        self.sqlstate.unwrap_or_else(|| self.problem.code.sqlstate())
    }

    /// The same with a place, if it has none yet.
    pub(super) fn or_at(mut self, at: usize) -> Self {
        self.at.get_or_insert(at);
        self
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        SqlError { hint: Some(hint.into()), ..self }
    }

    pub(super) fn with_state(self, sqlstate: &'static str) -> Self {
        SqlError { sqlstate: Some(sqlstate), ..self }
    }

    /// Points at the clause that a problem is about.
    pub(super) fn of_clauses(problem: Problem, clauses: &Clauses, otherwise: usize) -> Self {
        let side = problem.details.first().and_then(|detail| {
            let field = detail.field.split('[').next().unwrap_or_default();
            let known = SIDES.iter().find(|(known, _)| *known == field);
            let payload = field.starts_with("payload").then_some("action");
            known.map(|(_, side)| *side).or(payload).or(Some(field))
        });
        let at = side.and_then(|side| clauses.place_of(side)).unwrap_or(otherwise);
        SqlError::from(problem).or_at(at)
    }

    pub(super) fn in_failed_block() -> Self {
        let text =
            "current transaction is aborted, commands ignored until end of transaction block";
        SqlError::new(Code::WrongState, text).with_state("25P02").with_hint("ROLLBACK ends it.")
    }

    pub(super) fn in_read_only(tag: &str) -> Self {
        let text = format!("cannot execute {tag} in a read-only transaction");
        let hint = "Begin a block with READ WRITE, or SET default_transaction_read_only = off.";
        SqlError::new(Code::WrongState, text).with_state("25006").with_hint(hint)
    }

    /// Another client removed what a block is about between the statement and COMMIT.
    pub(super) fn if_gone(self) -> Self {
        match self.sqlstate() {
            "42704" => SqlError {
                problem: Box::new(Problem { code: Code::VersionConflict, ..*self.problem }),
                ..self
            }
            .with_hint("Another client removed it meanwhile; begin the transaction anew."),
            _ => self,
        }
    }

    pub(super) fn second_change() -> Self {
        let text = "a transaction block holds one change, or several of CREATE, ALTER and DROP JOB";
        let hint = "COMMIT before it, or work without a block: in autocommit, each statement \
                    stands on its own.";
        SqlError::new(Code::NotSupported, text).with_hint(hint)
    }

    pub(super) fn too_many_changes(max: usize) -> Self {
        let text = format!("transaction limit reached ({max} changes)");
        SqlError::new(Code::NotSupported, text)
            .with_state("54000")
            .with_hint("COMMIT, and begin another block.")
    }

    pub(super) fn doubled_name(name: &str) -> Self {
        let text = format!("the name \"{name}\" passes from one job to another in one transaction");
        SqlError::new(Code::NotSupported, text)
            .with_hint("RECREATE JOB replaces a job; otherwise COMMIT in between.")
    }

    pub(super) fn no_job_any_more(name: &str) -> Self {
        Problem::no_job(format_args!("{name:?}")).into()
    }

    pub(super) fn needs_block(what: &str) -> Self {
        let text = format!("{what} can only be used in transaction blocks");
        SqlError::new(Code::WrongState, text)
            .with_state("25P01")
            .with_hint("Write BEGIN before it.")
    }

    pub(super) fn no_savepoint(name: &str) -> Self {
        let text = format!("savepoint \"{name}\" does not exist");
        SqlError::new(Code::WrongState, text).with_state("3B001")
    }

    pub(super) fn not_in_block(what: &str) -> Self {
        let text = format!("{what} cannot run inside a transaction block");
        SqlError::new(Code::WrongState, text).with_state("25001")
    }

    pub(super) fn unsupported(verb: &Spanned<String>, hint: &str) -> Self {
        let text = format!("{} is not supported here", verb.value);
        SqlError::new(Code::NotSupported, text).with_hint(hint).or_at(verb.at)
    }

    pub(super) fn internal() -> Self {
        SqlError::new(Code::Internal, "the statement came to the wrong place")
    }
}

/// Fields that a problem names otherwise than a clause does.
const SIDES: [(&str, &str); 7] = [
    ("cron_expression", "schedule"),
    ("interval_seconds", "schedule"),
    ("run_at", "schedule"),
    ("timeout_seconds", "timeout"),
    ("retry_config.backoff_seconds", "backoff"),
    ("retry_config.max_attempts", "max_attempts"),
    ("retry_config.backoff_multiplier", "backoff_multiplier"),
];

impl From<Problem> for SqlError {
    fn from(problem: Problem) -> Self {
        let hint = problem.hint.map(str::to_owned);
        SqlError { problem: Box::new(problem), sqlstate: None, at: None, hint }
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl From<VaultError> for SqlError {
    fn from(error: VaultError) -> Self {
        Problem::from(error).into()
    }
}

impl From<SyntaxError> for SqlError {
    fn from(error: SyntaxError) -> Self {
        let SyntaxError { message, at, hint } = error;
        SqlError { hint, ..SqlError::new(Code::SyntaxError, message).or_at(at) }
    }
}

impl From<Refused> for SqlError {
    fn from(refused: Refused) -> Self {
        let code = match refused.kind {
            RefusedKind::NotSupported => Code::NotSupported,
            RefusedKind::Cron => Code::InvalidCron,
            RefusedKind::Timezone => Code::InvalidTimezone,
            RefusedKind::Schedule => Code::InvalidSchedule,
            RefusedKind::NoJob => Code::JobNotFound,
            RefusedKind::Value => Code::ValidationFailed,
        };
        let Refused { message, at, hint, .. } = refused;
        SqlError { hint, ..SqlError::new(code, message).or_at(at) }
    }
}

impl From<AtError> for SqlError {
    fn from(error: AtError) -> Self {
        SqlError::new(Code::InvalidSchedule, error.to_string()).with_state("22007")
    }
}
