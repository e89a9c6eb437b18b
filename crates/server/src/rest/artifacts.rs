//! Artifacts: versions of code bundles.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use blobs::{BlobError, BlobReader};
use bytes::Bytes;
use domain::artifact::{
    ArtifactDigest, ArtifactReference, ArtifactVersion, VersionReference, check_labels,
};
use domain::id::TenantId;
use domain::object::check_name;
use engine::PushedArtifact;
use futures_util::stream::unfold;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};

use crate::actor::Actor;
use crate::app::App;
use crate::artifact_uploads::unavailable;
use crate::body::{Body, Params};
use crate::page::{List, bad_cursor, cursor, limit};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// The media type of archives.
const ARCHIVE: &str = "application/zstd";

/// A version of an artifact.
#[derive(Serialize, ToSchema)]
pub struct ArtifactView {
    /// The name of the artifact.
    #[schema(example = "customer_sync")]
    pub name: String,
    /// The number of the version, from 1.
    pub version: u32,
    /// What jobs refer to it by.
    #[schema(example = "customer_sync@3")]
    pub artifact_id: String,
    /// The SHA-256 of the archive, in hex.
    pub digest: String,
    /// The size of the archive.
    pub bytes: u64,
    /// The size of the files in it.
    pub unpacked_bytes: u64,
    /// How many files and folders are in it.
    pub entries: u64,
    /// What the client that pushed it wants to remember.
    pub labels: BTreeMap<String, String>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// The user who pushed it.
    pub created_by: String,
    /// The jobs that use it; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub used_by: Option<Vec<String>>,
}

impl From<ArtifactVersion> for ArtifactView {
    fn from(it: ArtifactVersion) -> Self {
        ArtifactView {
            artifact_id: it.reference(),
            name: it.name,
            version: it.version,
            digest: it.archive.digest.to_string(),
            bytes: it.archive.bytes,
            unpacked_bytes: it.archive.unpacked_bytes,
            entries: it.archive.entries,
            labels: it.labels,
            created_at: it.created_at,
            created_by: it.created_by,
            used_by: None,
        }
    }
}

/// Which versions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only those of this artifact.
    name: Option<String>,
    /// The most items of a page: 1 to 500, 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A version to be made of an upload.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVersion {
    /// The SHA-256 of the upload, in hex.
    #[schema(pattern = "^(sha256:)?[0-9a-fA-F]{64}$")]
    digest: String,
    /// What to remember about it: up to 64 short texts by name.
    #[serde(default)]
    #[schema(required = false)]
    labels: BTreeMap<String, String>,
}

/// How much of an upload has arrived.
#[derive(Serialize, ToSchema)]
pub struct UploadView {
    /// The SHA-256 that the archive shall have, in hex.
    pub digest: String,
    /// How many bytes have arrived.
    pub received: u64,
}

/// Where a piece of an upload belongs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct UploadParams {
    /// How many bytes have arrived before; 0 when absent.
    offset: Option<u64>,
}

fn reference_of(name: &str, version: &str) -> Result<ArtifactReference> {
    format!("{name}@{version}").parse().map_err(|_| no_artifact(name, version))
}

fn no_artifact(name: &str, version: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no artifact {name}@{version}"))
}

fn digest_of(text: &str) -> Result<ArtifactDigest> {
    text.parse().map_err(|error| Problem::invalid("digest", format!("{error}")))
}

fn known_name(name: &str) -> Result<()> {
    check_name(name).map_err(|problem| Problem::invalid("name", problem))
}

/// Lists versions of artifacts: by name, the newest version first.
#[utoipa::path(
    get, operation_id = "list_artifacts", path = "/v1/artifacts", tag = "artifacts", params(ListParams),
    responses((status = 200, body = List<ArtifactView>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    actor: Actor,
    OriginalUri(uri): OriginalUri,
    Params(params): Params<ListParams>,
) -> Result<Response> {
    let after = match cursor(params.cursor.as_deref())? {
        None => None,
        Some(text) => {
            let (version, name) = text.split_once(' ').ok_or_else(bad_cursor)?;
            Some((name.to_owned(), version.parse().map_err(|_| bad_cursor())?))
        }
    };
    let (name, limit) = (params.name.as_deref(), limit(params.limit)?);
    let page = app.engine.by(&actor).list_artifacts(name, after.as_ref(), limit).await?;
    let next = page.next.map(|(name, version)| format!("{version} {name}"));
    Ok(List::new(page.items.into_iter().map(ArtifactView::from).collect(), next).answer(&uri))
}

/// Shows a version of an artifact and the jobs that use it.
#[utoipa::path(
    get, operation_id = "get_artifact", path = "/v1/artifacts/{artifact}/versions/{version}", tag = "artifacts",
    params(
        ("artifact" = String, Path, description = "The name of the artifact."),
        ("version" = String, Path, description = "The number of the version, or `latest`."),
    ),
    responses((status = 200, body = ArtifactView))
)]
pub(crate) async fn get(
    State(app): State<App>,
    actor: Actor,
    Path((name, version)): Path<(String, String)>,
) -> Result<Json<ArtifactView>> {
    let engine = app.engine.by(&actor);
    let found = engine.artifact(&reference_of(&name, &version)?).await?;
    let used_by = Some(engine.artifact_users(&found).await?);
    Ok(Json(ArtifactView { used_by, ..found.into() }))
}

