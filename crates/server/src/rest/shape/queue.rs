//! Queues and messages as REST shows them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::job::{Definition, Job, JobState};
use domain::queue::{
    DEDUPLICATION_MAX, DELAY_MAX, HEADER_BYTES_MAX, HEADERS_MAX, KEY_BYTES_MAX, MessageBody,
    PAYLOAD_BYTES_MAX, QueueSettings,
};
use domain::raw_json::RawJson;
use engine::{LeasedMessage, Message, QueueDepth, RunView};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use super::duration::Seconds;
use super::retention::{RetentionRule, keep_completed};
use super::retry::RetryConfig;
use crate::problem::{Problem, Result};

/// A queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Unique among the queues and jobs of the tenant.
    #[schema(min_length = 1, max_length = 255, example = "emails")]
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How long a lease lasts if the worker does not ask for another time; 30 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<Seconds>,
    /// When a failed or lost attempt is followed by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
    /// The most messages that workers have at the same time; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// The same for the messages of one workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub workspace_concurrency: Option<u32>,
    /// The most messages that workers get in a second; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.001, maximum = 1_000_000.0)]
    pub rate_per_second: Option<f64>,
    /// The most messages that have not ended; a send beyond it is answered with 429.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_depth: Option<u64>,
    /// How many messages a workspace gets in one round, by its name; 1 for those that are not here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub weights: BTreeMap<String, u32>,
    /// The priority of messages that have none, 0 to 9, higher is more urgent; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9)]
    pub priority: Option<u8>,
    /// How long a deduplication key is kept at least; 300 when absent, at most 86400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication_seconds: Option<Seconds>,
    /// A message that no worker gets within this time ends as MISSED; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_seconds: Option<Seconds>,
    /// How long an attempt may take, from when its worker says that it has begun; 3600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<Seconds>,
    /// The least and the largest priority of a message; 0 and 9 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 2)]
    pub priority_range: Option<[u8; 2]>,
    /// Which completed messages are kept in the history: `ALL`, `SAMPLE 100` (one of a hundred) or
    /// `NONE`. All others are kept as the retention says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "ALL")]
    pub keep_completed: Option<String>,
    /// How long ended messages are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionRule>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub tags: Vec<String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// The fields that an answer has and a request does not.
pub const READ_ONLY: [&str; 8] = [
    "queue_id",
    "status",
    "ready",
    "delayed",
    "leased",
    "blocked",
    "oldest_ready_at",
    "created_at",
];

impl QueueSpec {
    /// The definition in the request.
    pub fn definition(&self) -> Result<Definition> {
        super::job::check_tags(&self.tags)?;
        let (usual, default) = (QueueSettings::default(), Definition::default());
        let retention = self.retention.clone().unwrap_or_default();
        let or = |given: Option<Seconds>, default| given.map_or(default, |seconds| seconds.0);
        let queue = QueueSettings {
            lease: or(self.lease_seconds, usual.lease),
            is_draining: false,
            priority_range: self.priority_range.map(|[least, most]| (least, most)),
            keep_completed: keep_completed(self.keep_completed.as_deref().unwrap_or("ALL"))?,
            workspace_concurrency: self.workspace_concurrency,
            rate_per_second: self.rate_per_second,
            max_depth: self.max_depth,
            weights: self.weights.clone(),
            deduplication: or(self.deduplication_seconds, usual.deduplication),
            time_to_live: self.time_to_live_seconds.map(|seconds| seconds.0),
        };
        queue.check().map_err(|(field, problem)| Problem::invalid(field, problem))?;
        let range = queue.priority_range.unwrap_or((0, 9));
        // A queue without a priority of its own has the usual one, or the nearest in its range.
        let priority = self.priority.unwrap_or(default.priority.clamp(range.0, range.1));
        if !(range.0..=range.1).contains(&priority) {
            return Err(Problem::invalid("priority", "must be in priority_range"));
        }
        let timeout = or(self.timeout_seconds, default.timeout);
        if !timeout.is_positive() || timeout > DELAY_MAX {
            return Err(Problem::invalid("timeout_seconds", "must be between 1 and 31622400"));
        }
        Ok(Definition {
            description: self.description.clone(),
            retry: self.retry_config.clone().unwrap_or_default().policy()?,
            concurrency: self.concurrency,
            priority,
            timeout,
            retention: retention.rule()?,
            tags: self.tags.clone(),
            queue: Some(queue),
            ..default
        })
    }

