//! Blackouts: named windows of time in which no tick of a tenant, or of the cluster, starts.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::job::WhenError;
use crate::schedule::{CronSchedule, DstPolicy, Zones};

/// The longest window that repeats.
pub const DURATION_MAX: SignedDuration = SignedDuration::from_hours(31 * 24);

/// A blackout as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blackout {
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it is.
    #[serde(flatten)]
    pub window: BlackoutWindow,
}

/// When a blackout is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind")]
pub enum BlackoutWindow {
    /// A single interval.
    Once {
        /// It begins at this time.
        from: Timestamp,
        /// It has ended at this time.
        until: Timestamp,
    },
    /// Again and again.
    Recurring {
        /// When it begins: a cron expression.
        cron: String,
        /// The zone of the expression.
        timezone: String,
        /// How long it lasts.
        duration: SignedDuration,
    },
}

/// Why a blackout was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlackoutError {
    /// It ends before it begins.
    #[error("the blackout ends at {until}, not after its beginning at {from}")]
    Backwards {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        until: Timestamp,
    },
    /// The length of a window that repeats.
    #[error("a blackout that repeats lasts between one minute and 31 days, not {0:#}")]
    Duration(SignedDuration),
    /// The expression or its zone.
    #[error(transparent)]
    When(#[from] WhenError),
}

/// A blackout that can be asked whether a time lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledBlackout {
    name: String,
    window: CompiledWindow,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CompiledWindow {
    Once(Timestamp, Timestamp),
    Recurring(CronSchedule, SignedDuration),
}

/// A stretch of time, from its first instant to the one after its last, with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub from: Timestamp,
    pub until: Timestamp,
    pub is_closed: bool,
}

impl Blackout {
    /// Reads the body of the stored resource.
    pub fn from_body(body: &str) -> Result<Self, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    /// Checks it, and makes it answer.
    pub fn compile(&self, name: &str, zones: &Zones) -> Result<CompiledBlackout, BlackoutError> {
        let window = match &self.window {
            BlackoutWindow::Once { from, until } if from >= until => {
                return Err(BlackoutError::Backwards { from: *from, until: *until });
            }
            BlackoutWindow::Once { from, until } => CompiledWindow::Once(*from, *until),
            BlackoutWindow::Recurring { cron, timezone, duration } => {
                if *duration < SignedDuration::from_mins(1) || *duration > DURATION_MAX {
                    return Err(BlackoutError::Duration(*duration));
                }
                let cron = cron.parse().map_err(WhenError::from)?;
                let zone = zones.find(timezone).map_err(WhenError::from)?;
                CompiledWindow::Recurring(
                    CronSchedule::new(cron, zone, DstPolicy::default()),
                    *duration,
                )
            }
        };
        Ok(CompiledBlackout { name: name.to_owned(), window })
    }
}

impl CompiledBlackout {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a time lies in it.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.stretch(at).is_closed
    }

    /// The next time at or after `at` at which it begins, and its end; the present window if `at`
    /// lies in one.
    pub fn window_from(&self, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let now = self.stretch(at);
        let window = if now.is_closed { now } else { self.stretch(now.until) };
        window.is_closed.then_some((window.from, window.until))
    }

    /// The stretch around a time, with one answer for all of it.
    pub(crate) fn stretch(&self, at: Timestamp) -> Stretch {
        let instant = SignedDuration::from_nanos(1);
        match &self.window {
            CompiledWindow::Once(from, until) => {
                if at < *from {
                    Stretch { from: Timestamp::MIN, until: *from, is_closed: false }
                } else if at < *until {
                    Stretch { from: *from, until: *until, is_closed: true }
                } else {
                    Stretch { from: *until, until: Timestamp::MAX, is_closed: false }
                }
            }
            CompiledWindow::Recurring(cron, duration) => {
                let began = at.checked_add(instant).ok().and_then(|after| cron.prev(after));
                let end_of = |began: Timestamp| began.saturating_add(*duration);
                let end = began.map(|began| end_of(began).unwrap_or(Timestamp::MAX));
                match began.zip(end) {
                    Some((from, until)) if at < until => Stretch { from, until, is_closed: true },
                    _ => Stretch {
                        from: end.unwrap_or(Timestamp::MIN),
                        until: cron.next(at).unwrap_or(Timestamp::MAX),
                        is_closed: false,
                    },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_contains_its_beginning_and_not_its_end() {
        let zones = Zones::bundled();
        let once = BlackoutWindow::Once {
            from: at("2026-12-24T12:00:00Z"),
            until: at("2026-12-27T00:00:00Z"),
        };
        let weekly = BlackoutWindow::Recurring {
            cron: "0 18 * * FRI".into(),
            timezone: "Europe/Berlin".into(),
            duration: SignedDuration::from_hours(60),
        };
        for (window, moment, expected) in [
            (&once, "2026-12-24T11:59:59Z", false),
            (&once, "2026-12-24T12:00:00Z", true),
            (&once, "2026-12-26T23:59:59Z", true),
            (&once, "2026-12-27T00:00:00Z", false),
            (&weekly, "2026-11-20T16:59:59Z", false),
            (&weekly, "2026-11-20T17:00:00Z", true),
            (&weekly, "2026-11-23T04:59:59Z", true),
            (&weekly, "2026-11-23T05:00:00Z", false),
            // Clocks went from winter to summer time on 29 March: 60 hours all the same.
            (&weekly, "2026-03-30T04:59:59Z", true),
            (&weekly, "2026-03-30T05:00:00Z", false),
        ] {
            let blackout = Blackout { description: None, window: window.clone() };
            let compiled = blackout.compile("freeze", &zones).unwrap();
            assert_eq!(compiled.contains(at(moment)), expected, "{window:?} {moment}");
            let stretch = compiled.stretch(at(moment));
            assert!(stretch.from <= at(moment) && at(moment) < stretch.until, "{stretch:?}");
        }
    }

    #[test]
    fn the_next_window_is_found() {
        let window = BlackoutWindow::Recurring {
            cron: "0 18 * * FRI".into(),
            timezone: "UTC".into(),
            duration: SignedDuration::from_hours(1),
        };
        let blackout = Blackout { description: None, window };
        let compiled = blackout.compile("freeze", &Zones::bundled()).unwrap();
        let expected = (at("2026-11-20T18:00:00Z"), at("2026-11-20T19:00:00Z"));
        for moment in ["2026-11-17T00:00:00Z", "2026-11-20T18:30:00Z"] {
            assert_eq!(compiled.window_from(at(moment)), Some(expected), "{moment}");
        }
    }

    #[test]
    fn wrong_windows_are_refused() {
        let zones = Zones::bundled();
        let recurring = |cron: &str, timezone: &str, minutes: i64| BlackoutWindow::Recurring {
            cron: cron.into(),
            timezone: timezone.into(),
            duration: SignedDuration::from_mins(minutes),
        };
        let now = at("2026-01-01T00:00:00Z");
        for (window, problem) in [
            (BlackoutWindow::Once { from: now, until: now }, "not after its beginning"),
            (recurring("0 18 * * FRI", "UTC", 0), "between one minute and 31 days"),
            (recurring("0 18 * * FRI", "UTC", 50_000), "between one minute and 31 days"),
            (recurring("0 18 * *", "UTC", 60), "fields"),
            (recurring("0 18 * * FRI", "Mars/Base", 60), "is not a time zone"),
        ] {
            let blackout = Blackout { description: None, window };
            let error = blackout.compile("freeze", &zones).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
