//! When a job is due: `job_type` and the fields that belong to it.

use domain::job::When;
use domain::schedule::{DstPolicy, Zone, Zones, parse_instant};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::duration::Seconds;
use super::job::JobParts;
use super::mirror::{GapRule, OverlapRule};
use crate::problem::{Code, Problem, Result};

/// The kinds of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobType {
    /// At the local times of `cron_expression`.
    Cron,
    /// Once, at `run_at`.
    OneTime,
    /// Once, `delay_seconds` after the job was made. It reads back as `ONE_TIME`.
    Delayed,
    /// Every `interval_seconds`.
    Interval,
    /// Only when it is triggered.
    Manual,
    /// When the jobs of `depends_on` have ended.
    Dependent,
}

/// Answers to daylight saving; what is left open follows from the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dst {
    /// The policy for a local time that a clock change removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapRule>,
    /// The policy for a local time that a clock change repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapRule>,
}

impl Dst {
    /// The policy in the request.
    pub fn policy(self) -> DstPolicy {
        DstPolicy { gap: self.gap.map(Into::into), overlap: self.overlap.map(Into::into) }
    }

    /// Rules as they are shown; none if everything is left open.
    pub fn from_policy(dst: DstPolicy) -> Option<Self> {
        let shown = Dst { gap: dst.gap.map(Into::into), overlap: dst.overlap.map(Into::into) };
        (dst != DstPolicy::default()).then_some(shown)
    }
}

impl JobParts {
    /// The kind that the request names, or gives away.
    fn kind(&self) -> Result<JobType> {
        let telling = [
            (JobType::Cron, "cron_expression", self.cron_expression.is_some()),
            (JobType::OneTime, "run_at", self.run_at.is_some()),
            (JobType::Delayed, "delay_seconds", self.delay_seconds.is_some()),
            (JobType::Interval, "interval_seconds", self.interval_seconds.is_some()),
        ];
        let given: Vec<&str> =
            telling.iter().filter(|(.., given)| *given).map(|(_, field, _)| *field).collect();
        if given.len() > 1 {
            let text = format!("only one of {} can say when a job is due", given.join(", "));
            return Err(Problem::field(Code::InvalidSchedule, given[1], text));
        }
        let implied = telling.iter().find(|(.., given)| *given).map(|(kind, ..)| *kind);
        match (self.job_type, implied) {
            (Some(named), Some(implied)) if named != implied => {
                let text = format!("{} does not belong to a job of this type", given[0]);
                Err(Problem::field(Code::InvalidSchedule, "job_type", text))
            }
            (Some(named), None) => match telling.iter().find(|(kind, ..)| *kind == named) {
                Some((_, field, _)) => Err(Problem::field(
                    Code::InvalidSchedule,
                    *field,
                    "is missing: this type of job needs it",
                )),
                None => Ok(named),
            },
            (named, implied) => named.or(implied).ok_or_else(|| {
                let text =
                    "is missing: send CRON, ONE_TIME, DELAYED, INTERVAL, MANUAL or DEPENDENT";
                Problem::field(Code::InvalidSchedule, "job_type", text)
            }),
        }
    }

    /// When the job is due, if it is made now.
    pub fn when(&self, now: Timestamp, zones: &Zones) -> Result<When> {
        let zone_name = self.timezone.as_deref().unwrap_or("UTC");
        let zone = zones.find(zone_name).map_err(|error| {
            Problem::field(Code::InvalidTimezone, "timezone", error.to_string())
        })?;
        let kind = self.kind()?;
        let only_for = |wanted: JobType, field: &str, given: bool| match given && kind != wanted {
            true => {
                let text = "does not belong to a job of this type";
                Err(Problem::field(Code::InvalidSchedule, field, text))
            }
            false => Ok(()),
        };
        only_for(JobType::Interval, "starts_at", self.starts_at.is_some())?;
        only_for(JobType::Interval, "ends_at", self.ends_at.is_some())?;
        only_for(JobType::Cron, "dst", self.dst.is_some())?;
        Ok(match kind {
            JobType::Manual => When::Manual,
            JobType::Dependent => When::AfterDependencies,
            JobType::Cron => When::Cron {
                expression: self.cron_expression.clone().unwrap_or_default(),
                zone: zone.name().to_owned(),
                dst: self.dst.map(Dst::policy).unwrap_or_default(),
            },
            JobType::OneTime => {
                let text = self.run_at.as_deref().unwrap_or_default();
                When::At { at: instant("run_at", text, &zone, zones)? }
            }
            JobType::Delayed => {
                let delay = self.delay_seconds.map(|seconds| seconds.0).unwrap_or_default();
                let far = || Problem::field(Code::InvalidSchedule, "delay_seconds", "is too long");
                When::At { at: now.checked_add(delay).map_err(|_| far())? }
            }
            JobType::Interval => {
                let read = |field, text: &Option<String>| match text {
                    Some(text) => instant(field, text, &zone, zones).map(Some),
                    None => Ok(None),
                };
                let interval = self.interval_seconds.map(|seconds| seconds.0).unwrap_or_default();
                When::Every {
                    interval,
                    starts: read("starts_at", &self.starts_at)?,
                    ends: read("ends_at", &self.ends_at)?,
                }
            }
        })
    }

    /// Shows when a job is due.
    pub(super) fn show_when(&mut self, when: &When) {
        self.job_type = Some(match when {
            When::Manual => JobType::Manual,
            When::AfterDependencies => JobType::Dependent,
            When::Cron { expression, zone, dst } => {
                self.cron_expression = Some(expression.clone());
                self.timezone = Some(zone.clone());
                self.dst = Dst::from_policy(*dst);
                JobType::Cron
            }
            When::Every { interval, starts, ends } => {
                self.interval_seconds = Some(Seconds(*interval));
                self.starts_at = starts.map(|starts| starts.to_string());
                self.ends_at = ends.map(|ends| ends.to_string());
                JobType::Interval
            }
            When::At { at } => {
                self.run_at = Some(at.to_string());
                JobType::OneTime
            }
        });
    }
}

/// An instant, or a local time of the zone.
fn instant(field: &str, text: &str, zone: &Zone, zones: &Zones) -> Result<Timestamp> {
    parse_instant(text, zone, zones)
        .map_err(|error| Problem::field(Code::InvalidSchedule, field, error.to_string()))
}
