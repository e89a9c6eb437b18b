//! Errors of store operations.

/// The result of an operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why an operation has no answer. It can be cloned, so that callers that share a call all get the
/// error itself and not its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or cannot write: a lost connection, a restart, a full disk, a
    /// failed fsync. Whether the operation took effect may be unknown; it is safe to send it again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The database that was named cannot be a store as it is. An administrator has to change it.
    #[error("{problem}: {advice}")]
    Refused {
        /// Cause: the first part of the message.
        problem: String,
        /// Next step for the administrator: the second part of the message.
        advice: String,
    },
    /// The database was changed by a newer release so that this one cannot use it.
    #[error(
        "the database has schema version {found}, this release knows up to {known}: upgrade Punctual"
    )]
    TooNew {
        /// The version of the database.
        found: i64,
        /// The newest version that this release knows.
        known: i64,
    },
    /// The database holds something that this release cannot read.
    #[error("the database holds something unreadable: {0}")]
    Unreadable(String),
}

impl StoreError {
    /// A statement that always returns a row returned none.
    pub(crate) fn no_row() -> Self {
        StoreError::Unreadable("an answer has no row".to_owned())
    }
}
