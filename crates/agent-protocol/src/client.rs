//! The HTTP client of an agent.

use std::time::Duration;

use bytes::Bytes;
use domain::run::Grant;
use reqwest::{Certificate, Method, RequestBuilder, Response, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

use crate::shape::{AGENT, ANSWER_BYTES_MAX, AskArtifact, Join, Joined, ROOT};

/// The connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The interval and the timeout of HTTP/2 keep-alive pings on an idle connection.
const ASK_EVERY: Duration = Duration::from_secs(3);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No response, or a response that is not from a Punctual server.
    #[error("{0}")]
    Unreachable(String),
    /// The server refused the call.
    #[error("{message} ({code})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error code.
        code: String,
        /// The error message.
        message: String,
    },
}

impl CallError {
    /// Whether the server responded with this error code.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, CallError::Refused { code, .. } if code == word)
    }
}

/// Which server certificates an agent trusts.
#[derive(Clone, Default)]
pub struct Trust {
    /// Trusted certificates in PEM, in addition to the trust store of the machine.
    pub authorities: Option<Vec<u8>>,
    /// Whether a server on another machine may be reached without TLS.
    pub insecure: bool,
}

/// A connection to one server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    name: String,
    key: String,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Deserialize)]
struct ErrorFields {
    code: String,
    message: String,
}

impl Client {
    /// A client for a server, with the name and the key of an agent. Both are empty before the
    /// agent has joined.
    pub fn new(server: &str, trust: &Trust, name: &str, key: &str) -> Result<Self, String> {
        let base = Url::parse(server)
            .map_err(|error| format!("invalid server address {server:?}: {error}"))?;
        let host = base.host_str().unwrap_or_default();
        match base.scheme() {
            "https" => {}
            "http" if trust.insecure || is_loopback(host) => {}
            "http" => {
                return Err(format!(
                    "{base} is on another machine and not https: the key and secrets would be read \
                     on the way"
                ));
            }
            other => return Err(format!("{server:?} begins with {other}: write https://…")),
        }
        let mut http = reqwest::Client::builder()
            .http2_prior_knowledge()
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(ASK_EVERY)
            .http2_keep_alive_timeout(ASK_EVERY)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("punctual-agent/", env!("CARGO_PKG_VERSION")));
        if let Some(authorities) = &trust.authorities {
            let found = Certificate::from_pem_bundle(authorities)
                .map_err(|error| format!("cannot read certificates: {error}"))?;
            http = http.tls_certs_merge(found);
        }
        let http = http.build().map_err(|error| error.to_string())?;
        Ok(Client { http, base, name: name.to_owned(), key: key.to_owned() })
    }

    /// The address of the server.
    pub fn url(&self) -> &Url {
        &self.base
    }

    /// The same server with another name and key.
    pub fn as_agent(&self, name: &str, key: &str) -> Self {
        Client { name: name.to_owned(), key: key.to_owned(), ..self.clone() }
    }

    /// Joins as an agent with a token that can be used once.
    pub async fn join(&self, token: &str, join: &Join) -> Result<Joined, CallError> {
        let body = encode(join)?;
        let asking = self.as_agent(&join.name, token);
        let request = asking.request("join").header(header::CONTENT_TYPE, "application/json");
        answer(request.body(body).timeout(Duration::from_secs(30))).await
    }

    /// Makes a call with a timeout.
    pub async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        verb: &str,
        question: &Q,
        patience: Duration,
    ) -> Result<A, CallError> {
        let body = encode(question)?;
        let request = self.request(verb).header(header::CONTENT_TYPE, "application/json");
        answer(request.body(body).timeout(patience)).await
    }

    /// Sends a piece of output.
    pub async fn output(
        &self,
        session: Uuid,
        grant: Grant,
        position: u64,
        bytes: Vec<u8>,
        patience: Duration,
    ) -> Result<crate::shape::Done, CallError> {
        let Grant { run, fence, turn } = grant;
        let verb = format!(
            "output?session={session}&run={run}&fence={fence}&turn={turn}&position={position}"
        );
        let request = self.request(&verb).header(header::CONTENT_TYPE, "application/octet-stream");
        answer(request.body(Bytes::from(bytes)).timeout(patience)).await
    }

    /// Asks for the content of an artifact. Its length is not known, and neither is how long it
    /// takes: keep-alive pings tell whether the server is there.
    pub async fn artifact(&self, ask: &AskArtifact) -> Result<Response, CallError> {
        let request = self.request("artifact").header(header::CONTENT_TYPE, "application/json");
        let response =
            request.body(encode(ask)?).send().await.map_err(|error| unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        read_answer::<serde_json::Value>(response)
            .await
            .and_then(|_| Err(CallError::Unreachable("the server sent no artifact".to_owned())))
    }

    fn request(&self, verb: &str) -> RequestBuilder {
        let address = format!("{}{ROOT}/{verb}", self.base.as_str().trim_end_matches('/'));
        self.http
            .request(Method::POST, address)
            .header(AGENT, &self.name)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn encode(question: &impl Serialize) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(question).map_err(|error| CallError::Unreachable(error.to_string()))
}

/// A request without a complete response.
pub(crate) fn unreachable(error: &reqwest::Error) -> CallError {
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    CallError::Unreachable(text)
}

async fn answer<A: DeserializeOwned>(request: RequestBuilder) -> Result<A, CallError> {
    read_answer(request.send().await.map_err(|error| unreachable(&error))?).await
}

async fn read_answer<A: DeserializeOwned>(mut response: Response) -> Result<A, CallError> {
    let status = response.status();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            let text = format!("response exceeds {ANSWER_BYTES_MAX} bytes");
            return Err(CallError::Unreachable(text));
        }
        body.extend_from_slice(&piece);
    }
    if status.is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| CallError::Unreachable(format!("invalid response: {error}")));
    }
    match serde_json::from_slice::<ErrorBody>(&body) {
        // A server with an internal error may recover, or another server may work.
        Ok(ErrorBody { error }) if status.as_u16() < 500 && status.as_u16() != 429 => {
            let ErrorFields { code, message } = error;
            Err(CallError::Refused { status: status.as_u16(), code, message })
        }
        Ok(ErrorBody { error }) => Err(CallError::Unreachable(error.message)),
        Err(_) => Err(CallError::Unreachable(format!("not a Punctual server (status {status})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_in_the_clear_to_this_machine_only() {
        let client = |url: &str, insecure| {
            Client::new(url, &Trust { insecure, authorities: None }, "a", "k").is_ok()
        };
        for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://a.b"] {
            assert!(client(url, false), "{url}");
        }
        for url in ["http://10.0.0.1:1", "http://a.b", "http://localhost.evil.example:1"] {
            assert!(!client(url, false), "{url}");
            assert!(client(url, true), "{url}");
        }
        for url in ["ftp://localhost", "localhost:8630", "", "/wire"] {
            assert!(!client(url, true), "{url}");
        }
    }
}
