//! Pages of lists: `?limit=&cursor=` in, `{"data": […], "next_cursor": …}` and `Link` out.

use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::{Code, Problem, Result};

/// The default number of items of a page.
const LIMIT_DEFAULT: u32 = 50;

/// The most items of a page.
pub(crate) const LIMIT_MAX: u32 = 500;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub struct List<T> {
    /// The items.
    pub data: Vec<T>,
    /// Send it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// How many items a page shall have.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32> {
    match asked {
        None => Ok(LIMIT_DEFAULT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(limit),
        Some(limit) => {
            let text = format!("must be 1 to {LIMIT_MAX}, not {limit}");
            Err(Problem::field(Code::InvalidRequest, "limit", text))
        }
    }
}

/// Where a page begins: the cursor of the page before.
pub(crate) fn cursor(asked: Option<&str>) -> Result<Option<String>> {
    let Some(text) = asked else { return Ok(None) };
    URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| !text.is_empty())
        .map(Some)
        .ok_or_else(bad_cursor)
}

/// The value of a keyword.
pub(crate) fn word<T: Clone>(
    field: &str,
    asked: &Option<String>,
    known: &[(&str, T)],
) -> Result<Option<T>> {
    asked.as_ref().map(|word| meaning(field, word, known)).transpose()
}

/// The values of a list of keywords with commas between them.
pub(crate) fn words<T: Clone>(
    field: &str,
    asked: &Option<String>,
    known: &[(&str, T)],
) -> Result<Vec<T>> {
    let Some(list) = asked else { return Ok(Vec::new()) };
    list.split(',').map(|word| meaning(field, word.trim(), known)).collect()
}

fn meaning<T: Clone>(field: &str, word: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let text = format!("{word:?} is not one of {}", names.join(", "));
        Problem::field(Code::InvalidRequest, field, text)
    })
}

/// A cursor that this server did not issue.
pub(crate) fn bad_cursor() -> Problem {
    let text = "is not one that a page answered as next_cursor";
    Problem::field(Code::InvalidRequest, "cursor", text)
}

impl<T: Serialize> List<T> {
    /// A page; `next` is where the next one begins.
    pub(crate) fn new(data: Vec<T>, next: Option<impl ToString>) -> Self {
        let next_cursor = next.map(|next| URL_SAFE_NO_PAD.encode(next.to_string()));
        List { data, next_cursor }
    }

    /// The answer to a request for it.
    pub(crate) fn answer(self, uri: &Uri) -> Response {
        let link = link(uri, self.next_cursor.as_deref());
        // Written into one piece of memory, which is faster than by way of `Json`.
        let response = match serde_json::to_vec(&self) {
            Ok(text) => {
                let kind = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, kind)], text).into_response()
            }
            Err(error) => Problem::new(Code::Internal, error.to_string()).into_response(),
        };
        linked(response, link)
    }
}

/// The `Link` of a page that has a next one.
pub(crate) fn link(uri: &Uri, next_cursor: Option<&str>) -> Option<HeaderValue> {
    let cursor = next_cursor?;
    let kept = uri.query().unwrap_or_default().split('&');
    let kept = kept.filter(|part| !part.is_empty() && !part.starts_with("cursor="));
    let query: Vec<&str> = kept.collect();
    let sep = if query.is_empty() { "" } else { "&" };
    let link = format!("<{}?{}{sep}cursor={cursor}>; rel=\"next\"", uri.path(), query.join("&"));
    HeaderValue::from_str(&link).ok()
}

/// An answer with its `Link`.
pub(crate) fn linked(mut response: Response, link: Option<HeaderValue>) -> Response {
    if let Some(value) = link {
        response.headers_mut().insert(header::LINK, value);
    }
    response
}
