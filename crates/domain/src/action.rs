//! The action of a job, as it was written. The agent executes it.
//!
//! Texts may refer to secrets with `${secrets.NAME}`; references are stored unchanged and resolved
//! by the agent.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::artifact::{ArtifactReference, Entrypoint, PinnedArtifact, VersionReference};
use crate::id::{JobId, RunId, TenantId};
use crate::queue::{KEY_BYTES_MAX, MessageBody, PAYLOAD_BYTES_MAX};
use crate::slot::SlotKind;

/// The maximum length of a statement, a body or a list of arguments, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The default timeout of an attempt.
pub const TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// The default timeout of HTTP jobs: an endpoint that has not answered by then rarely does, and
/// each waiting call keeps a connection open.
pub const HTTP_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The action of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "type")]
pub enum Action {
    /// Does nothing, successfully.
    #[default]
    Noop,
    /// Calls an endpoint.
    Http(HttpAction),
    /// Runs statements in a database.
    Sql(SqlAction),
    /// Calls a procedure of a database.
    Procedure(ProcedureAction),
    /// Starts a command.
    External(ExternalAction),
    /// Makes a backup of the server.
    Backup(BackupAction),
    /// Sends a message to a queue.
    Queue(QueueAction),
    /// Runs an artifact.
    Artifact(ArtifactAction),
}

/// An HTTP request and its expected statuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpAction {
    /// The address of the endpoint.
    pub endpoint: String,
    /// The HTTP method.
    #[serde(default = "post")]
    pub method: String,
    /// Headers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a string is sent unchanged, other values as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The statuses that mean success; 2 stands for 200 to 299, and likewise 1 to 5. The 2xx if
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_status: Vec<u16>,
}

fn post() -> String {
    "POST".to_owned()
}

/// Statements for a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlAction {
    /// The statements. `:name` refers to a parameter.
    pub sql: String,
    /// The name of a database; the default one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A procedure of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureAction {
    /// Its name, with or without a schema.
    pub procedure: String,
    /// The arguments, in order. A string `:name` refers to a parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Value>,
    /// The name of a database; the default one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A command. It is not interpreted by a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAction {
    /// The path of the program.
    pub command: String,
    /// The arguments, passed unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables, as far as the administrator allows them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// An artifact of the same tenant, and what is executed of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactAction {
    /// The version: `name@3`; `name` for the newest one when the job is defined; `name@latest`,
    /// together with `floating`, for the newest one at each start.
    #[serde(alias = "artifact")]
    pub artifact_id: String,
    /// `module:function` of Python, or the path of an executable file in the artifact.
    pub entrypoint: String,
    /// The arguments of an executable file, passed unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Whether each run takes the newest version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub floating: bool,
    /// The version that the reference meant when the job was defined. The server sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<PinnedArtifact>,
}

impl ArtifactAction {
    fn check(&self) -> Result<(), ActionError> {
        let wrong = |field, problem: String| Err(ActionError { field, problem });
        let reference = match self.artifact_id.parse::<ArtifactReference>() {
            Ok(reference) => reference,
            Err(error) => return wrong("artifact_id", error.to_string()),
        };
        let is_latest = reference.version == VersionReference::Latest;
        if is_latest && !self.floating {
            let problem = format!(
                "{reference} changes without the job: name a version such as {}@3, or say FLOATING",
                reference.name
            );
            return wrong("artifact_id", problem);
        }
        if self.floating && !is_latest {
            let problem = format!("needs {}@latest instead of {reference}", reference.name);
            return wrong("floating", problem);
        }
        let entrypoint = match self.entrypoint.parse::<Entrypoint>() {
            Ok(entrypoint) => entrypoint,
            Err(error) => return wrong("entrypoint", error.to_string()),
        };
        if matches!(entrypoint, Entrypoint::Python { .. }) && !self.arguments.is_empty() {
            let problem = "a function has none: it gets the context and its parameters";
            return wrong("arguments", problem.into());
        }
        check_arguments(&self.arguments)?;
        check_environment(&self.environment)?;
        match self.environment.keys().find(|name| name.starts_with("PUNCTUAL_")) {
            Some(name) => wrong("environment", format!("{name} is set by the agent")),
            None => Ok(()),
        }
    }
}

fn check_arguments(arguments: &[String]) -> Result<(), ActionError> {
    let wrong = |problem: String| Err(ActionError { field: "arguments", problem });
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return wrong("must not contain a zero byte".into());
    }
    let length: usize = arguments.iter().map(String::len).sum();
    match length > TEXT_BYTES_MAX {
        true => wrong(format!("are longer than {TEXT_BYTES_MAX} bytes")),
        false => Ok(()),
    }
}

