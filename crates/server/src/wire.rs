//! The endpoint for remote agents.
//!
//! An agent has a key of its own kind, which is checked with every call and is accepted here only.
//! It gives access to the runs that the agent has claimed, to what they need, and to nothing else.
//! The agent host of the engine makes the decisions; a handler reads a call, passes it on, and
//! serializes the result.

mod enrol;
mod session;
mod talk;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::artifact::ArtifactSource;
use agent::{DatabaseSource, Secrets};
use agent_protocol::shape::{AGENT, ASK_BYTES_MAX};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, Version, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use domain::cluster::Labels;
use engine::Engine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::app::App;
use crate::body::{parse, read, require_json};
use crate::connection::Connection;
use crate::key::{Key, KeyHash, KeyKind};
use crate::limit::{Caller, Limits};
use crate::problem::{Code, Problem, Result};
pub use enrol::{TokenBody, token_of};
use session::Session;
pub use talk::assignment;

/// The role of an agent, as its record says it.
pub(crate) const ROLE: &str = "AGENT";

/// The endpoint of remote agents.
pub struct AgentEndpoint {
    engine: Arc<Engine>,
    secrets: Arc<dyn Secrets>,
    databases: Arc<dyn DatabaseSource>,
    artifacts: Arc<dyn ArtifactSource>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Processes whose place another one has taken, by the name of the agent.
    replaced: Mutex<HashMap<String, Vec<Uuid>>>,
}

/// The stored body of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentBody {
    /// Its role: `AGENT`.
    pub role: String,
    /// The hash of its key, in hex.
    pub hash: String,
    /// Labels by which runs are placed on it.
    pub labels: Labels,
    /// The token with which it joined.
    pub token: String,
}

/// An authenticated agent.
#[derive(Clone, Debug)]
pub(crate) struct KnownAgent {
    pub name: String,
    pub labels: Labels,
}

/// The body of a call, within the limit of most.
pub(crate) struct Call<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Call<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &App) -> Result<Self> {
        read_call(request, ASK_BYTES_MAX).await.map(Call)
    }
}

/// Reads the body of a call.
pub(crate) async fn read_call<T: DeserializeOwned>(request: Request, most: usize) -> Result<T> {
    require_json(&request, &["application/json"])?;
    parse(&read(request.into_body(), most).await?)
}

impl AgentEndpoint {
    /// An endpoint of an engine. Agents get secrets, addresses of databases and artifacts for runs
    /// that they have claimed.
    pub fn new(
        engine: Arc<Engine>,
        secrets: Arc<dyn Secrets>,
        databases: Arc<dyn DatabaseSource>,
        artifacts: Arc<dyn ArtifactSource>,
    ) -> Arc<Self> {
        Arc::new(AgentEndpoint {
            engine,
            secrets,
            databases,
            artifacts,
            sessions: Mutex::default(),
            replaced: Mutex::default(),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replaced(&self) -> MutexGuard<'_, HashMap<String, Vec<Uuid>>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of an agent, if it is this one.
    fn session(&self, agent: &KnownAgent, id: Uuid) -> Result<Arc<Session>> {
        let found = self
            .sessions()
            .get(&agent.name)
            .filter(|it| it.id == id && !it.proxy.is_over())
            .cloned();
        let ended =
            || Problem::new(Code::SessionEnded, "there is no such session; say hello again");
        found.ok_or_else(ended)
    }
}

/// The routes of the endpoint.
pub(crate) fn routes(app: &App, endpoint: Arc<AgentEndpoint>) -> Router<App> {
    let known = Router::new()
        .route("/wire/v1/hello", post(talk::hello))
        .route("/wire/v1/poll", post(talk::poll))
        .route("/wire/v1/renew", post(talk::renew))
        .route("/wire/v1/results", post(talk::results))
        .route("/wire/v1/output", post(talk::output))
        .route("/wire/v1/secret", post(talk::secret))
        .route("/wire/v1/database", post(talk::database))
        .route("/wire/v1/artifact", post(talk::artifact))
        .route("/wire/v1/artifact-digest", post(talk::artifact_digest))
        .route("/wire/v1/drain", post(talk::drain))
        .route("/wire/v1/leave", post(talk::leave))
        .layer(axum::middleware::from_fn_with_state(app.clone(), require_agent));
    known
        .route("/wire/v1/join", post(enrol::join))
        .layer(from_fn(require_http2))
        .layer(Extension(endpoint))
}

/// One connection carries everything: that needs streams.
async fn require_http2(request: Request, next: Next) -> Result<Response> {
    if request.version() != Version::HTTP_2 {
        return Err(Problem::new(Code::InvalidRequest, "agents speak HTTP/2 here"));
    }
    Ok(next.run(request).await)
}

/// The key and the agent name in the headers of a call.
fn shown(headers: &HeaderMap, kind: KeyKind) -> Option<(Key, String)> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, more) = (values.next()?, values.next());
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    if more.is_some() || !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let name = headers.get(AGENT)?.to_str().ok()?.to_owned();
    Some((Key::parse_of(kind, text.trim())?, name))
}

/// The hash that a record keeps as text.
fn hash_of(text: &str) -> Option<KeyHash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(KeyHash::from(hash))
}

/// The text of a hash.
pub(crate) fn hash_text(key: &Key) -> String {
    let hash: [u8; 32] = key.hash().into();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Only an agent with its key passes. The key is looked up every time: a revoked key
/// opens nothing from then on.
async fn require_agent(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    Extension(endpoint): Extension<Arc<AgentEndpoint>>,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let agent = match shown(request.headers(), KeyKind::Agent) {
        Some((key, name)) => endpoint.agent_of(&key, name).await?,
        None => None,
    };
    let Some(agent) = agent else {
        let caller = request.extensions().get::<Caller>().copied();
        return Err(limits.refuse(caller, app.options.failure_rate, app.now()));
    };
    if let Some(connection) = request.extensions().get::<Connection>() {
        connection.assign_to_agent();
    }
    request.extensions_mut().insert(agent);
    Ok(next.run(request).await)
}

impl AgentEndpoint {
    /// The agent of a name, if the key is its own. The session of a removed agent ends.
    async fn agent_of(&self, key: &Key, name: String) -> Result<Option<KnownAgent>> {
        let found = self.engine.agent(&name).await?;
        let body: Option<AgentBody> =
            found.and_then(|object| serde_json::from_str(&object.body).ok());
        let Some(body) = body else {
            if let Some(session) = self.sessions().remove(&name) {
                session.proxy.end();
            }
            return Ok(None);
        };
        let is_right = hash_of(&body.hash).is_some_and(|hash| hash.is(&key.hash()));
        Ok((is_right && body.role == ROLE).then_some(KnownAgent { name, labels: body.labels }))
    }
}
