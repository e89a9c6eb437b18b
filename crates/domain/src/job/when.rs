//! The schedule of a job as its definition has it, and the schedule that it compiles to.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::schedule::{
    AtError, Cron, CronError, CronSchedule, DstPolicy, Every, EveryError, Schedule, ZoneError,
    Zones,
};

/// The schedule of a job, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind", deny_unknown_fields)]
pub enum When {
    /// On request only.
    #[default]
    Manual,
    /// When the jobs that it depends on have ended.
    AfterDependencies,
    /// At the local times of a cron expression.
    Cron {
        /// The expression.
        expression: String,
        /// The zone's name.
        zone: String,
        /// The rules for daylight saving time.
        #[serde(default)]
        dst: DstPolicy,
    },
    /// At a fixed interval.
    Every {
        /// The time between two occurrences.
        interval: SignedDuration,
        /// The first occurrence. The engine sets it when it accepts a definition without one
        /// ([`When::start_at`]), so a stored job always has it.
        #[serde(default)]
        starts: Option<Timestamp>,
        /// No occurrence is later than this.
        #[serde(default)]
        ends: Option<Timestamp>,
    },
    /// Once, at a time.
    At {
        /// The instant.
        at: Timestamp,
    },
}

/// Why a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// Invalid cron expression.
    #[error("{0}")]
    Cron(#[from] CronError),
    /// Unknown time zone.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// Invalid interval.
    #[error(transparent)]
    Every(#[from] EveryError),
    /// Invalid time.
    #[error(transparent)]
    At(#[from] AtError),
}

impl When {
    /// This schedule with the first occurrence of another one, if both are the same interval.
    pub fn with_start_of(self, other: &When) -> Self {
        match (self, other) {
            (When::Every { interval, ends, .. }, When::Every { interval: same, starts, .. })
                if interval == *same =>
            {
                When::Every { interval, starts: *starts, ends }
            }
            (when, _) => when,
        }
    }

    /// The compiled schedule; none if the job has no scheduled times.
    pub fn compile(&self, zones: &Zones) -> Result<Option<Schedule>, WhenError> {
        Ok(Some(match self {
            When::Manual | When::AfterDependencies => return Ok(None),
            When::Cron { expression, zone, dst } => Schedule::Cron(CronSchedule::new(
                expression.parse::<Cron>()?,
                zones.find(zone)?,
                *dst,
            )),
            When::Every { interval, starts, ends } => {
                let starts = starts.ok_or(EveryError::NoStart)?;
                Schedule::Every(Every::new(*interval, starts, *ends)?)
            }
            When::At { at } => Schedule::At(*at),
        }))
    }

    /// Whether this is an interval without a start.
    pub fn needs_start(&self) -> bool {
        matches!(self, When::Every { starts: None, .. })
    }

    /// Sets the start of an interval; other schedules have none.
    pub fn start_at(&mut self, now: Timestamp) {
        if let When::Every { starts, .. } = self {
            *starts = Some(now);
        }
    }

    /// Copies the start of the replaced schedule, if this is the same interval without a start: a
    /// job that is defined again keeps its ticks.
    pub fn keep_start_of(&mut self, old: &When) {
        if let When::Every { interval, starts: starts @ None, .. } = self
            && let When::Every { interval: same, starts: first, .. } = old
            && interval == same
        {
            *starts = *first;
        }
    }

    /// Whether the job is due at most once.
    pub fn is_one_time(&self) -> bool {
        matches!(self, When::At { .. })
    }

    /// The name of its kind in every interface.
    pub fn kind(&self) -> &'static str {
        match self {
            When::Manual => "MANUAL",
            When::AfterDependencies => "AFTER_DEPENDENCIES",
            When::Cron { .. } => "CRON",
            When::Every { .. } => "EVERY",
            When::At { .. } => "AT",
        }
    }
}