    /// A queue as it can be changed.
    pub fn of(job: &Job) -> Self {
        let version = Some(job.version);
        QueueSpec { version, ..QueueSpec::from_definition(&job.name, &job.definition) }
    }

    /// The settings of a definition, with every default.
    pub fn from_definition(name: &str, definition: &Definition) -> Self {
        let settings = definition.queue.clone().unwrap_or_default();
        QueueSpec {
            name: name.to_owned(),
            description: definition.description.clone(),
            lease_seconds: Some(Seconds(settings.lease)),
            retry_config: Some(RetryConfig::of(&definition.retry)),
            concurrency: definition.concurrency,
            workspace_concurrency: settings.workspace_concurrency,
            rate_per_second: settings.rate_per_second,
            max_depth: settings.max_depth,
            weights: settings.weights,
            priority: Some(definition.priority),
            deduplication_seconds: Some(Seconds(settings.deduplication)),
            time_to_live_seconds: settings.time_to_live.map(Seconds),
            timeout_seconds: Some(Seconds(definition.timeout)),
            priority_range: settings.priority_range.map(|(least, most)| [least, most]),
            keep_completed: (!settings.keep_completed.is_all())
                .then(|| settings.keep_completed.words()),
            retention: RetentionRule::from_rule(definition.retention),
            tags: definition.tags.clone(),
            version: None,
        }
    }
}

/// The state of a queue in words.
pub(crate) fn status_of(queue: &Job) -> &'static str {
    match queue.state {
        JobState::Paused => "PAUSED",
        _ if queue.definition.queue.as_ref().is_some_and(|it| it.is_draining) => "DRAINING",
        _ => "ACTIVE",
    }
}

/// A queue as it is shown.
#[derive(Debug, Serialize)]
pub struct QueueView {
    /// Its state and its messages.
    #[serde(flatten)]
    pub record: QueueRecord,
    /// Its settings.
    #[serde(flatten)]
    pub spec: QueueSpec,
}

/// The state of a queue besides its settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueRecord {
    /// Its identity.
    pub queue_id: Uuid,
    /// `ACTIVE`; `PAUSED`: workers get no message of it; `DRAINING`: it takes no new messages.
    #[schema(example = "ACTIVE")]
    pub status: &'static str,
    /// Messages that workers can get.
    pub ready: u64,
    /// Messages whose time has not come.
    pub delayed: u64,
    /// Messages that workers have.
    pub leased: u64,
    /// Messages behind an earlier one with their ordering key.
    pub blocked: u64,
    /// Since when the oldest ready message can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The fields of both in one object: the settings on their own refuse those of the other.
impl PartialSchema for QueueView {
    fn schema() -> RefOr<Schema> {
        let (mut shown, record) = match (QueueSpec::schema(), QueueRecord::schema()) {
            (RefOr::T(Schema::Object(spec)), RefOr::T(Schema::Object(record))) => (spec, record),
            (other, _) => return other,
        };
        shown.description = Some("A queue as it is shown.".to_owned());
        shown.additional_properties = None;
        shown.properties.extend(record.properties);
        shown.required.extend(record.required);
        shown.into()
    }
}

impl ToSchema for QueueView {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("QueueView")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        QueueSpec::schemas(schemas);
        QueueRecord::schemas(schemas);
    }
}

impl QueueView {
    /// A queue with its messages counted.
    pub fn of(job: &Job, depth: QueueDepth) -> Self {
        let record = QueueRecord {
            queue_id: job.id.0,
            status: status_of(job),
            ready: depth.ready,
            delayed: depth.delayed,
            leased: depth.leased,
            blocked: depth.blocked,
            oldest_ready_at: depth.oldest_ready,
            created_at: job.created_at,
        };
        QueueView { record, spec: QueueSpec::of(job) }
    }
}

