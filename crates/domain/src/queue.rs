//! Queues and messages: the settings of a queue, the body of a message, and its settlement at the
//! end of a lease.
//!
//! A queue is a job with [`Definition::queue`]; a message is a run of it that workers pull. Retry
//! policy, timeout, concurrency, priority and retention are those of the job.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::decide::settle::{Settlement, settle};
use crate::job::Definition;
use crate::raw_json::RawJson;
use crate::run::{AttemptEnd, AttemptResult, Outcome, Reason, ReasonCode};

/// The largest payload, in bytes of JSON.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The largest number of messages of one request.
pub const BATCH_MAX: usize = 10_000;

/// The longest workspace, deduplication key or ordering key, in bytes.
pub const KEY_BYTES_MAX: usize = 200;

/// The most headers of a message, and the longest name and value of one, in bytes.
pub const HEADERS_MAX: usize = 64;
/// The longest value of a header, in bytes.
pub const HEADER_BYTES_MAX: usize = 4_096;

/// The shortest lease.
pub const LEASE_MIN: SignedDuration = SignedDuration::from_secs(1);

/// The longest lease.
pub const LEASE_MAX: SignedDuration = SignedDuration::from_hours(12);

/// The longest time that a deduplication key is kept.
pub const DEDUPLICATION_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The longest delay, and the longest time to live.
pub const DELAY_MAX: SignedDuration = SignedDuration::from_hours(24 * 366);

/// The largest weight of a workspace.
pub const WEIGHT_MAX: u32 = 100;

/// The settings that only a queue has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// How long a lease lasts if the worker does not ask for another time.
    pub lease: SignedDuration,
    /// Whether it takes no new messages: workers finish those that it has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_draining: bool,
    /// The maximum number of leased messages of one workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_concurrency: Option<u32>,
    /// The maximum number of leases per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// The maximum number of messages that have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// The least and the largest priority of a message; 0 to 9 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_range: Option<(u8, u8)>,
    /// Which completed messages are kept in the history.
    #[serde(skip_serializing_if = "KeepCompleted::is_all")]
    pub keep_completed: KeepCompleted,
    /// How many messages a workspace gets in one round; one if it is not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// How long a deduplication key is kept at least, from when its message was sent. It is kept
    /// as long as its message has not ended.
    pub deduplication: SignedDuration,
    /// A message that no worker has leased within this time ends as MISSED; none for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_live: Option<SignedDuration>,
}

/// Which completed messages or runs are kept in the history. All others are always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KeepCompleted {
    /// All of them.
    #[default]
    All,
    /// One of so many, chosen at random.
    Sample(u32),
    /// None of them.
    None,
}

impl KeepCompleted {
    /// Whether all are kept.
    pub fn is_all(&self) -> bool {
        *self == KeepCompleted::All
    }

    /// Whether a message that completed is kept; `chance` is in 0..1.
    pub fn keeps(self, chance: f64) -> bool {
        match self {
            KeepCompleted::All => true,
            KeepCompleted::Sample(n) => chance * f64::from(n.max(1)) < 1.0,
            KeepCompleted::None => false,
        }
    }

    /// A completed run is kept if the last four bytes of its id are below this, so that every node
    /// keeps the same ones; none if all are kept.
    pub fn kept_below(self) -> Option<[u8; 4]> {
        match self {
            KeepCompleted::All | KeepCompleted::Sample(0 | 1) => None,
            KeepCompleted::Sample(n) => Some((u32::MAX / n).to_be_bytes()),
            KeepCompleted::None => Some([0; 4]),
        }
    }

    /// `ALL`, `SAMPLE n` or `NONE`.
    pub fn words(self) -> String {
        match self {
            KeepCompleted::All => "ALL".to_owned(),
            KeepCompleted::Sample(n) => format!("SAMPLE {n}"),
            KeepCompleted::None => "NONE".to_owned(),
        }
    }

    /// Reads `ALL`, `SAMPLE n` or `NONE`.
    pub fn from_words(text: &str) -> Option<Self> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["ALL"] => Some(KeepCompleted::All),
            ["NONE"] => Some(KeepCompleted::None),
            ["SAMPLE", n] => n.parse().ok().filter(|n| *n > 0).map(KeepCompleted::Sample),
            _ => None,
        }
    }
}

impl Default for QueueSettings {
    fn default() -> Self {
        QueueSettings {
            lease: SignedDuration::from_secs(30),
            is_draining: false,
            workspace_concurrency: None,
            rate_per_second: None,
            max_depth: None,
            priority_range: None,
            keep_completed: KeepCompleted::All,
            weights: BTreeMap::new(),
            deduplication: SignedDuration::from_mins(5),
            time_to_live: None,
        }
    }
}

