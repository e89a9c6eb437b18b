//! Defaults of the jobs of a tenant.

use domain::job_defaults::JobDefaults;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::duration::Seconds;
use super::retention::RetentionRule;
use super::schedule::Dst;
use crate::problem::{Problem, Result};

/// Defaults of the jobs of a tenant, when they are created.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobDefaultsSpec {
    /// The timeout of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<Seconds>,
    /// The rules for daylight saving time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// How long history is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionRule>,
}

impl JobDefaultsSpec {
    /// Defaults as they are shown; none if there are none.
    pub fn of(defaults: &JobDefaults) -> Option<Self> {
        (!defaults.is_empty()).then(|| JobDefaultsSpec {
            timeout_seconds: defaults.timeout.map(Seconds),
            dst: Dst::from_policy(defaults.dst),
            retention: RetentionRule::from_rule(defaults.retention),
        })
    }

    /// The defaults in the request.
    pub fn defaults(&self) -> Result<JobDefaults> {
        let timeout = self.timeout_seconds.map(|seconds| seconds.0);
        if timeout.is_some_and(|timeout| !timeout.is_positive()) {
            return Err(Problem::invalid("job_defaults.timeout_seconds", "must be more than 0"));
        }
        let retention = self.retention.as_ref().map(RetentionRule::rule).transpose()?;
        Ok(JobDefaults {
            timeout,
            dst: self.dst.map(Dst::policy).unwrap_or_default(),
            retention: retention.unwrap_or_default(),
        })
    }
}
