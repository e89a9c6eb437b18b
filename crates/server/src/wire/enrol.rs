//! Enrolment of agents: with a token that works once and for a short time.

use std::sync::Arc;

use agent_protocol::shape::{ASK_BYTES_MAX, Join, Joined, PROTOCOL};
use axum::extract::{Request, State};
use axum::{Extension, Json};
use domain::cluster::Labels;
use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind, check_name};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AgentBody, AgentEndpoint, ROLE, hash_of, hash_text, read_call, shown};
use crate::app::App;
use crate::key::{Key, KeyKind};
use crate::limit::{Caller, Limits};
use crate::problem::{Code, Problem, Result};

/// The stored body of a join token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenBody {
    /// Its hash, in hex.
    pub hash: String,
    /// When it is good for nothing any more.
    pub expires_at: Timestamp,
    /// The labels that its agent has; those that the agent names when empty.
    pub labels: Labels,
}

fn new_object(app: &App, kind: ObjectKind, name: &str, body: String) -> Object {
    let ms = app.now().as_millisecond().max(0) as u64;
    let random = (app.random)().to_be_bytes()[..10].try_into().unwrap_or([0; 10]);
    Object {
        id: ObjectId(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()),
        tenant: TenantId::CLUSTER,
        kind,
        name: name.to_owned(),
        body,
        version: 0,
        created_at: app.now(),
        changed_at: app.now(),
    }
}

fn text(body: &impl Serialize) -> Result<String> {
    serde_json::to_string(body).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

/// A new token, and what is kept of it.
pub fn token_of(app: &App, labels: Labels, expires_at: Timestamp) -> Result<(Key, Object)> {
    let key = Key::drawn_for(KeyKind::JoinToken, app.random.as_ref());
    let body = text(&TokenBody { hash: hash_text(&key), expires_at, labels })?;
    let object = new_object(app, ObjectKind::JoinToken, &key.id().text(), body);
    Ok((key, object))
}

/// Refuses what this server does not speak.
pub(super) fn require_version(protocol: u32) -> Result<()> {
    if protocol == PROTOCOL {
        return Ok(());
    }
    let text =
        format!("the agent speaks version {protocol} of the protocol, this server {PROTOCOL}");
    Err(Problem::new(Code::UnsupportedVersion, text))
}

/// Enrols an agent that shows a token, and spends the token.
pub(super) async fn join(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    Extension(endpoint): Extension<Arc<AgentEndpoint>>,
    request: Request,
) -> Result<Json<Joined>> {
    let caller = request.extensions().get::<Caller>().copied();
    let refused = || limits.refuse(caller, app.options.failure_rate, app.now());
    let Some((key, _)) = shown(request.headers(), KeyKind::JoinToken) else {
        return Err(refused());
    };
    let Some(token) = endpoint.engine.join_token(&key.id().text()).await? else {
        return Err(refused());
    };
    let body: TokenBody = serde_json::from_str(&token.body).map_err(|_| refused())?;
    let is_right = hash_of(&body.hash).is_some_and(|hash| hash.is(&key.hash()));
    if !is_right || app.now() >= body.expires_at {
        return Err(refused());
    }
    let join: Join = read_call(request, ASK_BYTES_MAX).await?;
    require_version(join.protocol)?;
    check_name(&join.name).map_err(|problem| Problem::invalid("name", problem))?;
    join.labels.check().map_err(|error| Problem::invalid("labels", error.to_string()))?;
    let labels = match (body.labels.is_empty(), join.labels.is_empty()) {
        (true, _) => join.labels,
        (false, true) => body.labels,
        (false, false) if join.labels == body.labels => body.labels,
        (false, false) => {
            let text = format!("the token is for {}; name these, or none", body.labels);
            return Err(Problem::invalid("labels", text));
        }
    };
    let taken = || {
        let text = format!(
            "there is an agent named {:?}; remove it first with punctual node remove, or choose another name",
            join.name
        );
        Problem { message: text.clone(), ..Problem::field(Code::AlreadyExists, "name", text) }
    };
    if endpoint.engine.agent(&join.name).await?.is_some() {
        return Err(taken());
    }
    let key = Key::drawn_for(KeyKind::Agent, app.random.as_ref());
    let record = AgentBody {
        role: ROLE.to_owned(),
        hash: hash_text(&key),
        labels: labels.clone(),
        token: token.name.clone(),
    };
    let agent = new_object(&app, ObjectKind::Agent, &join.name, text(&record)?);
    let by = format!("agent {}", join.name);
    if !endpoint.engine.spend(&token, &by).await? {
        return Err(refused());
    }
    if !endpoint.engine.enrol(&agent, &by).await? {
        return Err(taken());
    }
    tracing::info!(agent = join.name, %labels, "an agent joined");
    Ok(Json(Joined { name: join.name, labels, key: key.reveal().to_owned() }))
}
