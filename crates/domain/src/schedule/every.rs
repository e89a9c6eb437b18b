//! Fixed intervals: anchored at their start, so that they never drift.

use jiff::{SignedDuration, Timestamp};

/// Occurrences at `starts`, `starts + interval`, … up to and including `ends`.
///
/// ```
/// use punctual_domain::schedule::Every;
/// use jiff::SignedDuration;
///
/// let every = Every::new(SignedDuration::from_mins(90), "2026-01-01T00:00:00Z".parse()?, None)?;
/// let next = every.next("2026-01-01T01:30:00Z".parse()?).unwrap();
/// assert_eq!(next.to_string(), "2026-01-01T03:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    interval: SignedDuration,
    starts: Timestamp,
    ends: Option<Timestamp>,
}

/// Why an interval was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EveryError {
    /// The interval is not a whole, positive number of seconds.
    #[error("an interval is a whole number of seconds, at least one; {0:#} is not")]
    Interval(SignedDuration),
    /// No start was given, and none has been filled in.
    #[error("an interval without a start has no times yet")]
    NoStart,
    /// The schedule would end before it starts.
    #[error("the schedule ends at {ends}, before it starts at {starts}")]
    EndsBeforeStart {
        /// The first occurrence.
        starts: Timestamp,
        /// The end that was asked for.
        ends: Timestamp,
    },
}

impl Every {
    /// An interval of whole seconds, anchored at `starts`; `ends` is inclusive.
    pub fn new(
        interval: SignedDuration,
        starts: Timestamp,
        ends: Option<Timestamp>,
    ) -> Result<Self, EveryError> {
        if interval.as_secs() < 1 || interval.subsec_nanos() != 0 {
            return Err(EveryError::Interval(interval));
        }
        match ends {
            Some(ends) if ends < starts => Err(EveryError::EndsBeforeStart { starts, ends }),
            _ => Ok(Every { interval, starts, ends }),
        }
    }

    /// The time between two occurrences.
    pub fn interval(&self) -> SignedDuration {
        self.interval
    }

    /// The first occurrence.
    pub fn starts(&self) -> Timestamp {
        self.starts
    }

    /// The last instant at which an occurrence may lie.
    pub fn ends(&self) -> Option<Timestamp> {
        self.ends
    }

    /// The first occurrence strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.occurrence(self.count_upto(after))
            .filter(|at| self.ends.is_none_or(|ends| *at <= ends))
    }

    /// The last occurrence strictly before an instant.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let upto = before.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        self.occurrence(self.count_within(upto).checked_sub(1)?)
    }

    /// How many occurrences lie in `(after, until]`.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        self.count_within(until).saturating_sub(self.count_within(after))
    }

    /// Occurrences at or before an instant, respecting the end.
    fn count_within(&self, upto: Timestamp) -> u64 {
        self.count_upto(self.ends.map_or(upto, |ends| ends.min(upto)))
    }

    /// Occurrences at or before an instant, as if there were no end.
    fn count_upto(&self, upto: Timestamp) -> u64 {
        let elapsed = upto.duration_since(self.starts);
        if elapsed.is_negative() {
            return 0;
        }
        (elapsed.as_secs() / self.interval.as_secs()) as u64 + 1
    }

    fn occurrence(&self, index: u64) -> Option<Timestamp> {
        let seconds = self.interval.as_secs().checked_mul(i64::try_from(index).ok()?)?;
        self.starts.checked_add(SignedDuration::from_secs(seconds)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn occurrences_stay_on_the_anchor() {
        let starts = at("2026-01-01T00:00:00.25Z");
        let every =
            Every::new(SignedDuration::from_secs(10), starts, Some(at("2026-01-01T00:00:30.25Z")))
                .unwrap();
        for (after, next) in [
            ("2025-01-01T00:00:00Z", Some("2026-01-01T00:00:00.25Z")),
            ("2026-01-01T00:00:00.249999999Z", Some("2026-01-01T00:00:00.25Z")),
            ("2026-01-01T00:00:00.25Z", Some("2026-01-01T00:00:10.25Z")),
            ("2026-01-01T00:00:10Z", Some("2026-01-01T00:00:10.25Z")),
            ("2026-01-01T00:00:30Z", Some("2026-01-01T00:00:30.25Z")),
            ("2026-01-01T00:00:30.25Z", None),
            ("9999-01-01T00:00:00Z", None),
        ] {
            assert_eq!(every.next(at(after)), next.map(at), "next after {after}");
        }
        for (before, prev) in [
            ("2026-01-01T00:00:00.25Z", None),
            ("2026-01-01T00:00:00.250000001Z", Some("2026-01-01T00:00:00.25Z")),
            ("2026-01-01T00:00:30.25Z", Some("2026-01-01T00:00:20.25Z")),
            ("2030-01-01T00:00:00Z", Some("2026-01-01T00:00:30.25Z")),
        ] {
            assert_eq!(every.prev(at(before)), prev.map(at), "previous before {before}");
        }
        assert_eq!(every.count(at("2026-01-01T00:00:00.25Z"), at("2027-01-01T00:00:00Z")), 3);
        assert_eq!(every.count(at("2025-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")), 4);
    }

    #[test]
    fn intervals_are_whole_seconds() {
        for wrong in
            [SignedDuration::ZERO, SignedDuration::from_millis(1500), SignedDuration::from_secs(-5)]
        {
            assert_eq!(
                Every::new(wrong, Timestamp::UNIX_EPOCH, None),
                Err(EveryError::Interval(wrong))
            );
        }
    }

    #[test]
    fn the_end_of_the_calendar_is_an_end() {
        let every =
            Every::new(SignedDuration::from_hours(24), Timestamp::UNIX_EPOCH, None).unwrap();
        assert_eq!(every.next(Timestamp::MAX), None);
    }
}