impl QueueSettings {
    /// The first setting that is out of range, by its REST name, and the problem.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let positive = |name, value: Option<u64>| match value {
            Some(0) => Err((name, "must be at least 1".to_owned())),
            _ => Ok(()),
        };
        positive("workspace_concurrency", self.workspace_concurrency.map(u64::from))?;
        positive("max_depth", self.max_depth)?;
        if self.rate_per_second.is_some_and(|rate| !(0.001..=1_000_000.0).contains(&rate)) {
            return Err(("rate_per_second", "must be between 0.001 and 1000000".to_owned()));
        }
        if self.lease < LEASE_MIN || self.lease > LEASE_MAX {
            return Err(("lease_seconds", "must be between 1 and 43200".to_owned()));
        }
        if self.deduplication.is_negative() || self.deduplication > DEDUPLICATION_MAX {
            return Err(("deduplication_seconds", "must be between 0 and 86400".to_owned()));
        }
        if self.time_to_live.is_some_and(|time| !time.is_positive() || time > DELAY_MAX) {
            return Err(("time_to_live_seconds", "must be between 1 and 31622400".to_owned()));
        }
        if let Some((least, most)) = self.priority_range
            && (least > most || most > 9)
        {
            return Err(("priority_range", "must be two numbers from 0 to 9".to_owned()));
        }
        if self.keep_completed == KeepCompleted::Sample(0) {
            return Err(("keep_completed", "SAMPLE needs a number from 1 on".to_owned()));
        }
        for (workspace, weight) in &self.weights {
            if *weight == 0 || *weight > WEIGHT_MAX {
                let problem = format!("the weight of {workspace:?} must be between 1 and 100");
                return Err(("weights", problem));
            }
        }
        Ok(())
    }
}

/// Payload and headers of a message: the parameters of its run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageBody {
    /// The payload, any JSON value, as it was sent.
    pub payload: RawJson,
    /// The workspace; empty for the one of messages that name none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// Headers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// One message of a key is leased at a time, in the order in which they were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// A second message with the same key is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication_key: Option<String>,
}

