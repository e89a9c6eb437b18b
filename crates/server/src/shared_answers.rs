//! Answers that several requests share. A request that reads and accepts an answer of some age
//! (`Cache-Control: max-age=2`, RFC 9111) gets the answer to the same request of the same user that
//! was made lately, or waits for the one that is being made. Pages of the dashboard refresh
//! themselves in this way: fifty open tabs cost the store what one costs.
//!
//! An answer from before an event that was delivered to listeners is not given to them: a page that
//! asks because of an event sees its effect.
//!
//! Lists that clients poll ([`POLLED`]) are shared without that header as well, where that is not
//! noticeable: requests that wait while the same one is answered get one answer together, which is
//! begun after the last of them came.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use domain::access;
use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// The oldest answer that is given to any request.
const AGE_MAX: u32 = 10;

/// The largest answer that is kept, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Answers that are kept before old ones are dropped.
const ANSWERS_MAX: usize = 256;

/// Lists that clients poll.
const POLLED: [&str; 4] =
    ["/v1/jobs", "/v1/executions", "/v1/jobs/{job_id}/executions", "/v1/dag-runs"];

/// Identity of a request: requests with equal ones share an answer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    uri: Uri,
    /// The accepted form of the answer.
    form: Vec<u8>,
    /// The actor, without the key of the session.
    actor: String,
    /// The oldest answer that is accepted; zero for one that is begun after the request came.
    age: SignedDuration,
}

/// An answer, when its making began, and how many events were known by then.
struct Kept {
    began: Timestamp,
    /// The place of its beginning among those of all answers.
    number: u64,
    events: u64,
    headers: HeaderMap,
    body: Bytes,
}

type AnswerSlot = Arc<tokio::sync::Mutex<Option<Kept>>>;

/// The answers of a server.
#[derive(Default)]
pub(crate) struct SharedAnswers {
    places: Mutex<HashMap<Question, AnswerSlot>>,
    /// How many answers were begun.
    begun: AtomicU64,
}

impl Question {
    /// The question of a request that accepts an answer of some age; none if it wants one of its own.
    pub(crate) fn of(request: &Request, actor: &access::Actor) -> Option<Self> {
        let headers = request.headers();
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let is_polled = route.is_some_and(|route| POLLED.contains(&route));
        let age = accepted_age(request.method(), headers, is_polled)?;
        let form = headers.get(header::ACCEPT).map(|value| value.as_bytes().to_vec());
        let who = access::Actor { key: None, until: None, ..actor.clone() };
        Some(Question {
            uri: request.uri().clone(),
            form: form.unwrap_or_default(),
            actor: format!("{who:?}"),
            age,
        })
    }
}

fn accepted_age(method: &Method, headers: &HeaderMap, is_polled: bool) -> Option<SignedDuration> {
    let is_partial =
        [header::RANGE, header::IF_NONE_MATCH].iter().any(|it| headers.contains_key(it));
    if method != Method::GET || is_partial {
        return None;
    }
    let words = headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let word = words
        .and_then(|words| words.split(',').find_map(|word| word.trim().strip_prefix("max-age=")));
    match word.and_then(|seconds| seconds.parse::<u32>().ok()) {
        Some(seconds @ 1..) => Some(SignedDuration::from_secs(i64::from(seconds.min(AGE_MAX)))),
        _ => is_polled.then_some(SignedDuration::ZERO),
    }
}

impl Kept {
    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.headers_mut() = self.headers.clone();
        response
    }
}

impl SharedAnswers {
    fn place(&self, question: Question) -> AnswerSlot {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= ANSWERS_MAX && !places.contains_key(&question) {
            // Answers that no request waits for can be made again.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        Arc::clone(places.entry(question).or_default())
    }

    /// Drops the answer to a question that no other request waits for.
    fn leave(&self, question: &Question, place: AnswerSlot) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // One is in the map, one is ours; all are taken and given back under the same lock.
        let is_last = Arc::strong_count(&place) <= 2;
        drop(place);
        if is_last {
            places.remove(question);
        }
    }

    /// Answers with what was made lately, or with what `make` makes.
    pub(crate) async fn share(
        &self,
        app: &App,
        question: Question,
        make: impl Future<Output = Result<Response>>,
    ) -> Result<Response> {
        let came = self.begun.load(Ordering::SeqCst);
        let place = self.place(question.clone());
        let answered = self.share_at(app, &place, question.age, came, make).await;
        if question.age.is_zero() {
            self.leave(&question, place);
        }
        answered
    }

    async fn share_at(
        &self,
        app: &App,
        place: &AnswerSlot,
        age: SignedDuration,
        came: u64,
        make: impl Future<Output = Result<Response>>,
    ) -> Result<Response> {
        let mut kept = place.lock().await;
        let (began, events) = (app.now(), app.events.told());
        let is_fresh = |kept: &&Kept| match age.is_zero() {
            true => kept.number > came,
            false => kept.events == events && began.duration_since(kept.began) <= age,
        };
        if let Some(kept) = kept.as_ref().filter(is_fresh) {
            return Ok(kept.response());
        }
        *kept = None;
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let response = make.await?;
        let bytes = response.body().size_hint().exact();
        // Streams and problems are answers to one request.
        if response.status() != StatusCode::OK || bytes.is_none_or(|bytes| bytes > BYTES_MAX) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let failed = |_| Problem::new(Code::Internal, "the answer could not be written");
        let body = to_bytes(body, BYTES_MAX as usize).await.map_err(failed)?;
        let (headers, copy) = (parts.headers.clone(), body.clone());
        *kept = Some(Kept { began, number, events, headers, body: copy });
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_old_its_answer_may_be() {
        for (method, text, expected) in [
            (Method::GET, Some("max-age=2"), Some(2)),
            (Method::GET, Some("no-transform, max-age=5"), Some(5)),
            (Method::GET, Some("max-age=86400"), Some(10)),
            (Method::GET, Some("max-age=0"), None),
            (Method::GET, Some("max-age=-1"), None),
            (Method::GET, Some("max-age=2x"), None),
            (Method::GET, Some("no-cache"), None),
            (Method::GET, None, None),
            (Method::POST, Some("max-age=2"), None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(text) = text {
                headers.insert(header::CACHE_CONTROL, text.parse().unwrap());
            }
            let age = accepted_age(&method, &headers, false).map(|age| age.as_secs());
            assert_eq!(age, expected, "{method} {text:?}");
            let of_list = (method == Method::GET).then_some(expected.unwrap_or(0));
            let age = accepted_age(&method, &headers, true).map(|age| age.as_secs());
            assert_eq!(age, of_list, "{method} {text:?} of a list");
        }
    }
}
