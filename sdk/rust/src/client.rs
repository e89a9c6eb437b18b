//! Requests to a server of Punctual.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{json, Value};

use crate::http::{HttpTransport, Transport};

/// A request that failed.
#[derive(Debug)]
pub enum Error {
    /// There was no answer.
    Io(std::io::Error),
    /// The server refused it.
    Refused {
        /// The status.
        status: u16,
        /// The code, for programs.
        code: String,
        /// The text, for people.
        text: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::Refused { code, text, .. } => write!(f, "{code}: {text}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}

impl Error {
    /// The code of a refusal.
    pub fn code(&self) -> &str {
        match self {
            Error::Refused { code, .. } => code,
            Error::Io(_) => "",
        }
    }

    /// Whether the same request can succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Io(_) => true,
            Error::Refused { status, .. } => *status >= 500 || *status == 429,
        }
    }
}

/// A leased message.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Its id.
    pub id: String,
    /// The fencing token: larger than that of every lease before.
    pub fence: i64,
    /// The name of its queue.
    pub queue: String,
    /// The workspace.
    pub workspace: String,
    /// The payload.
    pub payload: Value,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many attempts are made at most.
    pub max_attempts: u32,
    /// 0 to 9.
    pub priority: u8,
    /// How long an attempt may take.
    pub timeout_seconds: f64,
    /// For distributed traces.
    pub correlation_id: String,
}

impl Default for Lease {
    fn default() -> Self {
        Lease {
            id: "00000000-0000-0000-0000-000000000000".to_owned(),
            fence: 1,
            queue: String::new(),
            workspace: String::new(),
            payload: Value::Null,
            headers: BTreeMap::new(),
            attempt: 1,
            max_attempts: 1,
            priority: 5,
            timeout_seconds: 3_600.0,
            correlation_id: String::new(),
        }
    }
}

/// A server of Punctual. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    token: Option<String>,
    timeout: Duration,
}

/// A part of a path.
fn quoted(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let quote = |byte: u8| match keep(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(quote).collect()
}

impl Client {
    /// A server at `http://host:port`, and a key.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, Error> {
        Ok(Self::with_transport(Arc::new(HttpTransport::new(url)?), token))
    }

    /// The server of `PUNCTUAL_SERVER` and the key of `PUNCTUAL_TOKEN`.
    ///
    /// # Panics
    /// If the address is not `http://host:port`.
    pub fn from_env() -> Self {
        let url = std::env::var("PUNCTUAL_SERVER");
        let url = url.unwrap_or_else(|_| "http://127.0.0.1:8630".to_owned());
        let token = std::env::var("PUNCTUAL_TOKEN").ok();
        Self::new(&url, token.as_deref()).expect("PUNCTUAL_SERVER is http://host:port")
    }

    /// Another way to send requests, for example with TLS.
    pub fn with_transport(transport: Arc<dyn Transport>, token: Option<&str>) -> Self {
        let token = token.map(str::to_owned);
        Client { transport, token, timeout: Duration::from_secs(30) }
    }

    /// Sends one message with more fields (`workspace`, `priority`, `delay_seconds`, …), and answers
    /// its id. It is on disk when this returns.
    pub fn send(&self, queue: &str, payload: Value, fields: Value) -> Result<String, Error> {
        let mut message = fields;
        if !message.is_object() {
            message = json!({});
        }
        message["payload"] = payload;
        Ok(self.send_many(queue, &[message])?.pop().unwrap_or_default())
    }

    /// Sends up to 10,000 messages, all of them or none, and answers their ids.
    pub fn send_many(&self, queue: &str, messages: &[Value]) -> Result<Vec<String>, Error> {
        let path = format!("/v1/queues/{}/messages", quoted(queue));
        let answer = self.post(&path, &json!({ "messages": messages }), self.timeout)?;
        let ids = answer["messages"].as_array().into_iter().flatten();
        Ok(ids.filter_map(|it| it["id"].as_str()).map(str::to_owned).collect())
    }

    /// A poll of a worker's session: results in, messages out.
    pub fn poll(&self, session: &str, body: &Value) -> Result<Value, Error> {
        let wait = Duration::from_secs_f64(body["wait_s"].as_f64().unwrap_or(0.0).max(0.0));
        self.post(&format!("/v1/workers/{}/poll", quoted(session)), body, self.timeout + wait)
    }

    /// Sends JSON to a path, and answers with the JSON of the server.
    pub fn post(&self, path: &str, body: &Value, timeout: Duration) -> Result<Value, Error> {
        let body = body.to_string();
        let token = self.token.as_deref();
        let answer = self.transport.post(path, token, body.as_bytes(), timeout)?;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        let word = |name: &str| value["error"][name].as_str().unwrap_or_default().to_owned();
        Err(Error::Refused { status: answer.status, code: word("code"), text: word("message") })
    }
}
