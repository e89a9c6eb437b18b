//! The action of a job: `payload`, whose `type` may be left out where another field implies it.

use std::collections::BTreeMap;

use domain::action::{Action, QueueAction};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::parse_value;
use crate::problem::{Problem, Result};

/// The action of a job. Without a `type`, `endpoint` means `HTTP`, `sql` means `SQL`, `procedure` means
/// `PROCEDURE`, `command` means `EXTERNAL`, `artifact_id` means `ARTIFACT` and `queue` means `QUEUE`.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Payload {
    /// A request.
    Http(HttpPayload),
    /// SQL statements.
    Sql(SqlPayload),
    /// A procedure.
    Procedure(ProcedurePayload),
    /// A command.
    External(ExternalPayload),
    /// An artifact.
    Artifact(ArtifactPayload),
    /// A message for a queue.
    Queue(QueuePayload),
    /// A backup.
    Backup(BackupPayload),
    /// No action.
    Noop(NoopPayload),
}

/// Calls an endpoint.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpPayload {
    /// `HTTP`.
    #[schema(required = false, pattern = "^HTTP$")]
    pub r#type: Option<String>,
    /// The address. `${secrets.NAME}` stands for a secret.
    #[schema(example = "https://api.example.com/reports/generate")]
    pub endpoint: String,
    /// The method; POST when absent.
    pub method: Option<String>,
    /// Headers, by name. `${secrets.NAME}` stands for a secret.
    pub headers: Option<BTreeMap<String, String>>,
    /// The body: a string is sent as it is, everything else as JSON.
    pub body: Option<Value>,
    /// The status codes that mean success; 2 stands for 200 to 299. The 2xx when empty.
    pub expected_status: Option<Vec<u16>>,
}

/// Runs statements in a database.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlPayload {
    /// `SQL`.
    #[schema(required = false, pattern = "^SQL$")]
    pub r#type: Option<String>,
    /// The statements. `:name` stands for the parameter of that name.
    pub sql: String,
    /// A database of the configuration; the default one when absent.
    pub database: Option<String>,
}

/// Calls a procedure of a database.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcedurePayload {
    /// `PROCEDURE`.
    #[schema(required = false, pattern = "^PROCEDURE$")]
    pub r#type: Option<String>,
    /// Its name, with or without a schema.
    pub procedure: String,
    /// Its arguments, in order. A string `:name` stands for the parameter of that name.
    pub arguments: Option<Vec<Value>>,
    /// A database of the configuration; the default one when absent.
    pub database: Option<String>,
}

/// Starts a command of the machine. No shell reads it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalPayload {
    /// `EXTERNAL`.
    #[schema(required = false, pattern = "^EXTERNAL$")]
    pub r#type: Option<String>,
    /// The program.
    pub command: String,
    /// Its arguments, each as it is.
    pub arguments: Option<Vec<String>>,
    /// Variables of its environment, as far as the administrator allows them.
    pub environment: Option<BTreeMap<String, String>>,
}

/// Runs an artifact of the tenant.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPayload {
    /// `ARTIFACT`.
    #[schema(required = false, pattern = "^ARTIFACT$")]
    pub r#type: Option<String>,
    /// The version: `name@3`; `name` for the newest one when the job is defined; `name@latest`,
    /// together with `floating`, for the newest one at each start.
    #[schema(example = "customer_sync@3")]
    pub artifact_id: String,
    /// `module:function` of Python, or the path of an executable file in the artifact.
    #[schema(example = "main:run")]
    pub entrypoint: String,
    /// The arguments of an executable file, each as it is.
    pub arguments: Option<Vec<String>>,
    /// Variables of its environment. `${secrets.NAME}` stands for a secret.
    pub environment: Option<BTreeMap<String, String>>,
    /// Whether each run takes the newest version; false when absent.
    pub floating: Option<bool>,
    /// The version that the reference meant when the job was defined. The server sets it.
    pub pinned: Option<PinnedPayload>,
}

/// A version of an artifact with its digest.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedPayload {
    /// The number of the version.
    pub version: u32,
    /// The SHA-256 of its archive, in hex.
    pub digest: String,
}

