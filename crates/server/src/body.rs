//! Bodies and parameters of requests: read strictly, refused with the path of what is wrong.

use axum::body::{Body as RawBody, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{Method, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// The kinds of body that every PATCH takes; the first is that of RFC 7396.
pub(crate) const PATCH_KINDS: [&str; 2] = ["application/merge-patch+json", "application/json"];

/// A JSON body. Unknown fields are refused by the types themselves.
pub struct Body<T>(pub T);

/// A JSON body that may be missing.
pub struct OptionalBody<T>(pub T);

/// Parameters of the address.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let is_patch = request.method() == Method::PATCH;
        require_json(&request, if is_patch { &PATCH_KINDS } else { &["application/json"] })?;
        let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
        parse(&bytes).map(Body)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let typed = require_json(&request, &["application/json"]);
        let bytes = read(request.into_body(), app.options.body_bytes_max).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(OptionalBody(T::default()));
        }
        typed?;
        // A list would be read as the values of the fields in their order.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            return Err(Problem::new(Code::InvalidRequest, "the body must be a JSON object"));
        }
        parse(&bytes).map(OptionalBody)
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(error) => {
                let text = error.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ");
                let text = text.map_or_else(|| error.body_text(), str::to_owned);
                Err(match text.split_once(": ") {
                    Some((name, text)) if !name.contains(' ') => {
                        let text = with_suggestion(text.to_owned());
                        Problem::field(Code::InvalidRequest, name, text)
                    }
                    _ => Problem::new(Code::InvalidRequest, with_suggestion(text)),
                })
            }
        }
    }
}

/// Refuses a body that does not say it is one of these.
pub(crate) fn require_json(request: &Request, kinds: &[&str]) -> Result<()> {
    let value = request.headers().get(header::CONTENT_TYPE);
    let kind = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kinds.contains(&kind.as_str()) {
        return Ok(());
    }
    let text = format!("Content-Type is {kind:?}; send {}", kinds.join(" or "));
    Err(Problem::new(Code::UnsupportedMediaType, text))
}

/// The whole body, if it is not too large.
pub(crate) async fn read(body: RawBody, bytes_max: usize) -> Result<Bytes> {
    to_bytes(body, bytes_max).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            if error.to_string().contains("length limit exceeded") {
                let text = format!("the body is longer than {bytes_max} bytes");
                return Problem::new(Code::BodyTooLarge, text);
            }
            let error_of_io = error.downcast_ref::<std::io::Error>();
            if error_of_io.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
                return Problem::new(Code::RequestTimeout, "the body did not come in time");
            }
            cause = error.source();
        }
        Problem::new(Code::InvalidRequest, "the body ended too early")
    })
}

/// Reads JSON into a type.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| wrong("", &error.path().to_string(), error.inner()))?;
    json.end().map_err(|error| wrong("", "", &error))?;
    Ok(value)
}

/// Reads a part of a body, which stands at `place`.
pub(crate) fn parse_at<T: DeserializeOwned>(place: &str, text: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| wrong(place, &error.path().to_string(), error.inner()))
}

/// Reads a value that was JSON before, which stands at `place` of the body.
pub(crate) fn parse_value<T: DeserializeOwned>(place: &str, value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| wrong(place, &error.path().to_string(), error.inner()))
}

fn wrong(place: &str, path: &str, error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return Problem::new(Code::MalformedJson, format!("the body is not JSON: {error}"));
    }
    // `serde_path_to_error` writes `.` for the root and `?` for an unknown path.
    let path = if path == "." || path == "?" { "" } else { path };
    let path = path.trim_end_matches(".?");
    let field = match (place, path) {
        ("", path) => path.to_owned(),
        (place, "") => place.to_owned(),
        (place, path) if path.starts_with('[') => format!("{place}{path}"),
        (place, path) => format!("{place}.{path}"),
    };
    let text = error.to_string();
    let text = in_words_of_json(text.split(" at line ").next().unwrap_or_default());
    // A missing field has no path of its own; its path is that of its parent.
    if let Some(name) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next())
    {
        let field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
        return Problem::invalid(field, "is missing");
    }
    match field.is_empty() {
        true => Problem::new(Code::ValidationFailed, with_suggestion(text)),
        false => Problem::invalid(field, with_suggestion(text)),
    }
}

/// A message about a value of the wrong kind, without the names of types of this program.
fn in_words_of_json(text: &str) -> String {
    let Some((before, expected)) = text.split_once(", expected ") else { return text.to_owned() };
    let expected = match expected.split(' ').next() {
        Some("struct" | "map") => "an object",
        Some("tuple" | "sequence") => "a list",
        Some("enum") => "a known word",
        _ => match expected {
            "a map" => "an object",
            "a sequence" => "a list",
            other => other,
        },
    };
    let before = before
        .replace("invalid type: map", "invalid type: object")
        .replace("invalid type: sequence", "invalid type: list");
    format!("{before}, expected {expected}")
}

/// A message about an unknown word: the known one that looks like it, or all of them.
fn with_suggestion(text: String) -> String {
    let mut words = text.split('`').skip(1).step_by(2);
    let Some(unknown) = words.next().filter(|_| text.starts_with("unknown ")) else { return text };
    let what = if text.starts_with("unknown variant") { "value" } else { "field" };
    let known: Vec<&str> = words.collect();
    let nearest = known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(unknown, word), *word))
        .min()
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4);
    match nearest {
        Some((_, word)) => format!("there is no {what} `{unknown}`; did you mean `{word}`?"),
        None => format!("there is no {what} `{unknown}`; there are {}", known.join(", ")),
    }
}
