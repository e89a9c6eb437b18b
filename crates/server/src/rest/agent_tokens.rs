//! Tokens with which agents join: made, shown once, good for once and for a short time.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use domain::access::{Deed, may};
use domain::cluster::Labels;
use domain::object::{Object, ObjectKind};
use engine::{EngineError, Put};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::app::App;
use crate::body::OptionalBody;
use crate::page::List;
use crate::problem::{Code, Problem, Result};
use crate::wire::{TokenBody, token_of};

/// The longest life of a token, in seconds.
const TTL_SECONDS_MAX: u32 = 900;

/// How many tokens are looked at for those that have expired.
const SWEEP_MAX: u32 = 500;

/// The properties of a new token.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// How long it is good; 15 minutes when absent, which is the longest.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 900, example = 900)]
    ttl_seconds: Option<u32>,
    /// The labels that the agent has; those that it names itself when empty.
    #[serde(default)]
    #[schema(required = false)]
    labels: BTreeMap<String, String>,
}

/// A token.
#[derive(Serialize, ToSchema)]
pub struct TokenView {
    /// Which one it is.
    pub token_id: String,
    /// The token itself, in this answer and never again.
    pub token: String,
    /// The labels that the agent has.
    pub labels: BTreeMap<String, String>,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Makes a token with which one agent can join, once.
#[utoipa::path(
    post, path = "/v1/agent-tokens", operation_id = "create_agent_token", tag = "server",
    request_body(content = Option<TokenSpec>),
    responses((status = 201, body = TokenView))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    OptionalBody(spec): OptionalBody<TokenSpec>,
) -> Result<(StatusCode, Json<TokenView>)> {
    may(&actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    let ttl = spec.ttl_seconds.unwrap_or(TTL_SECONDS_MAX);
    if !(1..=TTL_SECONDS_MAX).contains(&ttl) {
        let text = format!("{ttl} is not from 1 to {TTL_SECONDS_MAX}");
        return Err(Problem::invalid("ttl_seconds", text));
    }
    let labels = Labels(spec.labels);
    labels.check().map_err(|error| Problem::invalid("labels", error.to_string()))?;
    forget_expired(&app, &actor).await?;
    let expires_at = app.now().saturating_add(SignedDuration::from_secs(ttl.into()));
    let expires_at = expires_at.unwrap_or(Timestamp::MAX);
    let (key, object) = token_of(&app, labels.clone(), expires_at)?;
    match app.engine.by(&actor).put_cluster_object(&object, 0).await? {
        Put::Done(_) => {}
        _ => return Err(Problem::new(Code::Internal, "the token could not be kept")),
    }
    let view = TokenView {
        token_id: key.id().text(),
        token: key.reveal().to_owned(),
        labels: labels.0,
        expires_at,
    };
    Ok((StatusCode::CREATED, Json(view)))
}

/// An unused token, without the token itself.
#[derive(Serialize, ToSchema)]
pub struct TokenEntry {
    /// Which one it is.
    pub token_id: String,
    /// The labels that the agent gets.
    pub labels: BTreeMap<String, String>,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Lists the tokens that can still be used.
#[utoipa::path(
    get, path = "/v1/agent-tokens", operation_id = "list_agent_tokens", tag = "server",
    responses((status = 200, body = List<TokenEntry>))
)]
pub(crate) async fn list(State(app): State<App>, actor: Actor) -> Result<Json<List<TokenEntry>>> {
    may(&actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    forget_expired(&app, &actor).await?;
    let kind = ObjectKind::JoinToken;
    let tokens = app.engine.by(&actor).list_cluster_objects(kind, None, SWEEP_MAX).await?;
    let entry = |token: &Object| {
        let body = serde_json::from_str::<TokenBody>(&token.body).ok()?;
        let (labels, expires_at) = (body.labels.0, body.expires_at);
        Some(TokenEntry { token_id: token.name.clone(), labels, expires_at })
    };
    Ok(Json(List { data: tokens.items.iter().filter_map(entry).collect(), next_cursor: None }))
}

/// Revokes a token: no agent can join with it any more.
#[utoipa::path(
    delete, path = "/v1/agent-tokens/{token_id}", operation_id = "revoke_agent_token", tag = "server",
    params(("token_id" = String, Path, description = "The token's id.")),
    responses((status = 204))
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    actor: Actor,
    Path(token): Path<String>,
) -> Result<StatusCode> {
    may(&actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    let kind = ObjectKind::JoinToken;
    let tokens = app.engine.by(&actor).list_cluster_objects(kind, None, SWEEP_MAX).await?;
    let none = || Problem::new(Code::NotFound, format!("there is no token {token:?}"));
    let found = tokens.items.iter().find(|known| known.name == token).ok_or_else(none)?;
    app.engine.by(&actor).remove_cluster_object(found).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Unused entries expire.
async fn forget_expired(app: &App, actor: &Actor) -> Result<()> {
    let kind = ObjectKind::JoinToken;
    let tokens = app.engine.by(actor).list_cluster_objects(kind, None, SWEEP_MAX).await?;
    for token in tokens.items {
        let body = serde_json::from_str::<TokenBody>(&token.body);
        if body.is_ok_and(|body| body.expires_at <= app.now()) {
            app.engine.by(actor).remove_cluster_object(&token).await?;
        }
    }
    Ok(())
}
