//! Settings of the whole cluster.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::{Deed, may};
use engine::{EngineError, Set, Setting};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::condition::{etag, if_match};
use crate::page::List;
use crate::problem::{Code, Problem, Result};

/// The longest name of a setting.
const NAME_BYTES_MAX: usize = 100;

/// A setting of the cluster.
#[derive(Serialize, ToSchema)]
pub struct SettingView {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Grows with every change, from 1.
    pub version: u32,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

impl SettingView {
    fn of(setting: Setting) -> Self {
        SettingView {
            value: serde_json::from_str(&setting.value).unwrap_or(Value::String(setting.value)),
            name: setting.name,
            version: setting.version,
            changed_at: setting.changed_at,
        }
    }
}

/// A value for a setting.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingBody {
    /// The value.
    value: Value,
}

/// Lists the settings of the cluster.
#[utoipa::path(
    get, path = "/v1/settings", operation_id = "list_settings", tag = "server",
    responses((status = 200, body = List<SettingView>))
)]
pub(crate) async fn list(State(app): State<App>, actor: Actor) -> Result<Json<List<SettingView>>> {
    let settings = app.engine.by(&actor).settings().await?;
    Ok(Json(List { data: settings.into_iter().map(SettingView::of).collect(), next_cursor: None }))
}

async fn find(app: &App, actor: &Actor, name: &str) -> Result<Option<Setting>> {
    let settings = app.engine.by(actor).settings().await?;
    Ok(settings.into_iter().find(|setting| setting.name == name))
}

/// Changes a setting of the cluster, or makes it.
#[utoipa::path(
    put, path = "/v1/settings/{name}", operation_id = "put_setting", tag = "server", request_body = SettingBody,
    params(
        ("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,100}$", description = "The name of the setting."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the setting that the change is based on."),
    ),
    responses((status = 200, body = SettingView))
)]
pub(crate) async fn put(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(body): Body<SettingBody>,
) -> Result<Response> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(harmless) {
        let text = format!("has 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes, underscores");
        return Err(Problem::invalid("name", text));
    }
    keep_out(&actor, &name)?;
    change(&app, &actor, &name, Some(&body.value.to_string()), &headers).await?;
    let gone = || Problem::new(Code::VersionConflict, "it was removed meanwhile");
    let setting = find(&app, &actor, &name).await?.ok_or_else(gone)?;
    let view = SettingView::of(setting);
    Ok(([etag(view.version)], Json(view)).into_response())
}

/// Removes a setting of the cluster.
#[utoipa::path(
    delete, path = "/v1/settings/{name}", operation_id = "delete_setting", tag = "server",
    params(
        ("name" = String, Path, description = "The name of the setting."),
        ("If-Match" = Option<String>, Header, description = "The ETag of the setting."),
    ),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    if find(&app, &actor, &name).await?.is_none() {
        return Err(Problem::new(Code::NotFound, format!("there is no setting {name:?}")));
    }
    keep_out(&actor, &name)?;
    change(&app, &actor, &name, None, &headers).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses changes of settings that the leader publishes: they are changed in the configuration of
/// the nodes.
fn keep_out(actor: &Actor, name: &str) -> Result<()> {
    may(actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    if name.starts_with("cluster.") {
        let text = "settings that begin with cluster. are the leader's: change its configuration";
        return Err(Problem::new(Code::WrongState, text));
    }
    Ok(())
}

async fn change(
    app: &App,
    actor: &Actor,
    name: &str,
    value: Option<&str>,
    headers: &HeaderMap,
) -> Result<()> {
    let asked = if_match(headers)?;
    let expected = match asked {
        Some(version) => version,
        None => find(app, actor, name).await?.map_or(0, |setting| setting.version),
    };
    match app.engine.by(actor).set(name, value, expected).await? {
        Set::Done(_) => Ok(()),
        Set::Conflict(version) => {
            let code =
                if asked.is_some() { Code::PreconditionFailed } else { Code::VersionConflict };
            let text =
                format!("the setting has version {version}; the change is based on {expected}");
            Err(Problem::field(code, "version", text))
        }
    }
}