/// A message to be sent.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    /// Any JSON value, up to 1 MiB. Workers get it as it was written.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub payload: RawJson,
    /// Workspaces get their messages in turns; an empty one when absent.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub workspace: String,
    /// 0 to 9, higher is more urgent; that of the queue when absent.
    #[serde(default)]
    #[schema(maximum = 9)]
    pub priority: Option<u8>,
    /// No worker gets it before this time has passed.
    #[serde(default)]
    pub delay_seconds: Option<Seconds>,
    /// No worker gets it before this time.
    #[serde(default)]
    pub process_after: Option<Timestamp>,
    /// It ends as MISSED if no worker gets it within this time; as the queue says when absent.
    #[serde(default)]
    pub time_to_live_seconds: Option<Seconds>,
    /// A second message with the same key is not recorded; the answer has the id of the first.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub deduplication_key: Option<String>,
    /// How long the key is kept at least; as the queue says when absent, at most 86400.
    #[serde(default)]
    pub deduplication_seconds: Option<Seconds>,
    /// Workers have one message of a key at a time, in the order in which they were sent.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub ordering_key: Option<String>,
    /// Up to 64 headers, by name.
    #[serde(default)]
    #[schema(required = false)]
    pub headers: BTreeMap<String, String>,
}

impl MessageSpec {
    /// The message in the request; `place` is its position there.
    pub fn message(self, place: &str, now: Timestamp) -> Result<Message> {
        let invalid = |field: &str, problem: &str| {
            Err(Problem::invalid(format!("{place}{field}"), problem.to_owned()))
        };
        if self.priority.is_some_and(|priority| priority > 9) {
            return invalid("priority", "must be 0 to 9");
        }
        let keys = [
            ("workspace", Some(&self.workspace)),
            ("deduplication_key", self.deduplication_key.as_ref()),
            ("ordering_key", self.ordering_key.as_ref()),
        ];
        for (field, key) in keys {
            if key.is_some_and(|key| key.len() > KEY_BYTES_MAX || key.contains('\0')) {
                return invalid(field, "must have at most 200 bytes and no NUL character");
            }
        }
        if self.deduplication_key.as_deref() == Some("") || self.ordering_key.as_deref() == Some("")
        {
            return invalid("", "a key must not be empty; leave it out instead");
        }
        let long = |(name, value): (&String, &String)| {
            name.is_empty() || name.len() > KEY_BYTES_MAX || value.len() > HEADER_BYTES_MAX
        };
        if self.headers.len() > HEADERS_MAX || self.headers.iter().any(long) {
            return invalid("headers", "at most 64 headers, names to 200 and values to 4096 bytes");
        }
        if let Err(error) = self.payload.check() {
            return invalid("payload", &format!("cannot be read: {error}"));
        }
        let bytes = self.payload.text().len();
        if bytes > PAYLOAD_BYTES_MAX {
            let problem = format!("has {bytes} bytes; the most are {PAYLOAD_BYTES_MAX}");
            return invalid("payload", &problem);
        }
        let process_after = match (self.delay_seconds, self.process_after) {
            (Some(_), Some(_)) => {
                return invalid("delay_seconds", "give one of delay_seconds and process_after");
            }
            (Some(delay), None) => now.saturating_add(delay.0).ok(),
            (None, after) => after,
        };
        if process_after.is_some_and(|after| after.duration_since(now) > DELAY_MAX) {
            return invalid("process_after", "must be within a year");
        }
        let time_to_live = self.time_to_live_seconds.map(|seconds| seconds.0);
        if time_to_live.is_some_and(|time| !time.is_positive() || time > DELAY_MAX) {
            return invalid("time_to_live_seconds", "must be between 1 and 31622400");
        }
        let deduplication = self.deduplication_seconds.map(|seconds| seconds.0);
        if deduplication.is_some_and(|time| time > DEDUPLICATION_MAX) {
            return invalid("deduplication_seconds", "must be at most 86400");
        }
        Ok(Message {
            body: MessageBody {
                payload: self.payload,
                workspace: self.workspace,
                headers: self.headers,
                ordering_key: self.ordering_key,
                deduplication_key: self.deduplication_key,
            },
            priority: self.priority,
            process_after,
            time_to_live,
            deduplication,
        })
    }
}

/// A message that was sent.
#[derive(Serialize, ToSchema)]
pub struct SentMessage {
    /// Its id.
    pub id: Uuid,
    /// Whether another message with its deduplication key was sent before: this is that one's id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub is_duplicate: bool,
}

