//! Backups of the whole server, of all tenants.

use agent::backup::{Backup, BackupError, BackupParts};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::access::Deed;
use domain::action::BackupAction;
use domain::audit::{Event, Kind};
use domain::id::TenantId;
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::actor::Actor;
use crate::app::App;
use crate::body::{Body as JsonBody, Params};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The request.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// A target of the server's settings.
    #[schema(example = "nightly")]
    target: String,
    /// How many backups stay in the target; older ones are deleted when this one is whole. All when absent.
    #[schema(minimum = 1, maximum = 4294967295_u32)]
    keep: Option<u32>,
    /// Whether outputs of runs are part of it; true when absent.
    outputs: Option<bool>,
    /// Whether the archives of artifacts are part of it; false when absent.
    artifacts: Option<bool>,
}

/// A backup that was made.
#[derive(Serialize, ToSchema)]
pub struct BackupView {
    /// The target.
    target: String,
    /// The name of its file there.
    #[schema(example = "punctual-20270101T030000.000Z.tar.zst")]
    name: String,
    /// Its size.
    bytes: u64,
    /// The SHA-256 of the file, in hex.
    sha256: String,
    /// How many files are in it.
    files: u64,
    /// Older ones that were deleted.
    removed: Vec<String>,
}

impl From<Backup> for BackupView {
    fn from(backup: Backup) -> Self {
        let Backup { target, name, bytes, sha256, files, removed } = backup;
        BackupView { target, name, bytes, sha256, files, removed }
    }
}

/// Makes a backup in a target of the server's settings, and answers when it is whole. Jobs run on
/// meanwhile. A caller who goes away gives it up.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "create_backup", tag = "server", request_body = BackupRequest,
    responses(
        (status = 201, body = BackupView),
        (status = 409, body = ErrorBody, description = "Another backup is being made."),
        (status = 500, body = ErrorBody),
        (status = 501, body = ErrorBody, description = "The store is not the embedded one."),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    JsonBody(request): JsonBody<BackupRequest>,
) -> Result<Response> {
    // It holds what all tenants have.
    actor.may(Deed::ChangeCluster)?;
    let order = BackupAction {
        target: request.target,
        keep: request.keep,
        outputs: request.outputs.unwrap_or(true),
        artifacts: request.artifacts.unwrap_or(false),
    };
    domain::action::Action::Backup(order.clone())
        .check()
        .map_err(|error| Problem::invalid(error.field, error.problem))?;
    let details = json!({
        "keep": order.keep, "outputs": order.outputs, "artifacts": order.artifacts,
        "target": order.target,
    });
    record(&app, &actor, &details).await?;
    let backup = app.backups.to_target(&order).await.map_err(problem)?;
    tracing::info!(actor = actor.name, target = backup.target, name = backup.name, "backup made");
    Ok((StatusCode::CREATED, Json(BackupView::from(backup))).into_response())
}

/// Parts of a backup.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DownloadParams {
    /// Whether outputs of runs are part of it; true when absent.
    outputs: Option<bool>,
    /// Whether the archives of artifacts are part of it; false when absent.
    artifacts: Option<bool>,
}

/// Makes a backup and sends it: a tar archive, compressed with zstd. Jobs run on meanwhile. The
/// archive ends with its manifest; one without was cut off.
#[utoipa::path(
    get, path = "/v1/backup", operation_id = "download_backup", tag = "server", params(DownloadParams),
    responses(
        (status = 200, body = String, content_type = "application/zstd"),
        (status = 409, body = ErrorBody, description = "Another backup is being made."),
        (status = 501, body = ErrorBody, description = "The store is not the embedded one."),
    )
)]
pub(crate) async fn download(
    State(app): State<App>,
    actor: Actor,
    Params(params): Params<DownloadParams>,
) -> Result<Response> {
    actor.may(Deed::ChangeCluster)?;
    let (outputs, artifacts) = (params.outputs.unwrap_or(true), params.artifacts.unwrap_or(false));
    let details = json!({ "download": true, "outputs": outputs, "artifacts": artifacts });
    record(&app, &actor, &details).await?;
    let mut backup = app.backups.stream(BackupParts { outputs, artifacts }).map_err(problem)?;
    // A backup that fails before its first part is a response with a cause, not a body that breaks
    // off.
    let first = match backup.parts.recv().await {
        Some(Err(error)) => return Err(problem(BackupError::Failed(error.to_string()))),
        first => first,
    };
    tracing::info!(actor = actor.name, name = backup.name, "a backup is sent");
    let name = format!("attachment; filename=\"{}\"", backup.name);
    let parts = unfold((first, backup.parts), |(first, mut parts)| async move {
        let part = match first {
            Some(first) => first,
            None => parts.recv().await?,
        };
        Some((part, (None, parts)))
    });
    let mut response = Body::from_stream(parts).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zstd"));
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Records the request of a backup, before anything is read: it holds what all tenants
/// have, and what cannot be recorded does not happen.
async fn record(app: &App, actor: &Actor, details: &Value) -> Result<()> {
    let event = Event {
        tenant: TenantId::CLUSTER,
        actor: actor.name.clone(),
        kind: Kind::Backup,
        job: None,
        run: None,
        outcome: "REQUESTED".to_owned(),
        details: details.to_string(),
    };
    Ok(app.engine.node().record(event).await?)
}

fn problem(error: BackupError) -> Problem {
    let text = error.to_string();
    match error {
        BackupError::Unsupported(_) => Problem::new(Code::NotSupported, text),
        BackupError::UnknownTarget { .. } => Problem::invalid("target", text),
        BackupError::Busy => Problem::new(Code::WrongState, text),
        BackupError::Failed(_) => {
            tracing::error!(error = text, "a backup failed");
            Problem::new(Code::Internal, text)
        }
    }
}
