//! Syntax errors.

/// A syntax error and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The error message.
    pub message: String,
    /// The position of the error, in bytes.
    pub at: usize,
    /// The correct syntax.
    pub hint: Option<String>,
}

impl SyntaxError {
    /// An error at a position.
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        SyntaxError { message: message.into(), at, hint: None }
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        SyntaxError { hint: Some(hint.into()), ..self }
    }
}

/// The result of reading.
pub(crate) type Result<T> = std::result::Result<T, SyntaxError>;

/// The most similar known word.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_uppercase();
    // A very long word is not a typo, and comparing it would be slow.
    if word.len() > 40 {
        return None;
    }
    let begins = |known: &str| word.len() >= 3 && known.to_ascii_uppercase().starts_with(&word);
    let known: Vec<&str> = known.into_iter().filter(|known| *known != word).collect();
    if let Some(longer) = known.iter().find(|known| begins(known)) {
        return Some(longer);
    }
    let distance = |known: &str| strsim::osa_distance(&word, &known.to_ascii_uppercase());
    let (distance, nearest) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= 1 + word.len() / 4 && distance < word.len()).then_some(nearest)
}
