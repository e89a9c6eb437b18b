//! The interfaces of a server: REST over HTTP, health, metrics, and the description of it all.
//!
//! A handler reads a request, calls the engine, and serializes the result. It makes no decisions
//! and has no access to a store. Every route but the few that [`router`] names requires
//! authentication.

mod actor;
mod admission;
mod app;
mod artifact_collector;
mod artifact_uploads;
mod body;
mod closing;
mod condition;
mod connection;
mod cookie;
mod delivery;
mod directory;
mod envelope;
mod health;
mod idempotency;
mod job_requests;
mod key;
mod limit;
mod listen;
mod login;
mod metrics;
mod news;
mod node_names;
mod oidc;
mod openapi;
mod output_archive;
mod output_archiver;
mod page;
mod pending;
mod pg;
mod problem;
mod queries;
mod reads;
mod rest;
mod scram;
mod shared_answers;
mod shared_key;
pub mod sql;
mod status;
mod sweeper;
mod sys;
mod trials;
mod ui;
mod week_plan;
mod wire;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use limit::Limits;
use reads::Reads;

pub use actor::{Actor, Answer, Authority, Keys};
pub use app::{App, Options, Parts, UiOptions};
pub use artifact_collector::{ArtifactCollector, Collected};
pub use artifact_uploads::ArtifactStorage;
pub use envelope::SERVER_MARK;
pub use job_requests::take_job_requests;
pub use key::{Key, KeyHash, KeyKind};
pub use limit::{Caller, Rate};
pub use listen::{ListenerLimits, serve};
pub use login::{Login, Session};
pub use metrics::{JobSelection, Metrics, MetricsOptions};
pub use node_names::NodeNames;
pub use oidc::{Fetcher, Issuer, LoginClient, Mapping, Oidc};
pub use openapi::describe;
pub use output_archive::{OutputArchive, OutputArchiveError};
pub use output_archiver::{ArchiveRule, ArchivedPage, OutputArchiver};
pub use pending::{Pending, PendingConnections};
pub use pg::{
    SessionLimits, Shown as ShownCertificate, SqlListener, Terms as SqlTerms, Tls as SqlTls,
};
pub use problem::{Code, Detail, Problem};
pub use queries::{Queries, QueryLimits, lower_priority};
pub use query::{PoolLimits, count_memory};
pub use reads::ReadLimits;
pub use rest::{ConfigurationEntry, shape};
pub use sweeper::{Sweeper, Swept};
pub use sys::{TABLES, attempt_uuid, engine as sys_engine, run_of_attempt};
pub use trials::{Known, Trials, Tried};
pub use wire::{AgentEndpoint, assignment};

/// The routes that answer without a key; `/metrics` looks at it by itself.
fn public_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::version))
        .routes(routes!(health::metrics))
        .routes(routes!(openapi::openapi_json))
        .routes(routes!(openapi::docs))
        .routes(routes!(rest::session::login))
        .routes(routes!(
            rest::browser_session::show,
            rest::browser_session::open,
            rest::browser_session::close
        ))
        .routes(routes!(rest::oidc_login::callback))
        .routes(routes!(rest::oidc_login::start))
        .routes(routes!(rest::hook_delivery::deliver))
}

/// Everything that the server answers to people and programs.
pub fn router(app: App) -> Router {
    assembled(app, Router::new())
}

/// The same, and what it answers to agents elsewhere.
pub fn router_with_agents(app: App, agents: Arc<AgentEndpoint>) -> Router {
    let more = wire::routes(&app, agents);
    assembled(app, more)
}

fn assembled(app: App, more: Router<App>) -> Router {
    let (public, _) = public_routes().split_for_parts();
    let (private, _) = rest::routes().split_for_parts();
    let reads = Arc::new(Reads::new(app.options.reads));
    // An address that does not exist needs authentication too: it looks like one that does.
    let private =
        private.fallback(nothing_here).layer(from_fn_with_state(app.clone(), actor::require_key));
    private
        .merge(public)
        .merge(more)
        .merge(ui::routes())
        .merge(status::routes())
        .layer(Extension(Arc::new(Limits::default())))
        .layer(Extension(reads))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), envelope::envelope))
        .with_state(app)
}

/// The router of a separate monitoring address: metrics and health, and nothing else.
pub fn watch_router(app: App) -> Router {
    let (watch, _) = OpenApiRouter::<App>::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .split_for_parts();
    watch
        .fallback(nothing_here)
        .layer(Extension(Arc::new(Limits::default())))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), envelope::envelope))
        .with_state(app)
}

async fn nothing_here() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this address")
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word");
    tracing::error!(panic = text, "a handler panicked");
    Problem::new(Code::Internal, "something went wrong here; the log says what").into_response()
}
