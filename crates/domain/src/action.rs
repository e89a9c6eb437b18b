//! What a run does, as a person wrote it. How it is done is the agent's business.
//!
//! Texts may name secrets, `${secrets.NAME}`; they are resolved by whoever carries the action out
//! and stand here as they were written.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{JobId, RunId, TenantId};
use crate::slot::SlotKind;

/// The longest text of a statement, a body or a list of arguments.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// How long one attempt may take when the job does not say.
pub const TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// The same for HTTP jobs: an endpoint that has not answered by then mostly never will, and each
/// call that waits for it keeps a connection open.
pub const HTTP_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// What a run does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "type")]
pub enum Action {
    /// Nothing, successfully: what is left of a run when its work is taken away.
    #[default]
    Noop,
    /// Calls an endpoint.
    Http(HttpAction),
    /// Runs statements in a database.
    Sql(SqlAction),
    /// Calls a procedure of a database.
    Procedure(ProcedureAction),
    /// Starts a command of the machine.
    External(ExternalAction),
    /// Makes a backup of the server.
    Backup(BackupAction),
}

/// A request, and which answers are good ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpAction {
    /// The address.
    pub endpoint: String,
    /// The method.
    #[serde(default = "post")]
    pub method: String,
    /// Headers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a string is sent as it is, everything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The status codes that mean success; 2 stands for 200 to 299, and likewise 1 to 5. The 2xx
    /// when empty.
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
    /// The statements. `:name` stands for the parameter of that name.
    pub sql: String,
    /// A database of the configuration; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A procedure of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureAction {
    /// Its name, with or without a schema.
    pub procedure: String,
    /// Its arguments, in order. A string `:name` stands for the parameter of that name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Value>,
    /// A database of the configuration; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A command of the machine. No shell reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAction {
    /// The program.
    pub command: String,
    /// Its arguments, each as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Variables of its environment, as far as the administrator allows them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// A backup of the server that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupAction {
    /// A target of the configuration.
    pub target: String,
    /// How many backups stay in the target; older ones are deleted when a new one is whole. All
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Whether what runs have said is part of it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub outputs: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Why an action cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ActionError {
    /// The field of the action.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl Action {
    /// The name of its kind at every door.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Noop => "NOOP",
            Action::Http(_) => "HTTP",
            Action::Sql(_) => "SQL",
            Action::Procedure(_) => "PROCEDURE",
            Action::External(_) => "EXTERNAL",
            Action::Backup(_) => "BACKUP",
        }
    }

    /// The kind of slot that its runs take.
    pub fn slot_kind(&self) -> SlotKind {
        match self {
            Action::Http(_) => SlotKind::Http,
            _ => SlotKind::Process,
        }
    }

    /// How long one attempt may take when the job does not say.
    pub fn default_timeout(&self) -> SignedDuration {
        match self {
            Action::Http(_) => HTTP_TIMEOUT,
            _ => TIMEOUT,
        }
    }

    /// The same in another database; what works in none is as before.
    #[must_use]
    pub fn in_database(mut self, name: &str) -> Self {
        if let Action::Sql(SqlAction { database, .. })
        | Action::Procedure(ProcedureAction { database, .. }) = &mut self
        {
            *database = Some(name.to_owned());
        }
        self
    }

    /// Whether it can be carried out by somebody who is allowed to. Addresses and names that the
    /// configuration decides about are looked at when it runs.
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
                return wrong(field, "must not hold a zero byte".into());
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
                        return wrong("headers", format!("{name:?} is no name of a header"));
                    }
                    if value.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
                        return wrong("headers", format!("the value of {name} spans lines"));
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
                if external.arguments.iter().any(|argument| argument.contains('\0')) {
                    return wrong("arguments", "must not hold a zero byte".into());
                }
                let length: usize = external.arguments.iter().map(String::len).sum();
                if length > TEXT_BYTES_MAX {
                    return wrong("arguments", format!("are longer than {TEXT_BYTES_MAX} bytes"));
                }
                let bad = |(name, value): &(&String, &String)| {
                    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
                };
                match external.environment.iter().find(bad) {
                    Some((name, _)) => {
                        wrong("environment", format!("{name:?} is no name of a variable"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Whether a byte may stand in the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// One attempt, with everything that an agent needs to know to carry it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The run.
    pub run: RunId,
    /// The job.
    pub job: JobId,
    /// The job's name.
    pub job_name: String,
    /// Whose job it is.
    pub tenant: TenantId,
    /// 1 for the first attempt, lost ones counted.
    pub attempt: u32,
    /// Grows with every grant: what is done under a smaller one is stale.
    pub fence: i64,
    /// The time that the run stands for.
    pub scheduled_for: Timestamp,
    /// When it is stopped if it has not ended.
    pub deadline: Timestamp,
    /// How long it may take to end by itself when it is asked to stop.
    pub grace_period: SignedDuration,
    /// The slice of the user's data that it works on; empty when there is one only.
    pub shard: String,
    /// As whom it acts on a database; its own user when absent.
    pub run_as: Option<String>,
    /// Values for the action.
    pub parameters: BTreeMap<String, Value>,
    /// What to do.
    pub action: Action,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> String {
        match serde_json::from_str::<Action>(json) {
            Ok(action) => action.check().err().map_or("ok".to_owned(), |error| error.to_string()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn actions_are_checked() {
        let long = format!(r#"{{"type":"SQL","sql":"{}"}}"#, "x".repeat(TEXT_BYTES_MAX + 1));
        for (json, answer) in [
            (r#"{"type":"NOOP"}"#, "ok"),
            (r#"{"type":"HTTP","endpoint":"https://example.org/x"}"#, "ok"),
            (r#"{"type":"HTTP","endpoint":"https://e.org","expected_status":[2,404]}"#, "ok"),
            (
                r#"{"type":"HTTP","endpoint":"ftp://example.org/x"}"#,
                "endpoint: must begin with http:// or https://",
            ),
            (
                r#"{"type":"HTTP","endpoint":"http://e.org","method":"post"}"#,
                "method: is \"post\", not one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            ),
            (
                r#"{"type":"HTTP","endpoint":"http://e.org","headers":{"a b":"c"}}"#,
                "headers: \"a b\" is no name of a header",
            ),
            (
                r#"{"type":"HTTP","endpoint":"http://e.org","headers":{"a":"c\r\nd: e"}}"#,
                "headers: the value of a spans lines",
            ),
            (
                r#"{"type":"HTTP","endpoint":"http://e.org","expected_status":[600]}"#,
                "expected_status: 600 is neither a status (100 to 599) nor a class (1 to 5)",
            ),
            (r#"{"type":"SQL","sql":"SELECT 1"}"#, "ok"),
            (r#"{"type":"SQL","sql":" "}"#, "sql: must not be empty"),
            (&long, "sql: is longer than 1048576 bytes"),
            (r#"{"type":"PROCEDURE","procedure":"p","arguments":[1,":a"]}"#, "ok"),
            (r#"{"type":"EXTERNAL","command":"/bin/true"}"#, "ok"),
            (r#"{"type":"BACKUP","target":"nightly","keep":7,"outputs":false}"#, "ok"),
            (r#"{"type":"BACKUP","target":""}"#, "target: must not be empty"),
            (
                r#"{"type":"BACKUP","target":"nightly","keep":0}"#,
                "keep: must be at least 1: the backup itself",
            ),
            (r#"{"type":"EXTERNAL","command":"a\u0000b"}"#, "command: must not hold a zero byte"),
            (
                r#"{"type":"EXTERNAL","command":"a","environment":{"A=B":"c"}}"#,
                "environment: \"A=B\" is no name of a variable",
            ),
        ] {
            assert_eq!(check(json), answer, "{}", &json[..json.len().min(100)]);
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        for (json, word) in [
            (r#"{"type":"HTTP","endpoint":"http://e.org","verb":"GET"}"#, "verb"),
            (r#"{"type":"SQL","sql":"SELECT 1","db":"main"}"#, "db"),
            (r#"{"type":"BACKUP","target":"a","folder":"/x"}"#, "folder"),
            (r#"{"type":"SHELL","command":"x"}"#, "SHELL"),
        ] {
            assert!(check(json).contains(word), "{json}: {}", check(json));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let action = Action::Http(HttpAction {
            endpoint: "https://example.org".into(),
            method: "PUT".into(),
            headers: BTreeMap::from([("A".into(), "b".into())]),
            body: Some(serde_json::json!({"x": [1, null]})),
            expected_status: vec![2],
        });
        let text = serde_json::to_string(&action).unwrap();
        assert_eq!(serde_json::from_str::<Action>(&text).unwrap(), action);
    }
}
