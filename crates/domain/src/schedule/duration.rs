//! Parsing of durations.

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Why a duration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {problem}")]
pub struct DurationError {
    /// The text as it was given.
    pub text: String,
    /// The problem, and the correct form.
    pub problem: String,
}

/// Reads `90s`, `1h 30m`, `5 minutes` or `PT1H30M`. A day is 24 hours, a week seven days; months
/// and years have no fixed length and are refused.
///
/// ```
/// use punctual_domain::schedule::parse_duration;
///
/// assert_eq!(parse_duration("1h 30m")?.as_secs(), 5_400);
/// assert_eq!(parse_duration("2 DAYS")?.as_secs(), 172_800);
/// # Ok::<(), punctual_domain::schedule::DurationError>(())
/// ```
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let refuse =
        |problem: &str| DurationError { text: text.to_owned(), problem: problem.to_owned() };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(refuse("it is empty; write for example 90s, 1h 30m or PT1H30M"));
    }
    if trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse(&format!(
            "the unit is missing; write for example {trimmed}s for seconds"
        )));
    }
    let span: Span = trimmed
        .to_ascii_lowercase()
        .parse()
        .map_err(|_| refuse("write for example 90s, 1h 30m, 5 minutes or PT1H30M"))?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(refuse(
            "months and years have no fixed length; use days, or a cron schedule for calendar dates",
        ));
    }
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| refuse("it is too long to be a duration"))?;
    if duration.is_negative() {
        return Err(refuse("a duration cannot be negative"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (text, seconds) in [
            ("90s", 90),
            ("90 s", 90),
            ("1h 30m", 5_400),
            ("1h30m", 5_400),
            ("5 minutes", 300),
            ("5 MINUTES", 300),
            ("1 hour, 2 minutes", 3_720),
            ("PT1H30M", 5_400),
            ("pt5s", 5),
            ("P1D", 86_400),
            ("2 days", 172_800),
            ("1w", 604_800),
            (" 10 seconds ", 10),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_secs()), Ok(seconds), "{text}");
        }
        assert_eq!(parse_duration("250ms").unwrap().as_millis(), 250);
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        for (text, fragment) in [
            ("", "it is empty"),
            ("90", "write for example 90s"),
            ("1 month", "no fixed length"),
            ("P1Y", "no fixed length"),
            ("-5s", "cannot be negative"),
            ("soon", "1h 30m"),
            ("5 parsecs", "1h 30m"),
            ("9999999999999999999s", "1h 30m"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(fragment), "{text}: {error}");
        }
    }
}
