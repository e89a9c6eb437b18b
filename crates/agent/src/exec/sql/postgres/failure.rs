//! PostgreSQL's errors in the words of an attempt.

use domain::run::ErrorCode;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition, Severity};

use super::super::script::Statement;
use crate::exec::Failure;
use postgres_connect::words;

/// Describes the server's error about a statement of a script.
pub(super) fn describe(error: &Error, of: Option<(&str, &Statement)>) -> Failure {
    let Some(db) = error.as_db_error() else {
        return match is_lost(error) {
            true => Failure::other(
                "CONNECTION_LOST",
                format!(
                    "the connection to the database was lost, and the server rolls the work back: \
                     {}",
                    words(error)
                ),
            ),
            false => Failure::other("DATABASE_ERROR", words(error)),
        };
    };
    let code = db.code().code();
    if let Some((name, problem)) = of.and_then(|(_, statement)| bad_parameter(db, statement)) {
        return Failure::other("BAD_PARAMETER", format!("the parameter {name:?}: {problem}"));
    }
    let mut message = named(db.message(), of);
    match (db.position(), of) {
        (Some(ErrorPosition::Original(position)), Some((script, statement))) => {
            if let Some((line, column)) = statement.place(script, *position) {
                message += &format!(" (line {line}, column {column})");
            }
        }
        (Some(ErrorPosition::Internal { query, .. }), _) => {
            let query: String = query.chars().take(200).collect();
            message += &format!(" (in {query:?})");
        }
        _ => {}
    }
    for (label, part) in [("detail", db.detail()), ("hint", db.hint()), ("where", db.where_())] {
        if let Some(part) = part {
            message += &format!("\n{label}: {}", named(part, of));
        }
    }
    let name = of.and_then(|(_, statement)| statement.parameters.first());
    match (code, name) {
        ("25001", _) => message += "\nhint: make it the only statement of a job",
        ("2D000", _) => {
            message +=
                "\nhint: a procedure that ends transactions can be called by a PROCEDURE job";
        }
        ("42P08" | "42P18", Some(name)) => {
            message += &format!("\nhint: write its type after it, as in :{name}::int");
        }
        _ => {}
    }
    Failure { code: ErrorCode::SqlState(code.to_owned()), message }
}

/// The parameter that an error is about: the server names the one that it could not read.
fn bad_parameter(db: &DbError, statement: &Statement) -> Option<(String, String)> {
    let context = db.where_()?;
    let (_, after) = context.split_once("portal parameter $")?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let number: usize = after[..digits].parse().ok()?;
    let name = statement.parameters.get(number.checked_sub(1)?)?;
    Some((name.clone(), db.message().to_owned()))
}

/// A text of the server with the names of parameters in place of their numbers.
fn named(text: &str, of: Option<(&str, &Statement)>) -> String {
    let mut text = text.to_owned();
    if let Some((_, statement)) = of {
        // From the last, so that $1 does not take the beginning of $10.
        for (at, name) in statement.parameters.iter().enumerate().rev() {
            text = text.replace(&format!("${}", at + 1), &format!(":{name}"));
        }
    }
    text
}

/// Whether an error means that there is no connection any more.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(db) => matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        None => {
            let is_io = std::error::Error::source(error)
                .is_some_and(|source| source.downcast_ref::<std::io::Error>().is_some());
            error.is_closed() || is_io
        }
    }
}

/// The failure when it is unknown whether the work was committed.
pub(super) fn commit_unknown(error: &Error) -> Failure {
    Failure::other(
        "COMMIT_UNKNOWN",
        format!(
            "the connection was lost during COMMIT, so it is unknown whether it took effect: {}",
            words(error)
        ),
    )
}

/// A call outside of a transaction: commits of the procedure stay.
pub(super) fn of_procedure(failure: Failure) -> Failure {
    match &failure.code {
        ErrorCode::Other(name) if name == "CONNECTION_LOST" => Failure::other(
            "COMMIT_UNKNOWN",
            "the connection was lost while the procedure ran: what it has committed stays, the \
             rest is rolled back; how far it came is unknown",
        ),
        _ => failure,
    }
}

/// A role that the database does not let us take on.
pub(super) fn of_role(error: &Error, role: &str) -> Failure {
    match error.as_db_error() {
        Some(db) if db.code().code() == "42501" => Failure {
            code: ErrorCode::SqlState("42501".into()),
            message: format!(
                "the job runs as {role:?}, but the database user of this configuration is not a \
                 member of that role; nothing was executed"
            ),
        },
        Some(db) if db.code().code() == "22023" => Failure::other(
            "UNKNOWN_ROLE",
            format!(
                "the job runs as {role:?}, but the database has no such role; nothing was executed"
            ),
        ),
        _ => describe(error, None),
    }
}

/// A connection that did not come about.
pub(super) fn connecting(error: &Error) -> Failure {
    match error.as_db_error() {
        Some(db) => Failure {
            code: ErrorCode::SqlState(db.code().code().to_owned()),
            message: format!("the database refused the connection: {}", db.message()),
        },
        None => Failure::other(
            "CONNECTION_FAILED",
            format!("the database cannot be reached: {}", words(error)),
        ),
    }
}
