//! The effect of the end of an attempt on its run.

use jiff::SignedDuration;

use crate::job::{Definition, ErrorFilter, OnLost, RetryPolicy};
use crate::run::{AttemptEnd, AttemptResult, ErrorCode, Outcome, Reason, ReasonCode};

/// A run whose node was lost this often ends: it probably kills its nodes.
pub const LOST_MAX: u32 = 3;

/// The next state of the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The run ends.
    End {
        /// The outcome.
        outcome: Outcome,
        /// The reason, if it did not complete.
        reason: Option<Reason>,
        /// Whether it becomes a dead letter.
        dead_letter: bool,
    },
    /// Another attempt follows.
    Retry {
        /// The delay before the next attempt.
        delay: SignedDuration,
    },
    /// A user decides about the run.
    Hold {
        /// How long it waits for the decision.
        timeout: SignedDuration,
    },
}

/// Settles an attempt that ended by itself. `attempts` counts the ended ones before it, without
/// lost ones; `chance` is in 0..1 and is used only for the jitter of the policy.
pub fn settle(
    definition: &Definition,
    attempts: u32,
    result: &AttemptResult,
    chance: impl FnOnce() -> f64,
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
        let why = match result.error.as_ref().is_some_and(ErrorCode::is_refusal) {
            true => "refused by policy",
            false => "excluded from retries by the job",
        };
        return dead(outcome, ReasonCode::NotRetryable, format!("{error} is not retried: {why}"));
    }
    if attempts + 1 >= retry.max_attempts {
        return dead(
            outcome,
            ReasonCode::RetriesExhausted,
            format!("attempt {} of {}", attempts + 1, retry.max_attempts),
        );
    }
    let delay = backoff(retry, attempts, chance()).max(result.retry_after.unwrap_or_default());
    Settlement::Retry { delay }
}

