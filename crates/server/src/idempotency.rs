//! `Idempotency-Key`: a request that is sent again is answered as before, and done once.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use engine::{Answer, RequestState};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::actor::{Actor, Salt};
use crate::app::App;
use crate::body::read;
use crate::problem::{Code, Problem, Result};

/// Names a request that may be sent again.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key.
const KEY_BYTES_MAX: usize = 255;

/// The largest answer that is kept.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The headers that are kept with an answer.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::ETAG, header::LOCATION];

#[derive(Serialize, Deserialize)]
struct Head(Vec<(String, String)>);

/// Answers a POST with a key once, and again from memory.
pub(crate) async fn once(app: &App, request: Request, next: Next) -> Result<Response> {
    let Some(key) = request.headers().get(&KEY).filter(|_| request.method() == Method::POST) else {
        return Ok(next.run(request).await);
    };
    let visible = |key: &&str| key.bytes().all(|byte| byte.is_ascii_graphic());
    let key = key.to_str().ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    let key = key.filter(visible);
    let wrong = || {
        let text = format!("must be 1 to {KEY_BYTES_MAX} visible characters");
        Problem::field(Code::InvalidRequest, "Idempotency-Key", text)
    };
    let key = key.ok_or_else(wrong)?.to_owned();
    let actor =
        request.extensions().get::<Actor>().cloned().ok_or_else(Problem::unauthenticated)?;
    let Salt(salt) =
        request.extensions().get::<Salt>().copied().ok_or_else(Problem::unauthenticated)?;
    let (parts, body) = request.into_parts();
    let bytes = read(body, app.options.bulk_bytes_max).await?;
    // A body may hold a password: without the salt, the hash would be something to try them on.
    let mut hash = Sha256::new().chain_update(salt);
    for part in [parts.uri.path(), parts.uri.query().unwrap_or_default()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(&bytes);
    let fingerprint: [u8; 32] = hash.finalize().into();
    let engine = &app.engine;
    match engine.by(&actor).begin_request(&key, &fingerprint).await? {
        RequestState::New => {}
        RequestState::Replay(answer) => return Ok(replay(answer)),
        RequestState::Conflict => {
            let text = "the key was used for another request; take a new one";
            return Err(Problem::field(Code::IdempotencyKeyReused, "Idempotency-Key", text));
        }
        RequestState::InProgress => {
            let text = "a request with this key is being answered; ask again in a moment";
            return Err(Problem::new(Code::IdempotencyKeyInUse, text)
                .with_header(header::RETRY_AFTER, HeaderValue::from_static("1")));
        }
    }
    // The answer is stored even if the client disconnects.
    let engine = engine.clone();
    let answered = tokio::spawn(async move {
        let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
        let secret = response.headers().get(header::CACHE_CONTROL);
        let secret = secret.is_some_and(|value| value == "no-store");
        if !response.status().is_success() || secret {
            // Nothing was done, or the answer is not kept: a repeated request tries
            // again.
            engine.by(&actor).finish_request(&key, None).await?;
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, ANSWER_BYTES_MAX)
            .await
            .map_err(|_| Problem::new(Code::Internal, "the answer could not be kept"))?;
        let head = KEPT.iter().filter_map(|name| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        });
        let head = serde_json::to_string(&Head(head.collect())).unwrap_or_default();
        let answer = Answer { status: parts.status.as_u16(), head, body: body.to_vec() };
        engine.by(&actor).finish_request(&key, Some(&answer)).await?;
        Ok(Response::from_parts(parts, Body::from(body)))
    });
    answered.await.unwrap_or_else(|_| Err(Problem::new(Code::Internal, "the request was lost")))
}

fn replay(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = (status, answer.body).into_response();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    let Head(head) = serde_json::from_str(&answer.head).unwrap_or(Head(Vec::new()));
    for (name, value) in head {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