fn check_environment(environment: &BTreeMap<String, String>) -> Result<(), ActionError> {
    let bad = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match environment.iter().find(bad) {
        Some((name, _)) => {
            let problem = format!("{name:?} is not a variable name");
            Err(ActionError { field: "environment", problem })
        }
        None => Ok(()),
    }
}

/// A backup of the server that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupAction {
    /// The name of a target in the settings.
    pub target: String,
    /// How many backups stay in the target; older ones are deleted when a new one is complete. All
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Whether it contains the outputs of runs.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub outputs: bool,
    /// Whether it contains the archives of artifacts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub artifacts: bool,
}

/// A message for a queue of the same tenant. Parameters of the run are added to a payload that is a
/// JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueAction {
    /// The name of the queue.
    pub queue: String,
    /// The payload.
    #[serde(default)]
    pub message: Value,
    /// The workspace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// 0 to 9; that of the queue if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Whether the run ends with the outcome of the message, and not when the message is recorded.
    #[serde(default, rename = "await", skip_serializing_if = "std::ops::Not::not")]
    pub awaits: bool,
    /// How the interval of the job follows the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveInterval>,
}

/// An interval that follows a metric of a queue: while the metric is above the target the interval
/// doubles with each run, while it is below half of it the interval halves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveInterval {
    /// The metric.
    pub metric: QueueMetric,
    /// Messages, or seconds.
    pub target: f64,
    /// The shortest interval.
    pub min_seconds: f64,
    /// The longest interval.
    pub max_seconds: f64,
}

/// A metric of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum QueueMetric {
    /// How many messages have not ended.
    Depth,
    /// For how many seconds the oldest ready message has waited.
    Age,
}

impl AdaptiveInterval {
    /// The interval after one of this length, at this value of the metric.
    pub fn next(&self, interval: SignedDuration, value: f64) -> SignedDuration {
        let seconds = interval.as_secs_f64();
        let wanted = if value > self.target {
            seconds * 2.0
        } else if value < self.target / 2.0 {
            seconds / 2.0
        } else {
            seconds
        };
        let bounded = wanted.max(self.min_seconds).min(self.max_seconds);
        SignedDuration::from_millis((bounded * 1e3).round() as i64)
    }

    fn check(&self) -> Result<(), ActionError> {
        let year = 366.0 * 86_400.0;
        let is_sound = self.target.is_finite()
            && self.target > 0.0
            && self.min_seconds >= 1.0
            && self.max_seconds >= self.min_seconds
            && self.max_seconds <= year;
        let problem = "needs a target above 0 and 1 <= min_seconds <= max_seconds".to_owned();
        if is_sound { Ok(()) } else { Err(ActionError { field: "adaptive", problem }) }
    }
}

