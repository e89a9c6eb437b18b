//! Why a question is not answered.

/// What is wrong, as PostgreSQL numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The text is no statement.
    Syntax,
    /// There is no such table.
    NoTable,
    /// There is no such column.
    NoColumn,
    /// A name means several columns.
    Ambiguous,
    /// There is no such function, or not with these arguments.
    NoFunction,
    /// It is understood, and not to be had here.
    NotSupported,
    /// A text cannot be read as what it should be.
    InvalidText,
    /// A value is outside of what can be.
    InvalidValue,
    /// Something is divided by zero.
    DivisionByZero,
    /// A pattern is wrong.
    InvalidPattern,
    /// Somebody cancelled it, or it took too long.
    Cancelled,
    /// It needs more than it may have.
    TooMuch,
    /// It needs more memory than it may have.
    OutOfMemory,
    /// Whoever asks may not.
    Refused,
    /// The source cannot answer now.
    Unavailable,
    /// Kinds that do not go together.
    Mismatch,
    /// A defect of ours.
    Internal,
}

impl State {
    /// The five characters.
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

/// Why a question is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct QueryError {
    /// What kind of problem it is.
    pub state: State,
    /// What is wrong.
    pub text: String,
    /// The byte of the question at which it is.
    pub at: Option<usize>,
    /// What would be right.
    pub hint: Option<String>,
}

impl QueryError {
    /// An error without a place.
    pub fn new(state: State, text: impl Into<String>) -> Self {
        QueryError { state, text: text.into(), at: None, hint: None }
    }

    /// There are more rows than an answer may have.
    pub fn too_many_rows(max: usize) -> Self {
        let text = format!("the answer has more than {max} rows");
        QueryError::new(State::TooMuch, text).hint("Use LIMIT, or ask for a part.".to_owned())
    }

    /// With the place.
    pub fn at(self, at: impl Into<Option<usize>>) -> Self {
        QueryError { at: at.into(), ..self }
    }

    /// With what would be right.
    pub fn hint(self, hint: impl Into<Option<String>>) -> Self {
        QueryError { hint: hint.into(), ..self }
    }
}

/// A name that is meant instead, if one looks alike.
pub(crate) fn alike<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    among
        .map(|other| (strsim::damerau_levenshtein(&name, other), other))
        .filter(|(far, other)| *far > 0 && *far <= 1 + other.len() / 4)
        .min()
        .map(|(_, other)| format!("Did you mean {other}?"))
}
