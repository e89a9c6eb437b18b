//! Warnings about surprising cron schedules.

use std::fmt;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use super::{CronSchedule, Field, GapRule, OverlapRule};

/// How far ahead clock changes are checked.
const HORIZON: SignedDuration = SignedDuration::from_hours(2 * 366 * 24);

/// A warning is given if the next run is further away than this.
const FAR: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The number of dates of each reading in a dialect warning.
const DATES: usize = 5;

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Local times of the schedule that do not exist, because clocks jump over them.
    Gap {
        /// The first of them.
        first: DateTime,
        /// The last of them.
        last: DateTime,
        /// The number of local times.
        count: u64,
        /// When the clocks jump.
        transition: Timestamp,
        /// The gap rule of the schedule.
        rule: GapRule,
    },
    /// Local times of the schedule that happen twice, because clocks are set back.
    Fold {
        /// The first of them.
        first: DateTime,
        /// The last of them.
        last: DateTime,
        /// The number of local times.
        count: u64,
        /// When the clocks are set back.
        transition: Timestamp,
        /// The overlap rule of the schedule.
        rule: OverlapRule,
    },
    /// A day field with `*/n`, which other cron dialects join differently with the other one.
    DayStepDialect {
        /// The field with the step.
        field: Field,
        /// The next dates as Punctual, Vixie cron and pg_cron read it: both fields must match.
        vixie: Vec<Timestamp>,
        /// The next dates as newer dialects read it: either field suffices.
        other: Vec<Timestamp>,
        /// The expression that means the other reading here.
        rewrite: String,
    },
    /// The next run is more than a year away.
    FarAway {
        /// When it is.
        next: Timestamp,
    },
    /// There is no next run: each matching local time falls into a gap of this zone.
    Never,
}

impl CronSchedule {
    /// All warnings about the schedule at `now`.
    pub fn lint(&self, now: Timestamp) -> Vec<Warning> {
        let mut warnings = Vec::new();
        match self.next(now) {
            None => warnings.push(Warning::Never),
            Some(next) if next.duration_since(now) > FAR => {
                warnings.push(Warning::FarAway { next })
            }
            Some(_) => {}
        }
        warnings.extend(self.dialect_warning(now));
        if !self.cron().matches_every_hour() {
            warnings.extend(self.transition_warnings(now));
        }
        warnings
    }

    fn dialect_warning(&self, now: Timestamp) -> Option<Warning> {
        let other = self.with_cron(self.cron().other_dialect()?);
        let dates = |schedule: &CronSchedule| {
            let zone = self.zone().time_zone();
            let date = |at: &Timestamp| zone.to_datetime(*at).date();
            let mut dates: Vec<Timestamp> = Vec::new();
            let mut next = schedule.next(now);
            while let Some(at) = next.filter(|_| dates.len() < DATES) {
                dates.push(at);
                // The first run of each day stands for the day.
                let end_of_day = zone.to_ambiguous_timestamp(date(&at).at(23, 59, 59, 0)).later();
                next = end_of_day.ok().and_then(|end| schedule.next(end.max(at)));
            }
            dates
        };
        let (field, rewrite) = self.cron().without_day_step()?;
        Some(Warning::DayStepDialect { field, vixie: dates(self), other: dates(&other), rewrite })
    }

    fn transition_warnings(&self, now: Timestamp) -> Vec<Warning> {
        let until = now.saturating_add(HORIZON).unwrap_or(Timestamp::MAX);
        let gaps = self.gaps(now, until).into_iter().map(|gap| Warning::Gap {
            first: gap.first,
            last: gap.last,
            count: gap.count,
            transition: gap.transition,
            rule: self.gap_rule(),
        });
        let folds = self.folds(now, until).into_iter().map(|fold| Warning::Fold {
            first: fold.first,
            last: fold.last,
            count: fold.count,
            transition: fold.transition,
            rule: self.overlap_rule(),
        });
        let mut warnings: Vec<Warning> = gaps.chain(folds).collect();
        warnings.sort_by_key(|warning| match warning {
            Warning::Gap { transition, .. } | Warning::Fold { transition, .. } => Some(*transition),
            _ => None,
        });
        warnings
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Gap { first, last, count, rule, .. } => {
                let (them, they, are) =
                    times(f, *first, *last, *count, "does not exist", "do not exist")?;
                match rule {
                    GapRule::Skip => write!(f, "clocks jump over {them}, and {they} {are} skipped"),
                    GapRule::ShiftAfter => {
                        write!(f, "clocks jump over {them}, and one run starts at the jump")
                    }
                    GapRule::ShiftByOffset => {
                        write!(f, "clocks jump over {them}, and {they} {are} run later by as much")
                    }
                }
            }
            Warning::Fold { first, last, count, rule, .. } => {
                let (them, ..) = times(f, *first, *last, *count, "happens twice", "happen twice")?;
                match rule {
                    OverlapRule::First => {
                        write!(f, "clocks are set back over {them}, and only the first pass runs")
                    }
                    OverlapRule::Second => {
                        write!(f, "clocks are set back over {them}, and only the second pass runs")
                    }
                    OverlapRule::Both => {
                        write!(f, "clocks are set back over {them}, and both passes run")
                    }
                }
            }
            Warning::DayStepDialect { field, rewrite, .. } => write!(
                f,
                "the {field} field begins with */n: both day fields must match, as in Vixie cron; \
                 other dialects let either one suffice, which is {rewrite} here"
            ),
            Warning::FarAway { next } => {
                write!(f, "the next run is more than a year away, at {next}")
            }
            Warning::Never => {
                f.write_str("there is no next run: clocks jump over every time that matches")
            }
        }
    }
}

