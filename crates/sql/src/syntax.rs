//! Why a text cannot be read.

/// Why a text cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// The byte of the text at which it is.
    pub at: usize,
    /// What would be right.
    pub hint: Option<String>,
}
