//! Query errors.

/// The SQLSTATE of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Syntax error.
    Syntax,
    /// Undefined table.
    NoTable,
    /// Undefined column.
    NoColumn,
    /// Ambiguous column.
    Ambiguous,
    /// Undefined function, or wrong arguments.
    NoFunction,
    /// Valid SQL that is not supported.
    NotSupported,
    /// A text that cannot be converted to the type.
    InvalidText,
    /// A value out of range.
    InvalidValue,
    /// Division by zero.
    DivisionByZero,
    /// Invalid regular expression.
    InvalidPattern,
    /// Cancelled by the user, or timed out.
    Cancelled,
    /// A limit was exceeded.
    TooMuch,
    /// The memory limit was exceeded.
    OutOfMemory,
    /// Permission denied.
    Refused,
    /// The source is unavailable.
    Unavailable,
    /// Incompatible types.
    Mismatch,
    /// Internal error.
    Internal,
}

impl State {
    /// The five-character SQLSTATE.
    pub fn code(self) -> &'static str {
        match self {
            State::Syntax => "42601",
            State::NoTable => "42P01",
            State::NoColumn => "42703",
            State::Ambiguous => "42702",
            State::NoFunction => "42883",
            State::NotSupported => "0A000",
            State::InvalidText => "22P02",
            State::InvalidValue => "22023",
            State::DivisionByZero => "22012",
            State::InvalidPattern => "2201B",
            State::Cancelled => "57014",
            State::TooMuch => "54000",
            State::OutOfMemory => "53200",
            State::Refused => "42501",
            State::Unavailable => "57P03",
            State::Mismatch => "42804",
            State::Internal => "XX000",
        }
    }
}

/// Why a query failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct QueryError {
    /// The SQLSTATE.
    pub state: State,
    /// The error message.
    pub text: String,
    /// The position in the statement, in bytes.
    pub at: Option<usize>,
    /// The next step.
    pub hint: Option<String>,
}

impl QueryError {
    /// An error without a position.
    pub fn new(state: State, text: impl Into<String>) -> Self {
        QueryError { state, text: text.into(), at: None, hint: None }
    }

    /// The error for a result with too many rows.
    pub fn too_many_rows(max: usize) -> Self {
        let text = format!("row limit reached ({max} rows)");
        QueryError::new(State::TooMuch, text).hint("Use LIMIT, or select fewer rows.".to_owned())
    }

    /// Adds the position.
    pub fn at(self, at: impl Into<Option<usize>>) -> Self {
        QueryError { at: at.into(), ..self }
    }

    /// Adds a hint.
    pub fn hint(self, hint: impl Into<Option<String>>) -> Self {
        QueryError { hint: hint.into(), ..self }
    }
}

/// The most similar name, if there is one.
pub(crate) fn alike<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    among
        .map(|other| (strsim::damerau_levenshtein(&name, other), other))
        .filter(|(far, other)| *far > 0 && *far <= 1 + other.len() / 4)
        .min()
        .map(|(_, other)| format!("Did you mean {other}?"))
}