/// A message as a worker gets it.
#[derive(Serialize, ToSchema)]
pub struct LeasedMessageView {
    /// Its id.
    pub id: Uuid,
    /// The same: a message is an execution.
    pub execution_id: Uuid,
    /// The name of its queue.
    pub queue: String,
    /// The id of its queue.
    pub job_id: Uuid,
    /// The tenant.
    pub tenant_id: Uuid,
    /// The fencing token of the lease: larger than that of every lease before.
    pub fence: i64,
    /// The workspace.
    pub workspace: String,
    /// The payload.
    #[schema(value_type = Value)]
    pub payload: RawJson,
    /// The headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub headers: BTreeMap<String, String>,
    /// The ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// The priority.
    pub priority: u8,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The same.
    pub attempt_number: u32,
    /// How many attempts are made at most.
    pub max_attempts: u32,
    /// The delay before the second attempt.
    pub retry_delay_seconds: Seconds,
    /// How long an attempt may take. It begins with the lease; in a session when the worker says
    /// that it has begun.
    pub timeout_seconds: Seconds,
    /// When it was sent, or was to be processed.
    pub sent_at: Timestamp,
    /// The same.
    pub scheduled_time: Timestamp,
    /// When it was recorded.
    pub enqueued_at: Timestamp,
    /// The header `correlation_id`, otherwise the run that sent it, otherwise its own id.
    pub correlation_id: String,
    /// When the lease ends.
    pub lease_until: Timestamp,
}

/// The body of a stored message; empty if it cannot be read.
fn body_of(parameters: Option<&str>) -> MessageBody {
    parameters.and_then(MessageBody::from_parameters).unwrap_or_default()
}

impl LeasedMessageView {
    /// A message of a queue.
    pub fn new(queue: &Job, leased: LeasedMessage) -> Self {
        let body = body_of(leased.parameters.as_deref());
        let sender = ["correlation_id", "punctual-run"].map(|name| body.headers.get(name).cloned());
        let correlation_id = sender.into_iter().flatten().next();
        LeasedMessageView {
            id: leased.id.0,
            execution_id: leased.id.0,
            queue: queue.name.clone(),
            job_id: queue.id.0,
            tenant_id: queue.tenant.0,
            fence: leased.fence,
            workspace: leased.workspace,
            payload: body.payload,
            headers: body.headers,
            ordering_key: body.ordering_key,
            priority: leased.priority,
            attempt: leased.attempt,
            attempt_number: leased.attempt,
            max_attempts: queue.definition.retry.max_attempts,
            retry_delay_seconds: Seconds(queue.definition.retry.backoff),
            timeout_seconds: Seconds(queue.definition.timeout),
            sent_at: leased.scheduled_for,
            scheduled_time: leased.scheduled_for,
            enqueued_at: leased.created_at,
            correlation_id: correlation_id.unwrap_or_else(|| leased.id.to_string()),
            lease_until: leased.lease_until,
        }
    }
}

/// A message as it is shown.
#[derive(Serialize, ToSchema)]
pub struct MessageView {
    /// Its id; it is an execution of the same id too.
    pub id: Uuid,
    /// `PENDING` (delayed), `QUEUED` (ready or blocked), `RUNNING` (leased), or how it ended.
    #[schema(example = "QUEUED")]
    pub status: String,
    /// The workspace.
    pub workspace: String,
    /// The payload.
    #[schema(value_type = Value)]
    pub payload: RawJson,
    /// The headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub headers: BTreeMap<String, String>,
    /// The ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// The deduplication key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplication_key: Option<String>,
    /// How many attempts have ended.
    pub attempts: u32,
    /// When it was sent, or was to be processed.
    pub sent_at: Timestamp,
    /// When it can be had, or could be had first.
    pub due_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Why it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last message of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The result that the worker gave, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<RawJson>,
    /// Whether it waits as a dead letter.
    pub is_dead_letter: bool,
    /// The last progress of its worker, while it runs. One message alone shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub progress: Option<RawJson>,
    /// When its lease ends. One message alone shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
}

impl MessageView {
    /// A message, live or ended.
    pub fn of(run: RunView) -> Self {
        let body = body_of(run.parameters.as_deref());
        MessageView {
            id: run.id.0,
            status: run.state.to_string(),
            workspace: body.workspace,
            payload: body.payload,
            headers: body.headers,
            ordering_key: body.ordering_key,
            deduplication_key: body.deduplication_key,
            attempts: run.attempts + run.lost,
            sent_at: run.scheduled_for,
            due_at: run.due_at,
            finished_at: run.finished_at,
            reason: run.reason,
            message: run.message,
            result: run.result.and_then(|text| RawJson::from_text(&text).ok()),
            is_dead_letter: run.dead_letter,
            progress: None,
            lease_until: None,
        }
    }
}