/// Sends a message to a queue of the tenant. It is on disk when the run has completed, and once,
/// also if the run is attempted again after a crash.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuePayload {
    /// `QUEUE`.
    #[schema(required = false, pattern = "^QUEUE$")]
    pub r#type: Option<String>,
    /// The name of the queue.
    pub queue: String,
    /// The payload of the message; parameters of the run are added to a JSON object.
    pub message: Option<Value>,
    /// The workspace of the message.
    pub workspace: Option<String>,
    /// 0 to 9; that of the queue when absent.
    #[schema(maximum = 9)]
    pub priority: Option<u8>,
    /// Whether the execution ends with the outcome of the message, and not when it is on disk.
    pub r#await: Option<bool>,
    /// How the interval of the job follows the queue.
    pub adaptive: Option<AdaptivePayload>,
}

/// An interval that follows a metric of a queue: while the metric is above the target the interval
/// doubles with each execution, while it is below half of it the interval halves.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptivePayload {
    /// `DEPTH`: messages that have not ended; `AGE`: seconds that the oldest ready one has waited.
    #[schema(pattern = "^(DEPTH|AGE)$")]
    pub metric: String,
    /// Messages, or seconds.
    pub target: f64,
    /// The shortest interval.
    pub min_seconds: f64,
    /// The longest interval.
    pub max_seconds: f64,
}

/// Makes a backup of the server.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct BackupPayload {
    /// `BACKUP`.
    #[schema(pattern = "^BACKUP$")]
    pub r#type: String,
    /// A target of the configuration.
    pub target: String,
    /// How many backups stay in the target; older ones are deleted when a new one is whole. All when absent.
    #[schema(minimum = 1)]
    pub keep: Option<u32>,
    /// Whether outputs of runs are part of it; true when absent.
    pub outputs: Option<bool>,
    /// Whether the archives of artifacts are part of it; false when absent.
    pub artifacts: Option<bool>,
}

/// Does nothing, successfully.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoopPayload {
    /// `NOOP`.
    #[schema(pattern = "^NOOP$")]
    pub r#type: String,
}

/// The kinds, each with the field that gives it away.
const KINDS: [(&str, &str); 8] = [
    ("HTTP", "endpoint"),
    ("SQL", "sql"),
    ("PROCEDURE", "procedure"),
    ("EXTERNAL", "command"),
    ("ARTIFACT", "artifact_id"),
    ("QUEUE", "queue"),
    ("BACKUP", ""),
    ("NOOP", ""),
];

/// The action that a payload means.
pub fn action(payload: &Map<String, Value>) -> Result<Action> {
    let names = || KINDS.map(|(kind, _)| kind).join(", ");
    let mut fields = payload.clone();
    if let (Some(Value::String(name)), None) = (fields.get("action"), fields.get("type")) {
        return Ok(Action::Queue(QueueAction {
            queue: name.clone(),
            message: Value::Object(payload.clone()),
            workspace: String::new(),
            priority: None,
            awaits: true,
            adaptive: None,
        }));
    }
    let kind = match fields.remove("type") {
        Some(Value::String(kind)) => KINDS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&kind))
            .map(|(name, _)| *name)
            .ok_or_else(|| {
                Problem::invalid("payload.type", format!("is {kind:?}, not one of {}", names()))
            })?,
        Some(_) => {
            return Err(Problem::invalid("payload.type", format!("must be one of {}", names())));
        }
        None => KINDS
            .iter()
            .find(|(_, field)| fields.contains_key(*field))
            .map(|(name, _)| *name)
            .ok_or_else(|| {
                Problem::invalid("payload.type", format!("is missing: send one of {}", names()))
            })?,
    };
    let fields = Value::Object(fields);
    Ok(match kind {
        "HTTP" => Action::Http(parse_value("payload", fields)?),
        "SQL" => Action::Sql(parse_value("payload", fields)?),
        "PROCEDURE" => Action::Procedure(parse_value("payload", fields)?),
        "EXTERNAL" => Action::External(parse_value("payload", fields)?),
        "ARTIFACT" => Action::Artifact(parse_value("payload", fields)?),
        "QUEUE" => Action::Queue(parse_value("payload", fields)?),
        "BACKUP" => Action::Backup(parse_value("payload", fields)?),
        _ => match fields.as_object().and_then(|fields| fields.keys().next()) {
            Some(field) => {
                return Err(Problem::invalid(format!("payload.{field}"), "NOOP takes no fields"));
            }
            None => Action::Noop,
        },
    })
}

/// The action of a job that names its artifact beside its other fields.
pub fn artifact(fields: Map<String, Value>) -> Result<Action> {
    Ok(Action::Artifact(parse_value("", Value::Object(fields))?))
}

/// The payload of an action.
pub fn of(action: &Action) -> Map<String, Value> {
    match serde_json::to_value(action) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
