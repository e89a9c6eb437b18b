//! When a failed attempt is tried again.

use domain::job::{ErrorFilter, RetryPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::duration::Seconds;
use crate::problem::{Problem, Result};

/// How many attempts a run gets when the request does not say.
const MAX_ATTEMPTS_DEFAULT: u32 = 3;

/// When a failed attempt is tried again: `backoff_seconds × backoff_multiplier^n`, at most
/// `max_backoff_seconds`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryConfig {
    /// How many attempts a run gets in all; 3 when absent. A job that was created in SQL without
    /// `MAX_RETRIES` has 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_attempts: Option<u32>,
    /// The same without the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The delay before the second attempt; 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_seconds: Option<Seconds>,
    /// The factor of the delay for each further attempt; 2 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub backoff_multiplier: Option<f64>,
    /// The longest delay; 3600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backoff_seconds: Option<Seconds>,
    /// Up to this part of the delay is added by chance; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
    /// Only these errors are retried; when absent all but refusals by the server's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Errors>,
    /// These errors are never tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_retry_on: Option<Errors>,
}

/// A set of errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Errors {
    /// Exit codes of commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exit_codes: Vec<i32>,
    /// HTTP status codes; 5 stands for 500 to 599, and likewise 1 to 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_statuses: Vec<u16>,
    /// SQLSTATE codes, or their two-character classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sqlstates: Vec<String>,
}

impl From<Errors> for ErrorFilter {
    fn from(errors: Errors) -> Self {
        ErrorFilter {
            exit_codes: errors.exit_codes,
            http_statuses: errors.http_statuses,
            sqlstates: errors.sqlstates,
        }
    }
}

impl From<ErrorFilter> for Errors {
    fn from(filter: ErrorFilter) -> Self {
        Errors {
            exit_codes: filter.exit_codes,
            http_statuses: filter.http_statuses,
            sqlstates: filter.sqlstates,
        }
    }
}

impl RetryConfig {
    /// The policy that is meant.
    pub fn policy(self) -> Result<RetryPolicy> {
        let max_attempts = match (self.max_attempts, self.max_retries) {
            (Some(attempts), Some(retries)) if attempts != retries.saturating_add(1) => {
                return Err(Problem::invalid(
                    "retry_config.max_retries",
                    format!(
                        "contradicts max_attempts: {attempts} attempts are {} retries",
                        attempts.saturating_sub(1)
                    ),
                ));
            }
            (Some(attempts), _) => attempts,
            (None, Some(retries)) => retries.saturating_add(1),
            (None, None) => MAX_ATTEMPTS_DEFAULT,
        };
        let jitter = self.jitter.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&jitter) {
            return Err(Problem::invalid("retry_config.jitter", "must be 0 to 1"));
        }
        let default = RetryPolicy::default();
        Ok(RetryPolicy {
            max_attempts,
            backoff: self.backoff_seconds.map_or(default.backoff, |seconds| seconds.0),
            multiplier: self.backoff_multiplier.unwrap_or(default.multiplier),
            max_backoff: self.max_backoff_seconds.map_or(default.max_backoff, |seconds| seconds.0),
            jitter,
            retry_on: self.retry_on.map(Into::into),
            no_retry_on: self.no_retry_on.map(Into::into),
        })
    }

    /// The view of a policy.
    pub fn of(policy: &RetryPolicy) -> Self {
        RetryConfig {
            max_attempts: Some(policy.max_attempts),
            max_retries: Some(policy.max_attempts.saturating_sub(1)),
            backoff_seconds: Some(Seconds(policy.backoff)),
            backoff_multiplier: Some(policy.multiplier),
            max_backoff_seconds: Some(Seconds(policy.max_backoff)),
            jitter: (policy.jitter > 0.0).then_some(policy.jitter),
            retry_on: policy.retry_on.clone().map(Into::into),
            no_retry_on: policy.no_retry_on.clone().map(Into::into),
        }
    }
}
