//! Answers that several requests share. A request that reads and accepts an answer of some age
//! (`Cache-Control: max-age=2`, RFC 9111) gets the answer to the same request of the same user that
//! was made lately, or waits for the one that is being made. Pages of the dashboard refresh
//! themselves in this way: fifty open tabs cost the store what one costs.
//!
//! An answer from before an event that listeners were told of is not given to them: a page that
//! asks because something happened sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
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

/// What is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    uri: Uri,
    /// The accepted form of the answer.
    form: Vec<u8>,
    /// Who asks: the key of a session does not matter.
    actor: String,
    age: SignedDuration,
}

/// An answer, when its making began, and how many events were known by then.
struct Kept {
    began: Timestamp,
    events: u64,
    headers: HeaderMap,
    body: Bytes,
}

type Place = Arc<tokio::sync::Mutex<Option<Kept>>>;

/// The answers of a server.
#[derive(Default)]
pub(crate) struct SharedAnswers(Mutex<HashMap<Question, Place>>);

impl Question {
    /// The question of a request that accepts an answer of some age; none if it wants one of its own.
    pub(crate) fn of(request: &Request, actor: &access::Actor) -> Option<Self> {
        let headers = request.headers();
        let age = accepted_age(request.method(), headers)?;
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

fn accepted_age(method: &Method, headers: &HeaderMap) -> Option<SignedDuration> {
    let is_partial =
        [header::RANGE, header::IF_NONE_MATCH].iter().any(|it| headers.contains_key(it));
    if method != Method::GET || is_partial {
        return None;
    }
    let words = headers.get(header::CACHE_CONTROL)?.to_str().ok()?;
    let seconds: u32 =
        words.split(',').find_map(|word| word.trim().strip_prefix("max-age="))?.parse().ok()?;
    (seconds > 0).then(|| SignedDuration::from_secs(i64::from(seconds.min(AGE_MAX))))
}

impl SharedAnswers {
    fn place(&self, question: Question) -> Place {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= ANSWERS_MAX && !places.contains_key(&question) {
            // What no request waits for can be made again.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        Arc::clone(places.entry(question).or_default())
    }

    /// Answers with what was made lately, or with what `make` makes.
    pub(crate) async fn share(
        &self,
        app: &App,
        question: Question,
        make: impl Future<Output = Result<Response>>,
    ) -> Result<Response> {
        let age = question.age;
        let place = self.place(question);
        let mut kept = place.lock().await;
        let (began, events) = (app.now(), app.events.told());
        let is_fresh =
            |kept: &&Kept| kept.events == events && began.duration_since(kept.began) <= age;
        if let Some(kept) = kept.as_ref().filter(is_fresh) {
            let mut response = Response::new(Body::from(kept.body.clone()));
            *response.headers_mut() = kept.headers.clone();
            return Ok(response);
        }
        *kept = None;
        let response = make.await?;
        let bytes = response.body().size_hint().exact();
        // Streams and problems are answers to one request.
        if response.status() != StatusCode::OK || bytes.is_none_or(|bytes| bytes > BYTES_MAX) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let failed = |_| Problem::new(Code::Internal, "the answer could not be written");
        let body = to_bytes(body, BYTES_MAX as usize).await.map_err(failed)?;
        *kept = Some(Kept { began, events, headers: parts.headers.clone(), body: body.clone() });
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
            let age = accepted_age(&method, &headers).map(|age| age.as_secs());
            assert_eq!(age, expected, "{method} {text:?}");
        }
    }
}