/// Settles an attempt whose node was lost. `lost` counts the lost ones before it.
pub fn settle_lost(definition: &Definition, lost: u32) -> Settlement {
    if definition.on_lost == OnLost::Ask {
        return Settlement::Hold { timeout: definition.lost_question.timeout };
    }
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

/// `backoff × multiplier^attempts`, capped, plus the jitter.
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
    let wanted = retry.retry_on.as_ref().map_or(!error.is_refusal(), listed);
    wanted && !retry.no_retry_on.as_ref().is_some_and(listed)
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
        ErrorCode::Signal(_) | ErrorCode::Refused(_) | ErrorCode::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: ErrorCode) -> AttemptResult {
        AttemptResult::failed(error, "no")
    }

    /// `retry 60s`, or `FAILED RETRIES_EXHAUSTED dead`.
    fn words(settlement: &Settlement) -> String {
        match settlement {
            Settlement::Retry { delay } => format!("retry {}ms", delay.as_millis()),
            Settlement::Hold { timeout } => format!("hold {}s", timeout.as_secs()),
            Settlement::End { outcome, reason, dead_letter } => {
                let reason = reason.as_ref().map_or("", |reason| reason.code.name());
                format!("{outcome} {reason}{}", if *dead_letter { " dead" } else { "" })
            }
        }
    }

    #[test]
    fn four_attempts_with_doubling_delays_by_default() {
        let definition = Definition::default();
        let error = failed(ErrorCode::Exit(1));
        for (attempts, expected) in [
            (0, "retry 60000ms"),
            (1, "retry 120000ms"),
            (2, "retry 240000ms"),
            (3, "FAILED RETRIES_EXHAUSTED dead"),
            (9, "FAILED RETRIES_EXHAUSTED dead"),
        ] {
            assert_eq!(
                words(&settle(&definition, attempts, &error, || 0.5)),
                expected,
                "after {attempts}"
            );
        }
    }

    #[test]
    fn every_end_has_its_meaning() {
        let definition = Definition::default();
        let ended = |end| AttemptResult { end, ..AttemptResult::completed() };
        for (attempts, end, expected) in [
            (0, AttemptEnd::Completed, "COMPLETED "),
            (0, AttemptEnd::Cancelled, "CANCELLED CANCEL_REQUESTED"),
            (0, AttemptEnd::Timeout, "retry 60000ms"),
            (3, AttemptEnd::Timeout, "TIMEOUT RETRIES_EXHAUSTED dead"),
            (3, AttemptEnd::Failed, "FAILED RETRIES_EXHAUSTED dead"),
        ] {
            assert_eq!(
                words(&settle(&definition, attempts, &ended(end), || 0.0)),
                expected,
                "{end:?}"
            );
        }
    }

    #[test]
    fn delays_are_capped_and_spread_and_respect_the_target() {
        let retry = RetryPolicy { max_attempts: 100, jitter: 0.5, ..RetryPolicy::default() };
        let definition = Definition { retry, ..Definition::default() };
        let mut error = failed(ErrorCode::Http(503));
        for (attempts, chance, expected) in [
            (0, 0.0, "retry 60000ms"),
            (0, 1.0, "retry 90000ms"),
            (6, 0.0, "retry 3600000ms"),
            (90, 0.0, "retry 3600000ms"),
        ] {
            assert_eq!(words(&settle(&definition, attempts, &error, || chance)), expected);
        }
        error.retry_after = Some(SignedDuration::from_mins(5));
        assert_eq!(words(&settle(&definition, 0, &error, || 0.0)), "retry 300000ms");
    }

    #[test]
    fn filters_say_what_is_tried_again() {
        let only = ErrorFilter {
            exit_codes: vec![75],
            http_statuses: vec![429, 5],
            sqlstates: vec!["40".into(), "57P01".into()],
        };
        let never = ErrorFilter { http_statuses: vec![501], ..ErrorFilter::default() };
        let retry = RetryPolicy {
            retry_on: Some(only),
            no_retry_on: Some(never),
            ..RetryPolicy::default()
        };
        let definition = Definition { retry, ..Definition::default() };
        for (error, again) in [
            (ErrorCode::Exit(75), true),
            (ErrorCode::Exit(1), false),
            (ErrorCode::Http(429), true),
            (ErrorCode::Http(503), true),
            (ErrorCode::Http(501), false),
            (ErrorCode::Http(404), false),
            (ErrorCode::SqlState("40001".into()), true),
            (ErrorCode::SqlState("57P01".into()), true),
            (ErrorCode::SqlState("42601".into()), false),
            (ErrorCode::Other("DNS".into()), false),
        ] {
            let expected = if again { "retry 60000ms" } else { "FAILED NOT_RETRYABLE dead" };
            assert_eq!(
                words(&settle(&definition, 0, &failed(error.clone()), || 0.0)),
                expected,
                "{error}"
            );
        }
    }

    #[test]
    fn every_failure_but_a_refusal_by_policy_is_retried_until_the_attempts_are_used_up() {
        let definition = Definition::default();
        for (error, is_retried) in [
            (ErrorCode::SqlState("42601".into()), true),
            (ErrorCode::SqlState("42P01".into()), true),
            (ErrorCode::SqlState("0A000".into()), true),
            (ErrorCode::SqlState("28P01".into()), true),
            (ErrorCode::SqlState("40P01".into()), true),
            (ErrorCode::Signal(9), true),
            (ErrorCode::Http(404), true),
            (ErrorCode::Other("COMMAND_NOT_FOUND".into()), true),
            (ErrorCode::Refused("COMMAND_NOT_ALLOWED".into()), false),
        ] {
            let rows = match is_retried {
                true => [(0, "retry 60000ms"), (3, "FAILED RETRIES_EXHAUSTED dead")],
                false => [(0, "FAILED NOT_RETRYABLE dead"), (3, "FAILED NOT_RETRYABLE dead")],
            };
            for (attempts, expected) in rows {
                let answer = settle(&definition, attempts, &failed(error.clone()), || 0.0);
                assert_eq!(words(&answer), expected, "{error} after {attempts}");
            }
        }
    }

    #[test]
    fn a_lost_attempt_does_not_cost_a_retry_but_poison_ends() {
        let again = Definition::default();
        let once = Definition { on_lost: OnLost::Fail, ..Definition::default() };
        let ask = Definition { on_lost: OnLost::Ask, ..Definition::default() };
        for (definition, lost, expected) in [
            (&ask, 0, "hold 86400s"),
            (&ask, 9, "hold 86400s"),
            (&again, 0, "retry 0ms"),
            (&again, 1, "retry 0ms"),
            (&again, 2, "FAILED LOST dead"),
            (&once, 0, "FAILED LOST dead"),
        ] {
            assert_eq!(words(&settle_lost(definition, lost)), expected);
        }
    }
}
