//! Errors and notices, in the fields of the protocol.

use pgwire::error::ErrorInfo;
use pgwire::messages::PgWireBackendMessage;

use super::frame::{Flaw, Lost};
use crate::problem::{Code, Problem};
use crate::sql::SqlError;

/// Wrong password or key.
pub(crate) const WRONG_PASSWORD: &str = "28P01";
/// The login is not permitted.
pub(crate) const NO_ENTRY: &str = "28000";
/// Protocol violation: the message is invalid, or not allowed at this point.
pub(crate) const PROTOCOL: &str = "08P01";
/// Too many clients.
pub(crate) const TOO_MANY: &str = "53300";
/// Class of the codes for insufficient resources.
pub(crate) const CLASS_TOO_MUCH_AT_ONCE: &str = "53";
/// A limit of the server is exceeded.
pub(crate) const TOO_MUCH: &str = "54000";
/// The server stops, or the session's key does.
pub(crate) const SHUTDOWN: &str = "57P01";
/// A statement was cancelled, or took too long.
pub(crate) const CANCELLED: &str = "57014";
/// There is no such prepared statement.
pub(crate) const NO_STATEMENT: &str = "26000";
/// There is no such portal.
pub(crate) const NO_PORTAL: &str = "34000";
/// A value cannot be read.
pub(crate) const BAD_VALUE: &str = "22P02";
/// Bytes of a value cannot be read.
pub(crate) const BAD_BYTES: &str = "22P03";
/// A text is not UTF-8.
pub(crate) const BAD_LETTERS: &str = "22021";
/// The feature is not supported.
pub(crate) const NOT_DONE: &str = "0A000";

/// An error or a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The SQLSTATE.
    pub(crate) sqlstate: &'static str,
    /// The primary message.
    pub(crate) message: String,
    /// Additional details of the error.
    pub(crate) detail: Option<String>,
    /// The next step for the client.
    pub(crate) hint: Option<String>,
    /// The character of the statement that it is about, from 1.
    pub(crate) position: Option<usize>,
}

impl Report {
    /// A problem of this kind.
    pub(crate) fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Report { sqlstate, message, detail: None, hint: None, position: None }
    }

    /// The same with what would be right.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Report { hint: Some(hint.into()), ..self }
    }

    /// Why a text of a client cannot be read.
    pub(crate) fn syntax(error: sql::SyntaxError, text: &str) -> Self {
        Report::of(error.into(), text)
    }

    /// The problem of a statement of a text that a client sent.
    pub(crate) fn of(error: SqlError, text: &str) -> Self {
        let SqlError { problem, sqlstate, at, hint } = error;
        let position = at.map(|at| letter_at(text, at));
        let sqlstate = sqlstate.unwrap_or(problem.code.sqlstate());
        Report { position, hint, ..Report::from(*problem).with_sqlstate(sqlstate) }
    }

    fn with_sqlstate(self, sqlstate: &'static str) -> Self {
        Report { sqlstate, ..self }
    }

    /// An `ErrorResponse` that ends the statement.
    pub(crate) fn error(self) -> PgWireBackendMessage {
        PgWireBackendMessage::ErrorResponse(self.fields("ERROR").into())
    }

    /// An `ErrorResponse` that ends the session.
    pub(crate) fn fatal(self) -> PgWireBackendMessage {
        PgWireBackendMessage::ErrorResponse(self.fields("FATAL").into())
    }

    fn fields(self, severity: &str) -> ErrorInfo {
        // A zero would end the field in the middle.
        let clean = |text: String| text.replace('\0', "\u{fffd}");
        let mut info =
            ErrorInfo::new(severity.to_owned(), self.sqlstate.to_owned(), clean(self.message));
        info.severity_nonlocalized = Some(severity.to_owned());
        info.detail = self.detail.map(clean);
        info.hint = self.hint.map(clean);
        info.position = self.position.map(|position| position.to_string());
        info
    }
}

/// A notice about a statement that succeeded.
pub(crate) fn notice(text: &str) -> PgWireBackendMessage {
    PgWireBackendMessage::NoticeResponse(Report::new("00000", text).fields("NOTICE").into())
}

/// The letter of a text at a byte, from 1.
fn letter_at(text: &str, byte: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < byte).count() + 1
}

impl From<Problem> for Report {
    fn from(problem: Problem) -> Self {
        let said = |detail: &crate::problem::Detail| {
            problem.message != format!("{}: {}", detail.field, detail.message)
                && problem.message != detail.message
        };
        let lines: Vec<_> = problem
            .details
            .iter()
            .filter(|detail| said(detail))
            .map(|detail| format!("{}: {}", detail.field, detail.message))
            .collect();
        let hint = (problem.code == Code::Internal)
            .then(|| "the log of the server says more about it".to_owned());
        Report {
            sqlstate: problem.code.sqlstate(),
            detail: (!lines.is_empty()).then(|| lines.join("\n")),
            hint,
            position: None,
            message: problem.message,
        }
    }
}

impl From<Flaw> for Report {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Shape => Report::new(PROTOCOL, "the message ends too early, or goes on too long"),
            Flaw::Letters => Report::new(BAD_LETTERS, "the message is not UTF-8")
                .hint("this server speaks UTF-8 only: set client_encoding to UTF8"),
        }
    }
}

impl From<Lost> for Report {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Kind(kind) => {
                Report::new(PROTOCOL, format!("there is no message of the kind {kind:#04x}"))
            }
            Lost::Length(length) => {
                Report::new(PROTOCOL, format!("a message cannot have the length {length}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_letters_from_one() {
        let text = "SELECT '\u{e4}\u{1f600}', x";
        assert_eq!(letter_at(text, 0), 1);
        let x = text.find('x').unwrap();
        assert_eq!(letter_at(text, x), 14);
        assert_eq!(letter_at(text, text.len()), 15);
        assert_eq!(letter_at(text, 999), 15);
        let error = SqlError {
            problem: Box::new(Problem::new(Code::NotFound, "there is no column x")),
            sqlstate: Some("42703"),
            at: Some(x),
            hint: Some("did you mean y?".to_owned()),
        };
        let report = Report::of(error, text);
        assert_eq!((report.position, report.sqlstate), (Some(14), "42703"));
    }

    #[test]
    fn fields_that_are_wrong_are_listed_once() {
        let problem = Problem::invalid("name", "must not be empty");
        let report = Report::from(problem.clone());
        assert_eq!(report.message, "name: must not be empty");
        assert_eq!(report.detail, None);
        let report = Report::from(Problem { message: "the job is wrong".to_owned(), ..problem });
        assert_eq!(report.detail.as_deref(), Some("name: must not be empty"));
    }
}