/// Writes the affected local times, and returns the words that refer to them.
fn times(
    f: &mut fmt::Formatter<'_>,
    first: DateTime,
    last: DateTime,
    count: u64,
    one: &str,
    many: &str,
) -> Result<(&'static str, &'static str, &'static str), fmt::Error> {
    let first = first.strftime("%Y-%m-%d %H:%M");
    if count == 1 {
        write!(f, "{first} {one}: ")?;
        return Ok(("it", "it", "is"));
    }
    write!(f, "{count} local times from {first} to {} {many}: ", last.strftime("%Y-%m-%d %H:%M"))?;
    Ok(("them", "they", "are"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{DstPolicy, Zones};

    #[test]
    fn warnings_in_words() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        for (expression, zone, expected) in [
            ("*/15 * * * *", "America/New_York", vec![]),
            ("0 2 * * *", "UTC", vec![]),
            (
                "30 2 * * *",
                "America/New_York",
                vec![
                    "2026-03-08 02:30 does not exist: clocks jump over it, and it is skipped",
                    "2027-03-14 02:30 does not exist: clocks jump over it, and it is skipped",
                ],
            ),
            (
                "*/20 1 * 11 *",
                "America/New_York",
                vec![
                    "3 local times from 2026-11-01 01:00 to 2026-11-01 01:40 happen twice: \
                     clocks are set back over them, and only the first pass runs",
                    "3 local times from 2027-11-07 01:00 to 2027-11-07 01:40 happen twice: \
                     clocks are set back over them, and only the first pass runs",
                ],
            ),
            (
                "0 0 29 2 *",
                "UTC",
                vec!["the next run is more than a year away, at 2028-02-29T00:00:00Z"],
            ),
            (
                "30 2 * 3 SUN#2",
                "America/New_York",
                vec![
                    "there is no next run: clocks jump over every time that matches",
                    "2026-03-08 02:30 does not exist: clocks jump over it, and it is skipped",
                    "2027-03-14 02:30 does not exist: clocks jump over it, and it is skipped",
                ],
            ),
            (
                "0 0 */2 * MON",
                "UTC",
                vec![
                    "the day of month field begins with */n: both day fields must match, as in Vixie cron; \
                     other dialects let either one suffice, which is 0 0 1-31/2 * MON here",
                ],
            ),
        ] {
            let zone = Zones::bundled().find(zone).unwrap();
            let schedule =
                CronSchedule::new(expression.parse().unwrap(), zone, DstPolicy::default());
            let warnings: Vec<String> = schedule.lint(now).iter().map(Warning::to_string).collect();
            assert_eq!(warnings, expected, "{expression}");
        }
    }

    #[test]
    fn both_readings_of_a_day_step() {
        let schedule = CronSchedule::new(
            "0 0 */2 * MON".parse().unwrap(),
            super::super::Zone::UTC,
            DstPolicy::default(),
        );
        let warnings = schedule.lint("2026-01-01T12:00:00Z".parse().unwrap());
        let [Warning::DayStepDialect { vixie, other, rewrite, .. }] = warnings.as_slice() else {
            panic!("{warnings:?}")
        };
        let days = |dates: &[Timestamp]| {
            dates.iter().map(|at| at.strftime("%m-%d").to_string()).collect::<Vec<_>>()
        };
        assert_eq!(days(vixie), ["01-05", "01-19", "02-09", "02-23", "03-09"]);
        assert_eq!(days(other), ["01-03", "01-05", "01-07", "01-09", "01-11"]);
        let rewritten = CronSchedule::new(
            rewrite.parse().unwrap(),
            super::super::Zone::UTC,
            DstPolicy::default(),
        );
        assert_eq!(rewritten.next("2026-01-01T12:00:00Z".parse().unwrap()), other.first().copied());
    }
}
