//! Statistics of ended runs: counters by job and hour, which can be added up.
//!
//! Every counter is an amount of a class of a measure, and amounts with the same key are added. So
//! hours add up to days, jobs to tenants, and a batch to the stored counters without reading them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::id::{JobId, RunId, TenantId, UserId};
use crate::run::{Origin, Outcome};

/// A run that ended, or scheduled times that ended without a run.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The run.
    pub id: RunId,
    /// The id of its job.
    pub job: JobId,
    /// The tenant of the job.
    pub tenant: TenantId,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// The word of the reason.
    pub reason: Option<String>,
    /// Trigger of the run.
    pub origin: Origin,
    /// Nominal time.
    pub scheduled_for: Timestamp,
    /// How many times it stands for.
    pub count: u64,
    /// When its last attempt was due.
    pub due_at: Timestamp,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// The number of attempts, including lost ones.
    pub attempts: u32,
    /// Whether it is a dead letter.
    pub dead_letter: bool,
    /// The user that requested it.
    pub requested_by: Option<UserId>,
}

/// A measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Measure {
    /// Ends; the class is the outcome's number.
    Ended = 1,
    /// Durations of last attempts, see [`class_of`].
    Duration = 2,
    /// The sum of durations in milliseconds.
    DurationSum = 3,
    /// Start delays of first attempts, see [`class_of`].
    Lag = 4,
    /// The sum of start delays in milliseconds.
    LagSum = 5,
}

impl Measure {
    /// The measure with a stored number.
    pub fn from_number(number: i64) -> Option<Self> {
        [Measure::Ended, Measure::Duration, Measure::DurationSum, Measure::Lag, Measure::LagSum]
            .into_iter()
            .find(|measure| *measure as i64 == number)
    }
}

/// The key of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The tenant.
    pub tenant: TenantId,
    /// The job; all jobs if it is [`JobId::NONE`].
    pub job: JobId,
    /// The hour since the epoch.
    pub hour: i64,
    /// The measure.
    pub measure: Measure,
    /// The class of the measure.
    pub class: u8,
}

/// The hour of a time, since the epoch.
pub fn hour_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(3_600)
}

/// The class of a number of milliseconds. Each class is at most a quarter wider than its lower end,
/// and few classes cover every duration.
pub fn class_of(ms: u64) -> u8 {
    if ms < 4 {
        return ms as u8;
    }
    let exponent = ms.ilog2();
    (4 * (exponent - 1) + (ms >> (exponent - 2) & 3) as u32) as u8
}

/// The largest number of milliseconds in a class.
pub fn class_max(class: u8) -> u64 {
    if class < 4 {
        return u64::from(class);
    }
    let (exponent, part) = (u32::from(class) / 4 + 1, u64::from(class) % 4);
    let width = 1_u64 << (exponent - 2).min(61);
    (1_u64 << exponent.min(63)).saturating_add((part + 1) * width - 1)
}

/// Adds up ended runs, by job and by tenant.
pub fn tally<'a>(ended: impl IntoIterator<Item = &'a EndedRun>) -> BTreeMap<Key, u64> {
    let mut amounts = BTreeMap::new();
    // A parent run stands for its child runs.
    for run in ended.into_iter().filter(|run| !run.origin.is_child()) {
        for job in [run.job, JobId::NONE] {
            let mut add = |measure, class, amount: u64| {
                let hour = hour_of(run.finished_at);
                let key = Key { tenant: run.tenant, job, hour, measure, class };
                let sum: &mut u64 = amounts.entry(key).or_default();
                *sum = sum.saturating_add(amount);
            };
            add(Measure::Ended, run.outcome as u8, run.count);
            let Some(started_at) = run.started_at else { continue };
            let took = ms(run.finished_at.duration_since(started_at));
            add(Measure::Duration, class_of(took), 1);
            add(Measure::DurationSum, 0, took);
            // A later attempt was due when its backoff was over.
            if run.attempts == 1 {
                let lag = ms(started_at.duration_since(run.due_at));
                add(Measure::Lag, class_of(lag), 1);
                add(Measure::LagSum, 0, lag);
            }
        }
    }
    amounts
}

fn ms(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(0)
}

/// The sum of counters over any number of hours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The number of ends by outcome.
    pub ended: BTreeMap<Outcome, u64>,
    /// Durations of last attempts.
    pub durations: Histogram,
    /// Start delays of first attempts.
    pub lags: Histogram,
}

