//! Statements about the session: settings, transactions, savepoints, DISCARD and COPY.

use super::Spanned;

/// SET of a session variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatement {
    /// The name of the setting, in lower case.
    pub name: Spanned<String>,
    /// The value; the default if absent.
    pub value: Option<String>,
    /// Whether it applies only until the end of the transaction.
    pub is_local: bool,
}

/// BEGIN, COMMIT and ROLLBACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// BEGIN, START TRANSACTION, with the access mode if one is named.
    Begin(Option<AccessMode>),
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// SET TRANSACTION with the access mode if one is named; isolation levels are accepted and have
    /// no effect.
    Characteristics(Option<AccessMode>),
}

/// Whether a transaction may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// READ ONLY: changes are refused.
    ReadOnly,
    /// READ WRITE.
    ReadWrite,
}

impl AccessMode {
    /// The value of `transaction_read_only` that it means.
    pub fn setting(self) -> &'static str {
        match self {
            AccessMode::ReadOnly => "on",
            AccessMode::ReadWrite => "off",
        }
    }
}

/// SAVEPOINT, RELEASE and ROLLBACK TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavepointStatement {
    /// Operation on the savepoint.
    pub verb: SavepointVerb,
    /// Its name.
    pub name: Spanned<String>,
}

/// Operation on a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointVerb {
    /// SAVEPOINT: creates it.
    Set,
    /// RELEASE: forgets it, and keeps the changes since then.
    Release,
    /// ROLLBACK TO: forgets the changes since then.
    RollbackTo,
}

/// Scope of DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// DISCARD ALL.
    All,
    /// Cached plans.
    Plans,
    /// Sequences; there are none.
    Sequences,
    /// Temporary tables; there are none.
    Temp,
}

/// COPY … TO STDOUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The query to export.
    pub query: Spanned<String>,
    /// CSV format instead of PostgreSQL's text format.
    pub csv: bool,
    /// Whether the first line names the columns.
    pub header: bool,
    /// The delimiter between two values.
    pub delimiter: char,
    /// The text for NULL.
    pub null: String,
}
