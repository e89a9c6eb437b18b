//! The outermost layer: gives every request an id and every problem its form.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::problem::{Code, Problem};

/// The header that carries the id of a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The header by which clients know that an answer comes from a Punctual server.
pub const SERVER_MARK: HeaderName = HeaderName::from_static("punctual-api");

/// The longest id that is accepted from a caller.
const ID_BYTES_MAX: usize = 128;

/// The caller's id, if it is one that cannot do harm in a log.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    ((1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(harmless)).then(|| id.to_owned())
}

fn wants_problem_json(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter();
    accepts.filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim() == "application/problem+json")
        })
    })
}

/// Lets a request in and its answer out.
pub(crate) async fn envelope(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = app.now();
    let id = given_id(request.headers()).unwrap_or_else(|| new_id(&app));
    let as_problem_json = wants_problem_json(request.headers());
    let method = request.method().clone();
    // The pattern, not the path: a label must not grow with what callers make up.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let mut response = next.run(request).await;
    if response.extensions().get::<Problem>().is_none()
        && let Some(problem) = bare(response.status())
        && !response.headers().contains_key(header::CONTENT_TYPE)
    {
        response = problem.into_response();
    }
    if let Some(problem) = response.extensions().get::<Problem>() {
        if problem.code == Code::Internal {
            tracing::error!(request_id = id, problem = problem.message, "a request failed");
        }
        let rendered = problem.render(&id, as_problem_json);
        let (mut parts, body) = rendered.into_parts();
        for (name, value) in response.headers() {
            if !parts.headers.contains_key(name) && *name != header::CONTENT_LENGTH {
                parts.headers.insert(name.clone(), value.clone());
            }
        }
        response = Response::from_parts(parts, body);
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(SERVER_MARK, HeaderValue::from_static("v1"));
    // No other site may show our answers in a frame.
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Only the dashboard has scripts and styles, and it sets a policy of its own.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ));
    headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    if app.options.has_tls {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let took = app.now().duration_since(began);
    let timing = format!("total;dur={:.1}", took.as_secs_f64() * 1000.0);
    if let Ok(value) = HeaderValue::from_str(&timing) {
        headers.insert(HeaderName::from_static("server-timing"), value);
    }
    let route = route.as_deref().unwrap_or("other");
    app.metrics.answered(method.as_str(), route, response.status().as_u16(), took);
    tracing::debug!(
        request_id = id,
        %method,
        route,
        status = response.status().as_u16(),
        took_us = took.as_micros() as i64,
        "answered"
    );
    response
}

fn new_id(app: &App) -> String {
    let ms = app.now().as_millisecond().max(0) as u64;
    let random = (app.random)().to_be_bytes();
    let bytes = random[..10].try_into().unwrap_or([0; 10]);
    uuid::Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid().to_string()
}

/// The problem of an answer that a layer below gave without words.
fn bare(status: StatusCode) -> Option<Problem> {
    let (code, text) = match status {
        StatusCode::NOT_FOUND => (Code::NotFound, "there is nothing at this address"),
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::MethodNotAllowed, "this address does not take this method")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Code::BodyTooLarge, "the body is too large"),
        _ => return None,
    };
    Some(Problem::new(code, text))
}
