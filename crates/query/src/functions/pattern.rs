//! Pattern matching.

use regex::{Regex, RegexBuilder};

use crate::error::{QueryError, State};

/// The maximum memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Whether a text matches a LIKE pattern. It backtracks only to the last `%`, so the time is at
/// most the product of both lengths.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Part {
        Any,
        One,
        Is(char),
    }
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(match c {
            c if Some(c) == escape => Part::Is(chars.next().unwrap_or(c)),
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Is(c),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut t, mut p) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                back = Some((p, t));
                p += 1;
            }
            Some(part) if *part == Part::One || *part == Part::Is(text[t]) => {
                t += 1;
                p += 1;
            }
            _ => match &mut back {
                Some((any, from)) => {
                    *from += 1;
                    (p, t) = (*any + 1, *from);
                }
                None => return false,
            },
        }
    }
    parts[p..].iter().all(|part| *part == Part::Any)
}

/// Compiles a regular expression; matching takes linear time for every pattern.
pub(super) fn pattern(text: &str, any_case: bool) -> Result<Regex, QueryError> {
    RegexBuilder::new(text)
        .case_insensitive(any_case)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .nest_limit(50)
        .build()
        .map_err(|error| {
            let short: String = text.chars().take(60).collect();
            let reason = match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                error => error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
            };
            QueryError::new(
                State::InvalidPattern,
                format!("invalid regular expression {short:?}: {reason}"),
            )
        })
}
