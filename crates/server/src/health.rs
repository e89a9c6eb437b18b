//! Whether the server lives, whether it works, and what it is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::access::{Actor, Deed, may};
use domain::cluster::NodeState;
use engine::{EngineError, Health, Stalled};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::actor::authenticate;
use crate::app::App;
use crate::body::Params;
use crate::limit::{Caller, Limits};
use crate::metrics::Asked;
use crate::problem::{ErrorBody, Result};

/// How long the store may take to answer. A request about readiness waits for this at most.
const PING: Duration = Duration::from_secs(2);

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
    /// The findings.
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
    /// The loops of the scheduler go on, and its claims are answered. How many runs wait does not
    /// matter: see `backlog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Check>,
    /// The waiting runs of all tenants. It does not make the server unready: a job may have more runs
    /// than slots, or wait for a node that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Secrets can be read. Jobs that need none run in any case, so this does not make the server
    /// unready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Check>,
}

/// Runs that are due and that no node holds.
#[derive(Serialize, ToSchema)]
pub struct Backlog {
    /// How many.
    pub queued: u64,
    /// When the oldest of them was due that any node may execute.
    pub oldest_due: Option<Timestamp>,
}

/// Which release this is.
#[derive(Serialize, ToSchema)]
pub struct Version {
    /// `punctual`.
    pub name: &'static str,
    /// The release.
    pub version: &'static str,
    /// The version of the time-zone database, and where it comes from: `2026e (bundled)`.
    pub tzdb_version: String,
}

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()), responses((status = 200, body = String)))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The server works: its store answers, and the loops of its scheduler go on.
#[utoipa::path(
    get, path = "/readyz", tag = "server", security(()), params(ReadyParams),
    responses((status = 200, body = Readiness), (status = 503, body = Readiness))
)]
pub(crate) async fn readyz(
    State(app): State<App>,
    Params(params): Params<ReadyParams>,
) -> Response {
    let (store, scheduling) = (store(&app).await, scheduling(&app));
    let ready = store.ok && scheduling.ok;
    let verbose = params.verbose.is_some_and(|value| value != "false" && value != "0");
    let backlog = match verbose && store.ok {
        true => app.engine.node().counts().await.ok(),
        false => None,
    };
    let body = Readiness {
        status: if ready { "ready" } else { "not ready" },
        store: verbose.then_some(store),
        scheduling: verbose.then_some(scheduling),
        backlog: backlog.map(|counts| Backlog {
            queued: counts.live.queued,
            oldest_due: counts.live.oldest_due,
        }),
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
    let vault::Health { kept, unreadable, behind } = health;
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

async fn store(app: &App) -> Check {
    match tokio::time::timeout(PING, app.engine.node().ping()).await {
        Ok(Ok(())) => Check { ok: true, detail: "it answers".into() },
        Ok(Err(_)) => Check { ok: false, detail: "it does not answer".into() },
        Err(_) => Check { ok: false, detail: format!("no answer within {} s", PING.as_secs()) },
    }
}

/// Whether this node schedules: its loops had recent answers, and its clock is trusted.
fn scheduling(app: &App) -> Check {
    let most = u64::from(app.options.stall_seconds_max);
    let health = app.engine.health(Duration::from_secs(most));
    let Health { stalled, distrusted_clock, is_stopping } = health;
    if is_stopping {
        return Check { ok: false, detail: "the server is stopping".into() };
    }
    let detail = match (stalled, distrusted_clock) {
        (Some(Stalled { step, silent }), _) => {
            format!("the step {step} has had no answer for {} s", silent.as_secs())
        }
        (None, Some(offset)) => {
            let offset = offset.as_secs_f64();
            format!("the clock is off by {offset:.1} s: this node plans and claims nothing")
        }
        (None, None) => return Check { ok: true, detail: "every step has answers".into() },
    };
    Check { ok: false, detail }
}

/// Which release this is.
#[utoipa::path(get, path = "/version", tag = "server", security(()), responses((status = 200, body = Version)))]
pub(crate) async fn version(State(app): State<App>) -> Json<Version> {
    let tzdb_version = app.zones.version().to_owned();
    Json(Version { name: "punctual", version: env!("CARGO_PKG_VERSION"), tzdb_version })
}

/// The metrics, for Prometheus. It needs a key unless the administrator decided otherwise.
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
        // The metrics are of all tenants.
        may(&actor, Deed::SeeCluster).map_err(EngineError::from)?;
    }
    let now = app.now();
    let nodes = app.engine.by(&Actor::admin()).nodes().await?;
    let asked = Asked {
        counts: app.engine.node().counts().await?,
        activity: app.engine.activity(),
        nodes: nodes.iter().filter(|node| is_alive(node.state) && node.lease_until > now).count(),
    };
    let text = app.metrics.render(&asked, now);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn is_alive(state: NodeState) -> bool {
    matches!(state, NodeState::Active | NodeState::Draining)
}