impl MessageBody {
    /// The stored text.
    pub fn to_parameters(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Parses a stored text; none if it is no message.
    pub fn from_parameters(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Report of a worker about a leased message.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// It is completed.
    Ack {
        /// The result, as JSON.
        result: Option<String>,
    },
    /// It failed, and is delivered again by the queue's policy.
    Nack {
        /// The error text.
        error: String,
        /// The delay before the next delivery, instead of the policy's.
        delay: Option<SignedDuration>,
    },
    /// It failed, and no other attempt can succeed: it becomes a dead letter.
    Fail {
        /// The error text.
        error: String,
    },
    /// The worker has not begun it: it is ready again, and no attempt is counted.
    Release,
    /// The lease ended without a report.
    Expired,
    /// The time limit of the message ended without a report.
    TimedOut,
}

/// Settles a message whose lease ends with this report. `attempts` counts the ended attempts before
/// this one, including lost ones. None for a release, which ends no attempt.
pub fn settle_message(
    definition: &Definition,
    attempts: u32,
    report: &Report,
    chance: impl FnOnce() -> f64,
) -> Option<(Settlement, AttemptResult)> {
    let failed = |message: &str| AttemptResult {
        end: AttemptEnd::Failed,
        message: message.to_owned(),
        ..AttemptResult::completed()
    };
    Some(match report {
        Report::Release => return None,
        Report::Ack { result } => {
            let result = AttemptResult { result: result.clone(), ..AttemptResult::completed() };
            (settle(definition, attempts, &result, chance), result)
        }
        Report::Nack { error, delay } => {
            let result = failed(error);
            let settlement = match (settle(definition, attempts, &result, chance), delay) {
                (Settlement::Retry { .. }, Some(delay)) => Settlement::Retry { delay: *delay },
                (settlement, _) => settlement,
            };
            (settlement, result)
        }
        Report::Fail { error } => {
            let text = "the worker reported a permanent failure".to_owned();
            let reason = Some(Reason { code: ReasonCode::NotRetryable, text });
            let end = Settlement::End { outcome: Outcome::Failed, reason, dead_letter: true };
            (end, failed(error))
        }
        Report::Expired => {
            let result = AttemptResult {
                end: AttemptEnd::Lost,
                message: "the lease ended without a report of the worker".to_owned(),
                ..AttemptResult::completed()
            };
            let settlement = match settle(definition, attempts, &result, chance) {
                // The time of the lease has passed already.
                Settlement::Retry { .. } => Settlement::Retry { delay: SignedDuration::ZERO },
                end @ (Settlement::End { .. } | Settlement::Hold { .. }) => end,
            };
            (settlement, result)
        }
        Report::TimedOut => {
            let result = AttemptResult {
                end: AttemptEnd::Timeout,
                message: "the time limit ended without a report of the worker".to_owned(),
                ..AttemptResult::completed()
            };
            (settle(definition, attempts, &result, chance), result)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RetryPolicy;

    fn words(settled: Option<(Settlement, AttemptResult)>) -> String {
        let Some((settlement, result)) = settled else { return "released".to_owned() };
        let end = result.end.name();
        match settlement {
            Settlement::Retry { delay } => format!("{end} retry {}s", delay.as_secs()),
            Settlement::Hold { timeout } => format!("{end} hold {}s", timeout.as_secs()),
            Settlement::End { outcome, reason, dead_letter } => {
                let reason = reason.map_or("", |reason| reason.code.name());
                format!("{end} {outcome} {reason}{}", if dead_letter { " dead" } else { "" })
            }
        }
    }

    #[test]
    fn every_report_has_its_meaning() {
        let retry = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
        let definition = Definition { retry, ..Definition::default() };
        let nack = |delay| Report::Nack { error: "no".into(), delay };
        let soon = Some(SignedDuration::from_secs(2));
        for (attempts, report, expected) in [
            (0, Report::Ack { result: None }, "COMPLETED COMPLETED "),
            (9, Report::Ack { result: None }, "COMPLETED COMPLETED "),
            (0, nack(None), "FAILED retry 60s"),
            (1, nack(None), "FAILED retry 120s"),
            (0, nack(soon), "FAILED retry 2s"),
            (2, nack(None), "FAILED FAILED RETRIES_EXHAUSTED dead"),
            (2, nack(soon), "FAILED FAILED RETRIES_EXHAUSTED dead"),
            (0, Report::Fail { error: "no".into() }, "FAILED FAILED NOT_RETRYABLE dead"),
            (0, Report::Expired, "LOST retry 0s"),
            (1, Report::Expired, "LOST retry 0s"),
            (2, Report::Expired, "LOST FAILED RETRIES_EXHAUSTED dead"),
            (0, Report::TimedOut, "TIMEOUT retry 60s"),
            (2, Report::TimedOut, "TIMEOUT TIMEOUT RETRIES_EXHAUSTED dead"),
            (2, Report::Release, "released"),
        ] {
            let settled = settle_message(&definition, attempts, &report, || 0.0);
            assert_eq!(words(settled), expected, "{attempts} {report:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let usual = QueueSettings::default;
        let weights = |weight| BTreeMap::from([("a".to_owned(), weight)]);
        for (settings, field) in [
            (usual(), None),
            (QueueSettings { max_depth: Some(0), ..usual() }, Some("max_depth")),
            (QueueSettings { lease: SignedDuration::ZERO, ..usual() }, Some("lease_seconds")),
            (QueueSettings { rate_per_second: Some(f64::NAN), ..usual() }, Some("rate_per_second")),
            (QueueSettings { rate_per_second: Some(0.0), ..usual() }, Some("rate_per_second")),
            (QueueSettings { rate_per_second: Some(0.5), ..usual() }, None),
            (
                QueueSettings { workspace_concurrency: Some(0), ..usual() },
                Some("workspace_concurrency"),
            ),
            (QueueSettings { priority_range: Some((5, 4)), ..usual() }, Some("priority_range")),
            (QueueSettings { priority_range: Some((3, 3)), ..usual() }, None),
            (
                QueueSettings { keep_completed: KeepCompleted::Sample(0), ..usual() },
                Some("keep_completed"),
            ),
            (QueueSettings { weights: weights(0), ..usual() }, Some("weights")),
            (QueueSettings { weights: weights(3), ..usual() }, None),
            (
                QueueSettings { deduplication: SignedDuration::from_hours(25), ..usual() },
                Some("deduplication_seconds"),
            ),
            (
                QueueSettings { time_to_live: Some(SignedDuration::ZERO), ..usual() },
                Some("time_to_live_seconds"),
            ),
        ] {
            assert_eq!(settings.check().err().map(|(field, _)| field), field, "{settings:?}");
        }
    }

    #[test]
    fn a_sample_keeps_one_of_so_many() {
        for (keep, chance, expected) in [
            (KeepCompleted::All, 0.99, true),
            (KeepCompleted::None, 0.0, false),
            (KeepCompleted::Sample(1), 0.99, true),
            (KeepCompleted::Sample(10), 0.099, true),
            (KeepCompleted::Sample(10), 0.1, false),
        ] {
            assert_eq!(keep.keeps(chance), expected, "{keep:?} {chance}");
        }
    }

    #[test]
    fn a_body_is_read_as_it_was_written() {
        let body = MessageBody {
            payload: RawJson::from_text(r#"{"n": 123456789012345678901, "text": "ü"}"#).unwrap(),
            workspace: "acme".into(),
            headers: BTreeMap::from([("trace".to_owned(), "1".to_owned())]),
            ordering_key: Some("k".into()),
            deduplication_key: None,
        };
        assert_eq!(MessageBody::from_parameters(&body.to_parameters()), Some(body));
        assert_eq!(MessageBody::from_parameters("{}"), None);
    }
}