impl QueueAction {
    /// The message of a run with these parameters.
    pub fn body(&self, parameters: Option<&str>) -> MessageBody {
        let mut payload = self.message.clone();
        let given = parameters.and_then(|text| serde_json::from_str(text).ok());
        if let (Value::Object(payload), Some(Value::Object(given))) = (&mut payload, given) {
            payload.extend(given);
        }
        MessageBody {
            payload: payload.into(),
            workspace: self.workspace.clone(),
            headers: BTreeMap::new(),
            ordering_key: None,
            deduplication_key: None,
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Why an action is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ActionError {
    /// The field of the action.
    pub field: &'static str,
    /// The problem, and the correct value.
    pub problem: String,
}

impl Action {
    /// The name of its kind in every interface.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Noop => "NOOP",
            Action::Http(_) => "HTTP",
            Action::Sql(_) => "SQL",
            Action::Procedure(_) => "PROCEDURE",
            Action::External(_) => "EXTERNAL",
            Action::Backup(_) => "BACKUP",
            Action::Queue(_) => "QUEUE",
            Action::Artifact(_) => "ARTIFACT",
        }
    }

    /// The kind of slot that its runs occupy.
    pub fn slot_kind(&self) -> SlotKind {
        match self {
            Action::Http(_) => SlotKind::Http,
            // It waits for a worker.
            Action::Queue(send) if send.awaits => SlotKind::Http,
            _ => SlotKind::Process,
        }
    }

    /// The default timeout of an attempt.
    pub fn default_timeout(&self) -> SignedDuration {
        match self {
            Action::Http(_) => HTTP_TIMEOUT,
            _ => TIMEOUT,
        }
    }

    /// The action with another database; unchanged if it uses none.
    #[must_use]
    pub fn in_database(mut self, name: &str) -> Self {
        if let Action::Sql(SqlAction { database, .. })
        | Action::Procedure(ProcedureAction { database, .. }) = &mut self
        {
            *database = Some(name.to_owned());
        }
        self
    }

    /// Validates the action. Addresses and names that the settings restrict are checked when it
    /// runs.
    pub fn check(&self) -> Result<(), ActionError> {
        let wrong = |field, problem: String| Err(ActionError { field, problem });
        let text = |field, text: &str| {
            if text.trim().is_empty() {
                return wrong(field, "must not be empty".into());
            }
            if text.len() > TEXT_BYTES_MAX {
                return wrong(field, format!("is longer than {TEXT_BYTES_MAX} bytes"));
            }
            if text.contains('\0') {
                return wrong(field, "must not contain a zero byte".into());
            }
            Ok(())
        };
        match self {
            Action::Noop => Ok(()),
            Action::Http(http) => {
                text("endpoint", &http.endpoint)?;
                let scheme = http.endpoint.split_once("://").map(|(scheme, _)| scheme);
                if !matches!(scheme, Some("http" | "https" | "HTTP" | "HTTPS")) {
                    return wrong("endpoint", "must begin with http:// or https://".into());
                }
                if !METHODS.contains(&http.method.as_str()) {
                    return wrong(
                        "method",
                        format!("is {:?}, not one of {}", http.method, METHODS.join(", ")),
                    );
                }
                for (name, value) in &http.headers {
                    if name.is_empty() || !name.bytes().all(is_token) {
                        return wrong("headers", format!("{name:?} is not a header name"));
                    }
                    if value.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
                        return wrong(
                            "headers",
                            format!("the value of {name} contains a line break"),
                        );
                    }
                }
                let legal = |code: &u16| matches!(code, 1..=5 | 100..=599);
                match http.expected_status.iter().find(|code| !legal(code)) {
                    Some(code) => wrong(
                        "expected_status",
                        format!("{code} is neither a status (100 to 599) nor a class (1 to 5)"),
                    ),
                    None => Ok(()),
                }
            }
            Action::Sql(sql) => text("sql", &sql.sql),
            Action::Queue(send) => {
                text("queue", &send.queue)?;
                if send.workspace.len() > KEY_BYTES_MAX {
                    return wrong("workspace", format!("is longer than {KEY_BYTES_MAX} bytes"));
                }
                if send.priority.is_some_and(|priority| priority > 9) {
                    return wrong("priority", "must be 0 to 9".into());
                }
                let bytes = send.message.to_string().len();
                if bytes > PAYLOAD_BYTES_MAX {
                    return wrong("message", format!("is longer than {PAYLOAD_BYTES_MAX} bytes"));
                }
                send.adaptive.map_or(Ok(()), |adaptive| adaptive.check())
            }
            Action::Procedure(procedure) => text("procedure", &procedure.procedure),
            Action::Backup(backup) => {
                text("target", &backup.target)?;
                match backup.keep {
                    Some(0) => wrong("keep", "must be at least 1: the backup itself".into()),
                    _ => Ok(()),
                }
            }
            Action::External(external) => {
                text("command", &external.command)?;
                check_arguments(&external.arguments)?;
                check_environment(&external.environment)
            }
            Action::Artifact(artifact) => artifact.check(),
        }
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Whether a byte is allowed in the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// One attempt, with everything that an agent needs to execute it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The id of the run.
    pub run: RunId,
    /// The id of the job.
    pub job: JobId,
    /// The name of the job.
    pub job_name: String,
    /// The tenant of the job.
    pub tenant: TenantId,
    /// The number of the attempt from 1, including lost ones.
    pub attempt: u32,
    /// The fencing token, which grows with every start: work with a smaller token is stale.
    pub fence: i64,
    /// The scheduled time of the run.
    pub scheduled_for: Timestamp,
    /// When the attempt is stopped.
    pub deadline: Timestamp,
    /// How long the attempt may take to end after it was asked to stop.
    pub grace_period: SignedDuration,
    /// The name of the shard; empty if there is none.
    pub shard: String,
    /// The database role to use; the configured user if absent.
    pub run_as: Option<String>,
    /// The parameters of the run.
    pub parameters: BTreeMap<String, Value>,
    /// The action to execute.
    pub action: Action,
    /// Key of the row that proves that the work of this attempt is committed, if the job runs
    /// exactly once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectKey>,
}

/// The right to record the effect of one attempt in the store's own database, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectKey {
    /// The claim generation.
    pub generation: u32,
    /// The secret of the attempt.
    pub secret: String,
}

/// Without the secret.
impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectKey").field("generation", &self.generation).finish_non_exhaustive()
    }
}
#[cfg(test)]
mod tests;