impl Summary {
    /// Adds an amount.
    pub fn add(&mut self, measure: Measure, class: u8, amount: u64) {
        match measure {
            Measure::Ended => {
                if let Some(outcome) = Outcome::from_number(i64::from(class)) {
                    *self.ended.entry(outcome).or_default() += amount;
                }
            }
            Measure::Duration => *self.durations.classes.entry(class).or_default() += amount,
            Measure::DurationSum => self.durations.sum_ms += amount,
            Measure::Lag => *self.lags.classes.entry(class).or_default() += amount,
            Measure::LagSum => self.lags.sum_ms += amount,
        }
    }

    /// The part of executed runs that completed; none if none was executed.
    pub fn success_rate(&self) -> Option<f64> {
        let of = |outcome| self.ended.get(&outcome).copied().unwrap_or(0);
        let tried = of(Outcome::Completed) + of(Outcome::Failed) + of(Outcome::Timeout);
        (tried > 0).then(|| of(Outcome::Completed) as f64 / tried as f64)
    }
}

/// Durations by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of values in each class, see [`class_of`].
    pub classes: BTreeMap<u8, u64>,
    /// Their sum in milliseconds.
    pub sum_ms: u64,
}

impl Histogram {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.classes.values().sum()
    }

    /// Their mean.
    pub fn mean(&self) -> Option<SignedDuration> {
        let mean = self.sum_ms.checked_div(self.count())?;
        Some(SignedDuration::from_millis(i64::try_from(mean).unwrap_or(i64::MAX)))
    }

    /// The duration that `percent` of the values do not exceed, rounded up to the end of its class:
    /// at most a quarter too long.
    pub fn percentile(&self, percent: u8) -> Option<SignedDuration> {
        let rank = (self.count() * u64::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, amount) in &self.classes {
            seen += amount;
            if seen >= rank {
                let ms = i64::try_from(class_max(*class)).unwrap_or(i64::MAX);
                return Some(SignedDuration::from_millis(ms));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn classes_are_narrow_and_leave_nothing_out() {
        let mut last = 0;
        for ms in 0..100_000_u64 {
            let class = class_of(ms);
            assert!(class == last || class == last + 1, "{ms}");
            assert!(ms <= class_max(class), "{ms} is in class {class}");
            assert!(class == 0 || ms > class_max(class - 1), "{ms} is in class {class}");
            assert!(class_max(class) as f64 <= ms as f64 * 1.25, "{ms} is in class {class}");
            last = class;
        }
        assert_eq!(class_max(class_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn runs_add_up_for_their_job_and_their_tenant() {
        let at = |ms| Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap();
        let run = |job, outcome, took: Option<i64>, count, attempts| EndedRun {
            id: RunId(Uuid::nil()),
            job: JobId(Uuid::from_u128(job)),
            tenant: TenantId::DEFAULT,
            finished_at: at(10_000),
            outcome,
            reason: None,
            origin: Origin::Schedule,
            scheduled_for: at(0),
            count,
            due_at: at(0),
            started_at: took.map(|took| at(10_000 - took)),
            attempts,
            dead_letter: false,
            requested_by: None,
        };
        let ended = [
            run(7, Outcome::Completed, Some(4_000), 1, 1),
            run(7, Outcome::Completed, Some(1_000), 1, 1),
            run(7, Outcome::Failed, Some(9_000), 1, 4),
            run(7, Outcome::Skipped, None, 40, 0),
            run(8, Outcome::Completed, Some(0), 1, 1),
        ];
        let amounts = tally(&ended);
        let summary = |job: u128| {
            let mut summary = Summary::default();
            for (key, amount) in amounts.iter().filter(|(key, _)| key.job.0.as_u128() == job) {
                assert_eq!(key.hour, hour_of(at(0)));
                summary.add(key.measure, key.class, *amount);
            }
            summary
        };
        let (one, all) = (summary(7), summary(0));
        let ended = [(Outcome::Completed, 2), (Outcome::Failed, 1), (Outcome::Skipped, 40)];
        assert_eq!(one.ended, BTreeMap::from(ended));
        assert_eq!(all.ended[&Outcome::Completed], 3);
        assert_eq!(one.success_rate(), Some(2.0 / 3.0));
        assert_eq!((one.durations.count(), one.durations.sum_ms), (3, 14_000));
        assert_eq!((one.lags.count(), one.lags.sum_ms), (2, 15_000), "retries have no lag");
        let percentile = |percent| one.durations.percentile(percent).unwrap().as_millis();
        assert_eq!([1, 33, 50, 99].map(percentile), [1_023, 1_023, 4_095, 10_239]);
        assert_eq!(Summary::default().success_rate(), None);
        assert_eq!(Histogram::default().percentile(50), None);
        assert_eq!(Histogram::default().mean(), None);
    }
}
