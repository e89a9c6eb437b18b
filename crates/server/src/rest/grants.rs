//! Grants: privileges and roles that users and roles were given.

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::access::{Award, Awarded, Entry, GrantText, Kind, UnknownPrivilege};
use domain::id::RoleId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::entry;
use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body, Params};
use crate::condition::etag;
use crate::page::{self, List};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// A grant.
#[derive(Serialize, ToSchema)]
pub struct GrantView {
    /// Its identity: the same is given once.
    pub grant_id: Uuid,
    /// The user who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_user: Option<String>,
    /// The role that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_role: Option<String>,
    /// A privilege, the use of a database (`USE ON DATABASE sales`), or a right to the messages of a
    /// queue: `SEND ON QUEUE mail`, `CONSUME ON QUEUE mail`. The queue must exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privilege: Option<String>,
    /// All that a role has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A grant: one of `to_user` and `to_role`, one of `privilege` and `role`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantSpec {
    /// The user who gets it, by name or id.
    #[serde(default)]
    #[schema(example = "ann")]
    pub to_user: Option<String>,
    /// The role that gets it.
    #[serde(default)]
    pub to_role: Option<String>,
    /// A privilege, the use of a database (`USE ON DATABASE sales`), or a right to the messages of a
    /// queue: `SEND ON QUEUE mail`, `CONSUME ON QUEUE mail`. The queue must exist.
    #[serde(default)]
    #[schema(example = "CREATE JOB")]
    pub privilege: Option<String>,
    /// All that a role has.
    #[serde(default)]
    pub role: Option<String>,
}

impl GrantSpec {
    async fn award(&self, app: &App, actor: &Actor) -> Result<Award> {
        let id = async |kind, name: &str| -> Result<Uuid> {
            Ok(entry::find(app, actor, kind, name).await?.entry.id())
        };
        let to = match (&self.to_user, &self.to_role) {
            (Some(user), None) => id(Kind::User, user).await?,
            (None, Some(role)) => id(Kind::Role, role).await?,
            _ => return Err(Problem::invalid("to_user", "give one of to_user and to_role")),
        };
        let what = match (&self.privilege, &self.role) {
            (Some(name), None) => {
                let wrong = |e: UnknownPrivilege| Problem::invalid("privilege", e.to_string());
                let text: GrantText = name.parse().map_err(wrong)?;
                app.engine.by(actor).granted(&text).await?
            }
            (None, Some(role)) => Awarded::Role(RoleId(id(Kind::Role, role).await?)),
            _ => return Err(Problem::invalid("privilege", "give one of privilege and role")),
        };
        Ok(Award { tenant: actor.tenant, to, what })
    }
}

async fn shown(app: &App, actor: &Actor, award: Award) -> Result<GrantView> {
    let name = async |id: Uuid| -> Result<(Kind, String)> {
        for kind in [Kind::User, Kind::Role] {
            match app.engine.by(actor).entry(kind, &id.to_string()).await {
                Ok(record) => return Ok((kind, record.entry.name())),
                Err(engine::EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // It was removed a moment ago, and the grant with it.
        Ok((Kind::Role, id.to_string()))
    };
    let (mut to_user, mut to_role, mut privilege, mut role) = (None, None, None, None);
    match name(award.to).await? {
        (Kind::User, name) => to_user = Some(name),
        (_, name) => to_role = Some(name),
    }
    match &award.what {
        Awarded::Role(given) => role = Some(name(given.0).await?.1),
        _ => {
            let mut texts = app.engine.by(actor).grant_texts(std::slice::from_ref(&award)).await?;
            privilege = texts.pop().flatten();
        }
    }
    Ok(GrantView { grant_id: award.id(), to_user, to_role, privilege, role })
}

/// Which grants a list shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GrantParams {
    /// How many; 50 when absent, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Only what this user was given.
    to_user: Option<String>,
    /// Only what this role was given.
    to_role: Option<String>,
}

/// Lists grants.
#[utoipa::path(
    get, path = "/v1/grants", operation_id = "list_grants", tag = "access", params(GrantParams),
    responses((status = 200, body = List<GrantView>), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<GrantParams>,
) -> Result<Response> {
    let limit = page::limit(params.limit)?;
    let after = match page::cursor(params.cursor.as_deref())? {
        Some(text) => Some(text.parse().map_err(|_| page::bad_cursor())?),
        None => None,
    };
    let to: Option<Entry> = match (&params.to_user, &params.to_role) {
        (Some(user), None) => Some(entry::find(&app, &actor, Kind::User, user).await?.entry),
        (None, Some(role)) => Some(entry::find(&app, &actor, Kind::Role, role).await?.entry),
        (None, None) => None,
        (Some(_), Some(_)) => {
            let text = "cannot be given together with to_role";
            return Err(Problem::field(Code::InvalidRequest, "to_user", text));
        }
    };
    let to = to.map(|entry| entry.id());
    let found = app.engine.by(&actor).list_awards(to, after, limit).await?;
    let mut data = Vec::with_capacity(found.items.len());
    for award in found.items {
        data.push(shown(&app, &actor, award).await?);
    }
    Ok(List::new(data, found.next).answer(&uri))
}

/// Shows a grant.
#[utoipa::path(
    get, path = "/v1/grants/{grant_id}", operation_id = "get_grant", tag = "access",
    params(("grant_id" = String, Path, description = "The id of the grant.")),
    responses((status = 200, body = GrantView))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path(grant): Path<String>,
) -> Result<Response> {
    let award = app.engine.by(&actor).award_by_id(id_of(&grant)?).await?;
    Ok(([etag(1)], Json(shown(&app, &actor, award).await?)).into_response())
}

fn id_of(text: &str) -> Result<Uuid> {
    let none = |_| Problem::new(Code::EntryNotFound, format!("there is no grant {text:?}"));
    text.parse().map_err(none)
}

/// Gives a privilege or a role to a user or a role. The actor must have it itself.
#[utoipa::path(
    post, path = "/v1/grants", operation_id = "create_grant", tag = "access", request_body = GrantSpec,
    responses(
        (status = 200, body = GrantView, description = "It was given before."), (status = 201, body = GrantView),
        (status = 404, body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<GrantSpec>,
) -> Result<Response> {
    let award = spec.award(&app, &actor).await?;
    let is_new = app.engine.by(&actor).award(award.clone()).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let place = HeaderValue::from_str(&format!("/v1/grants/{}", award.id()));
    let place = place.unwrap_or(HeaderValue::from_static("/v1/grants"));
    let view = shown(&app, &actor, award).await?;
    Ok((status, [etag(1), (header::LOCATION, place)], Json(view)).into_response())
}

/// Takes a grant away.
#[utoipa::path(
    delete, path = "/v1/grants/{grant_id}", operation_id = "delete_grant", tag = "access",
    params(("grant_id" = String, Path, description = "The id of the grant.")),
    responses((status = 204), (status = 409, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(grant): Path<String>,
) -> Result<StatusCode> {
    app.engine.by(&actor).revoke(id_of(&grant)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
