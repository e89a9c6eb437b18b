//! The dashboard: one page with its scripts and styles, built from `ui/` and contained in the
//! program. It is served under `/ui/`; every address below that is not a file answers the page,
//! whose router then shows what the address names.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Router, body::Body};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::problem::{Code, Problem};

include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// The page itself.
const PAGE: &str = "index.html";

/// The base address that the build writes into the page.
const BUILT_BASE: &str = "<base href=\"/ui/\"";

/// Files below this folder carry the hash of their contents in their names.
const HASHED: &str = "assets/";

/// Smaller files are not compressed.
const GZIP_BYTES_MIN: usize = 1024;

/// Scripts and styles are files of this server, and no text becomes markup: `svelte-trusted-html`
/// is the policy under which the framework makes elements from its own templates.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'self'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// A file of the dashboard.
struct Asset {
    bytes: &'static [u8],
    digest: String,
    gzip: OnceLock<Option<Bytes>>,
}

static ASSETS: LazyLock<HashMap<&str, Asset>> = LazyLock::new(|| {
    let asset = |bytes| Asset { bytes, digest: digest(bytes), gzip: OnceLock::new() };
    FILES.iter().map(|(name, bytes)| (*name, asset(bytes))).collect()
});

/// The routes of the dashboard. They need no key: the page is the same for all users.
pub(crate) fn routes() -> Router<App> {
    let home = |State(app): State<App>| async move { Redirect::to(&app.options.ui.base_path) };
    Router::new()
        .route("/", get(home))
        .route("/ui", get(home))
        .route("/ui/", get(page))
        .route("/ui/{*path}", get(file))
}

async fn file(State(app): State<App>, Path(path): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.get(path.as_str()) {
        Some(asset) if path != PAGE => asset.answer(&path, &headers),
        // A script that another version of the server has must not be answered with the page.
        _ if path.starts_with(HASHED) => {
            Problem::new(Code::NotFound, "this version of the server has no such file")
                .into_response()
        }
        _ => page(State(app), headers).await,
    }
}

async fn page(State(app): State<App>, headers: HeaderMap) -> Response {
    let built = ASSETS.get(PAGE).map(|page| String::from_utf8_lossy(page.bytes));
    let Some(built) = built else {
        return Problem::new(Code::NotFound, "this server was built without a dashboard")
            .into_response();
    };
    let base = format!("<base href=\"{}\"", app.options.ui.base_path);
    let page = built.replacen(BUILT_BASE, &base, 1);
    let etag = format!("\"{}\"", digest(page.as_bytes()));
    let mut response = answer(&headers, &etag, "no-cache", Bytes::from(page));
    let more = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ];
    for (name, value) in more {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Asset {
    fn answer(&self, name: &str, headers: &HeaderMap) -> Response {
        let is_hashed = name.starts_with(HASHED);
        let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        let gzip = accepts_gzip(headers).then(|| self.gzip().cloned()).flatten();
        let is_gzip = gzip.is_some();
        let suffix = if is_gzip { "-gzip" } else { "" };
        let etag = format!("\"{}{suffix}\"", self.digest);
        let bytes = gzip.unwrap_or_else(|| Bytes::from_static(self.bytes));
        let mut response = answer(headers, &etag, caching, bytes);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(name)));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        );
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// The file compressed, once for all who ask; none when that does not make it smaller.
    fn gzip(&self) -> Option<&Bytes> {
        let made = self.gzip.get_or_init(|| {
            if self.bytes.len() < GZIP_BYTES_MIN {
                return None;
            }
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(self.bytes).ok()?;
            let made = encoder.finish().ok()?;
            (made.len() < self.bytes.len()).then(|| Bytes::from(made))
        });
        made.as_ref()
    }
}

/// The bytes, or that the client has them already.
fn answer(headers: &HeaderMap, etag: &str, caching: &'static str, bytes: Bytes) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let known = known.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let is_known = known.map(|value| value.trim().trim_start_matches("W/")).any(|it| it == etag);
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(bytes).into_response(),
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(
        |coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let is_refused =
                weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()) == Some(0.0);
            name.trim().eq_ignore_ascii_case("gzip") && !is_refused
        },
    )
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