/// Sends the archive of a version.
#[utoipa::path(
    get, operation_id = "download_artifact", path = "/v1/artifacts/{artifact}/versions/{version}/content",
    tag = "artifacts",
    params(
        ("artifact" = String, Path, description = "The name of the artifact."),
        ("version" = String, Path, description = "The number of the version, or `latest`."),
    ),
    responses(
        (status = 200, body = String, content_type = "application/zstd"),
        (status = 304),
        (status = 503, body = ErrorBody, description = "Object storage does not answer."),
    )
)]
pub(crate) async fn download(
    State(app): State<App>,
    actor: Actor,
    Path((name, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response> {
    let engine = app.engine.by(&actor);
    let reference = reference_of(&name, &version)?;
    let found = engine.artifact(&reference).await?;
    engine.may_use_artifacts()?;
    let digest = found.archive.digest;
    let tag = format!("\"sha256:{digest}\"");
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let reader = app.artifacts.blobs.open(digest).await.map_err(unavailable)?;
    let bytes = reader.bytes;
    if bytes != found.archive.bytes {
        return Err(unavailable(BlobError::Damaged(digest)));
    }
    // A body that cannot be read to its end, or has another digest, breaks off; its length tells.
    let body = unfold(CheckedBody { reader, hasher: Sha256::new(), last: None }, CheckedBody::next);
    let mut response = RawBody::from_stream(body).into_response();
    let answer = response.headers_mut();
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(ARCHIVE));
    answer.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    let file = format!("attachment; filename=\"{}-{}.tar.zst\"", found.name, found.version);
    for (name, value) in [(header::ETAG, tag), (header::CONTENT_DISPOSITION, file)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.insert(name, value);
        }
    }
    Ok(response)
}

/// The content of an object, whose last bytes are sent when the digest is known to be right.
struct CheckedBody {
    reader: BlobReader,
    hasher: Sha256,
    /// Bytes that were read and not sent.
    last: Option<Bytes>,
}

impl CheckedBody {
    async fn next(mut self) -> Option<(std::result::Result<Bytes, BlobError>, Self)> {
        loop {
            let chunk = match self.reader.next().await {
                Ok(chunk) => chunk,
                Err(error) => return Some((Err(error), self)),
            };
            let is_end = chunk.is_none();
            self.hasher.update(chunk.as_deref().unwrap_or_default());
            if is_end && self.hasher.clone().finalize()[..] != self.reader.digest.0 {
                return Some((Err(BlobError::Damaged(self.reader.digest)), self));
            }
            match std::mem::replace(&mut self.last, chunk) {
                Some(ready) => return Some((Ok(ready), self)),
                None if is_end => return None,
                None => {}
            }
        }
    }
}

/// Deletes a version that no job uses. Its number is not used again.
#[utoipa::path(
    delete, operation_id = "delete_artifact", path = "/v1/artifacts/{artifact}/versions/{version}", tag = "artifacts",
    params(
        ("artifact" = String, Path, description = "The name of the artifact."),
        ("version" = String, Path, description = "The number of the version."),
    ),
    responses((status = 204), (status = 409, body = ErrorBody, description = "A job uses it."))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    actor: Actor,
    Path((name, version)): Path<(String, String)>,
) -> Result<StatusCode> {
    let reference = reference_of(&name, &version)?;
    if reference.version == VersionReference::Latest {
        return Err(no_artifact(&name, &version));
    }
    app.engine.by(&actor).delete_artifact(&reference).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Says how much of an upload has arrived at this server.
#[utoipa::path(
    get, operation_id = "get_artifact_upload", path = "/v1/artifacts/{artifact}/uploads/{digest}", tag = "artifacts",
    params(
        ("artifact" = String, Path, description = "The name of the artifact."),
        ("digest" = String, Path, description = "The SHA-256 that the archive shall have, in hex."),
    ),
    responses((status = 200, body = UploadView), (status = 422, body = ErrorBody))
)]
pub(crate) async fn upload(
    State(app): State<App>,
    actor: Actor,
    Path((name, digest)): Path<(String, String)>,
) -> Result<Json<UploadView>> {
    app.engine.by(&actor).may_push_artifacts()?;
    known_name(&name)?;
    let digest = digest_of(&digest)?;
    let received = app.artifacts.received(actor.tenant, digest).await?;
    Ok(Json(UploadView { digest: digest.to_string(), received }))
}

