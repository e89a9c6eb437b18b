//! What the end of an attempt means for its run.

use jiff::SignedDuration;

use crate::job::{Definition, ErrorFilter, OnLost, RetryPolicy};
use crate::run::{AttemptEnd, AttemptResult, ErrorCode, Outcome, Reason, ReasonCode};

/// A run whose agents were lost this often has killed them: it ends.
pub const LOST_MAX: u32 = 3;

/// What becomes of the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// It ends.
    End {
        /// How.
        outcome: Outcome,
        /// Why, when it did not end well.
        reason: Option<Reason>,
        /// Whether it waits among the dead letters for somebody to look at it.
        dead_letter: bool,
    },
    /// Another attempt follows after this delay.
    Retry {
        /// How long to wait.
        delay: SignedDuration,
    },
}

/// Settles an attempt that ended on its own. `attempts` counts the ended ones before it, lost
/// ones not included; `chance` lies in 0..1 and is used only where the policy asks for jitter.
pub fn settle(
    definition: &Definition,
    attempts: u32,
    result: &AttemptResult,
    chance: f64,
) -> Settlement {
    let outcome = match result.end {
        AttemptEnd::Completed => {
            return Settlement::End {
                outcome: Outcome::Completed,
                reason: None,
                dead_letter: false,
            };
        }
        AttemptEnd::Cancelled => {
            let reason = Reason { code: ReasonCode::CancelRequested, text: result.message.clone() };
            return Settlement::End {
                outcome: Outcome::Cancelled,
                reason: Some(reason),
                dead_letter: false,
            };
        }
        AttemptEnd::Timeout => Outcome::Timeout,
        AttemptEnd::Failed | AttemptEnd::Lost => Outcome::Failed,
    };
    let retry = &definition.retry;
    if !is_retryable(retry, result.error.as_ref()) {
        let error = result.error.as_ref().map(ErrorCode::to_string).unwrap_or_default();
        return dead(outcome, ReasonCode::NotRetryable, format!("{error} is not tried again"));
    }
    if attempts + 1 >= retry.max_attempts {
        return dead(
            outcome,
            ReasonCode::RetriesExhausted,
            format!("attempt {} of {}", attempts + 1, retry.max_attempts),
        );
    }
    let delay = backoff(retry, attempts, chance).max(result.retry_after.unwrap_or_default());
    Settlement::Retry { delay }
}

/// Settles an attempt whose node was lost. `lost` counts the lost ones before it.
pub fn settle_lost(definition: &Definition, lost: u32) -> Settlement {
    if definition.on_lost == OnLost::Fail {
        return dead(
            Outcome::Failed,
            ReasonCode::Lost,
            "its node was lost, and the job runs at most once".to_owned(),
        );
    }
    if lost + 1 >= LOST_MAX {
        return dead(
            Outcome::Failed,
            ReasonCode::Lost,
            format!("its node was lost {} times", lost + 1),
        );
    }
    Settlement::Retry { delay: SignedDuration::ZERO }
}

fn dead(outcome: Outcome, code: ReasonCode, text: String) -> Settlement {
    Settlement::End { outcome, reason: Some(Reason { code, text }), dead_letter: true }
}

/// `backoff × multiplier^attempts`, capped, plus the jitter's part of it.
fn backoff(retry: &RetryPolicy, attempts: u32, chance: f64) -> SignedDuration {
    let cap = retry.max_backoff.as_secs_f64();
    let exact = (retry.backoff.as_secs_f64()
        * retry.multiplier.max(0.0).powi(attempts.min(1_000) as i32))
    .min(cap);
    let delay = (exact * (1.0 + retry.jitter.clamp(0.0, 1.0) * chance)).clamp(0.0, 1e12);
    SignedDuration::from_millis((delay * 1_000.0).round() as i64)
}

fn is_retryable(retry: &RetryPolicy, error: Option<&ErrorCode>) -> bool {
    let Some(error) = error else { return true };
    let listed = |filter: &ErrorFilter| contains(filter, error);
    !retry.no_retry_on.as_ref().is_some_and(listed) && retry.retry_on.as_ref().is_none_or(listed)
}

fn contains(filter: &ErrorFilter, error: &ErrorCode) -> bool {
    match error {
        ErrorCode::Exit(code) => filter.exit_codes.contains(code),
        ErrorCode::Http(status) => {
            filter.http_statuses.contains(status) || filter.http_statuses.contains(&(status / 100))
        }
        ErrorCode::SqlState(code) => {
            filter.sqlstates.iter().any(|listed| code.starts_with(listed.as_str()))
        }
        ErrorCode::Other(_) => false,
    }
}
