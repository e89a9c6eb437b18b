//! Causes of failed attempts, for all executors: a code for programs, a sentence for people.

use domain::run::{AttemptResult, ErrorCode};

use crate::secrets::SecretError;

/// The failure of an attempt.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    /// The error.
    pub code: ErrorCode,
    /// The message for users.
    pub message: String,
}

impl Failure {
    /// Punctual's own policy forbids it: nothing was tried, and no later attempt would be.
    pub fn refused(name: &str, message: impl Into<String>) -> Self {
        Failure { code: ErrorCode::Refused(name.into()), message: message.into() }
    }

    /// A failure that a retry may cure: a missing dependency can be there by then.
    pub fn other(name: &str, message: impl Into<String>) -> Self {
        Failure { code: ErrorCode::Other(name.into()), message: message.into() }
    }

    /// A secret that a field names cannot be had. The error never holds a value.
    pub fn secret(field: &str, error: &SecretError) -> Self {
        let message = format!("{field}: {error}");
        match error {
            SecretError::Unknown(_) => Failure::other("SECRET_NOT_FOUND", message),
            SecretError::Malformed(_) => Failure::other("SECRET_MALFORMED", message),
            SecretError::Unreadable { .. } => Failure::other("SECRET_UNREADABLE", message),
        }
    }
}

impl From<Failure> for AttemptResult {
    fn from(failure: Failure) -> Self {
        AttemptResult::failed(failure.code, failure.message)
    }
}
