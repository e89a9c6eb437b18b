//! Whether the server lives, whether it works, and what it is.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::access::{Actor, Deed, may};
use domain::cluster::NodeState;
use engine::EngineError;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use vault::Health;

use crate::actor::authenticate;
use crate::app::App;
use crate::body::Params;
use crate::limit::{Caller, Limits};
use crate::metrics::Asked;
use crate::problem::{ErrorBody, Result};

/// How much a caller wants to know.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ReadyParams {
    /// Answers each check.
    verbose: Option<String>,
}

/// One thing that must be right.
#[derive(Serialize, ToSchema)]
pub struct Check {
    /// Whether it is.
    pub ok: bool,
    /// What was found.
    pub detail: String,
}

/// Whether the server works.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not ready`.
    pub status: &'static str,
    /// The store answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Check>,
    /// Runs start when they are due: how long the oldest one has waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Check>,
    /// Secrets can be read. Jobs that need none run in any case, so this does not make the server
    /// unready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Check>,
}

/// Which release this is.
#[derive(Serialize, ToSchema)]
pub struct Version {
    /// `punctual`.
    pub name: &'static str,
    /// The release.
    pub version: &'static str,
}

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()), responses((status = 200, body = String)))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The server works: its store answers and no due run waits for long.
#[utoipa::path(
    get, path = "/readyz", tag = "server", security(()), params(ReadyParams),
    responses((status = 200, body = Readiness), (status = 503, body = Readiness))
)]
pub(crate) async fn readyz(
    State(app): State<App>,
    Params(params): Params<ReadyParams>,
) -> Response {
    let (store, scheduling) = checks(&app).await;
    let ready = store.ok && scheduling.ok;
    let verbose = params.verbose.is_some_and(|value| value != "false" && value != "0");
    let body = Readiness {
        status: if ready { "ready" } else { "not ready" },
        store: verbose.then_some(store),
        scheduling: verbose.then_some(scheduling),
        secrets: if verbose { Some(secrets(&app).await) } else { None },
    };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

async fn secrets(app: &App) -> Check {
    let health = match app.secrets.health().await {
        Ok(health) => health,
        Err(_) => return Check { ok: false, detail: "the store does not answer".into() },
    };
    let Health { kept, unreadable, behind } = health;
    if !unreadable.is_empty() {
        let keys: Vec<&str> = unreadable.iter().map(|(key, _)| key.as_str()).collect();
        let count: u64 = unreadable.iter().map(|(_, count)| count).sum();
        let detail = format!(
            "{count} of {kept} secrets cannot be read: this node does not have the master key {}",
            keys.join(", ")
        );
        return Check { ok: false, detail };
    }
    let detail = match behind {
        0 => format!("{kept} secrets can be read"),
        behind => format!("{kept} secrets can be read, {behind} of them under an old master key"),
    };
    Check { ok: true, detail }
}

async fn checks(app: &App) -> (Check, Check) {
    let counts = app.scheduler.counts().await;
    let store = match &counts {
        Ok(_) if app.scheduler.is_ready() => Check { ok: true, detail: "it answers".into() },
        Ok(_) => Check { ok: false, detail: "it answers again; the engine has not noticed".into() },
        Err(_) => Check { ok: false, detail: "it does not answer".into() },
    };
    let oldest = counts.ok().and_then(|counts| counts.oldest_due);
    let waited = oldest.map_or(0, |due| app.now().duration_since(due).as_secs().max(0));
    let most = i64::from(app.options.lag_seconds_max);
    let detail = match oldest {
        Some(due) => format!("the oldest due run has waited {waited} s, since {due}"),
        None => "no due run waits".to_owned(),
    };
    (store, Check { ok: waited <= most, detail })
}

/// Which release this is.
#[utoipa::path(get, path = "/version", tag = "server", security(()), responses((status = 200, body = Version)))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { name: "punctual", version: env!("CARGO_PKG_VERSION") })
}

/// The figures, for Prometheus. It needs a key unless the administrator decided otherwise.
#[utoipa::path(
    get, path = "/metrics", tag = "server", security((), ("key" = [])),
    responses(
        (status = 200, body = String, content_type = "application/openmetrics-text"),
        (status = 401, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn metrics(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Result<Response> {
    if !app.options.open_metrics {
        let caller = caller.map(|Extension(caller)| caller);
        let (_, actor) = authenticate(&app, &limits, caller, &headers).await?;
        // The figures are of all tenants.
        may(&actor, Deed::SeeCluster).map_err(EngineError::from)?;
    }
    let now = app.now();
    let nodes = app.scheduler.nodes(&Actor::admin()).await?;
    let asked = Asked {
        counts: app.scheduler.counts().await?,
        activity: app.scheduler.activity(),
        nodes: nodes.iter().filter(|node| is_alive(node.state) && node.lease_until > now).count(),
    };
    let text = app.metrics.render(&asked, now);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn is_alive(state: NodeState) -> bool {
    matches!(state, NodeState::Active | NodeState::Draining)
}