/// Adds a piece to an upload: bytes of a tar archive that is compressed with zstd. A client that lost
/// its connection asks how much has arrived, and sends the rest to the same server.
#[utoipa::path(
    put, operation_id = "put_artifact_upload", path = "/v1/artifacts/{artifact}/uploads/{digest}", tag = "artifacts",
    params(
        ("artifact" = String, Path, description = "The name of the artifact."),
        ("digest" = String, Path, description = "The SHA-256 that the archive shall have, in hex."),
        UploadParams,
    ),
    request_body(content = String, content_type = "application/zstd"),
    responses(
        (status = 200, body = UploadView),
        (status = 409, body = ErrorBody, description = "The offset is another one, or the tenant has too many uploads."),
        (status = 413, body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(crate) async fn put_upload(
    State(app): State<App>,
    actor: Actor,
    Path((name, digest)): Path<(String, String)>,
    Params(params): Params<UploadParams>,
    request: Request,
) -> Result<Json<UploadView>> {
    app.engine.by(&actor).may_push_artifacts()?;
    known_name(&name)?;
    let digest = digest_of(&digest)?;
    let (offset, body) = (params.offset.unwrap_or(0), request.into_body());
    let received = app.artifacts.receive(actor.tenant, digest, offset, body).await?;
    Ok(Json(UploadView { digest: digest.to_string(), received }))
}

/// Makes a version of an upload that has wholly arrived. Content that the newest version has is that
/// version.
#[utoipa::path(
    post, operation_id = "push_artifact", path = "/v1/artifacts/{artifact}/versions", tag = "artifacts",
    params(("artifact" = String, Path, description = "The name of the artifact.")),
    request_body = NewVersion,
    responses(
        (status = 200, body = ArtifactView, description = "The newest version has this content."),
        (status = 201, body = ArtifactView),
        (status = 409, body = ErrorBody, description = "The content has not arrived at this server."),
        (status = 503, body = ErrorBody, description = "Object storage does not answer."),
    )
)]
pub(crate) async fn push(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Body(body): Body<NewVersion>,
) -> Result<Response> {
    let engine = app.engine.by(&actor);
    engine.may_push_artifacts()?;
    known_name(&name)?;
    let digest = digest_of(&body.digest)?;
    check_labels(&body.labels).map_err(|error| Problem::invalid("labels", error.to_string()))?;
    let latest = ArtifactReference { name: name.clone(), version: VersionReference::Latest };
    let newest = app.engine.node().artifact_version(actor.tenant, &latest).await?;
    // Content that was sent again is stored again: the object may have been lost.
    let is_sent = app.artifacts.received(actor.tenant, digest).await? > 0;
    if let Some(newest) = newest.filter(|it| it.archive.digest == digest && !is_sent) {
        return Ok(Json(ArtifactView::from(newest)).into_response());
    }
    let archive = app.artifacts.store(actor.tenant, digest).await?;
    let new = ArtifactVersion {
        tenant: TenantId::CLUSTER,
        name,
        version: 0,
        archive,
        labels: body.labels,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: String::new(),
        deleted_at: None,
    };
    let pushed = engine.push_artifact(&new).await?;
    app.artifacts.finish(actor.tenant, digest).await?;
    Ok(match pushed {
        PushedArtifact::New(new) => {
            let version = new.reference();
            tracing::info!(actor = actor.name, version, digest = %digest, "artifact pushed");
            (StatusCode::CREATED, Json(ArtifactView::from(new))).into_response()
        }
        PushedArtifact::Same(same) => Json(ArtifactView::from(same)).into_response(),
    })
}
