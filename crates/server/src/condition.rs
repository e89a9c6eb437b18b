//! `ETag`, `If-Match` and `If-None-Match`: the version of a resource as a condition.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// Precondition of a change of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// None: the change is unconditional.
    None,
    /// The job has this version, which the request names in `If-Match`.
    Header(u32),
    /// The job has this version, which the request names in its body.
    Body(u32),
}

impl Condition {
    /// The condition of a request that changes a job.
    pub fn of(headers: &HeaderMap, body: Option<u32>, app: &App) -> Result<Self> {
        match (headers.contains_key(header::IF_MATCH), body) {
            (true, _) => Ok(if_match(headers)?.map_or(Condition::None, Condition::Header)),
            (false, Some(version)) => Ok(Condition::Body(version)),
            (false, None) if app.options.strict_concurrency => {
                let text = "send If-Match with the ETag of the job, or version in the body";
                Err(Problem::new(Code::PreconditionRequired, text))
            }
            (false, None) => Ok(Condition::None),
        }
    }

    /// The expected version; none if the change is unconditional.
    pub fn version(self) -> Option<u32> {
        match self {
            Condition::Header(version) | Condition::Body(version) => Some(version),
            Condition::None => None,
        }
    }

    /// Refuses another version of a job.
    pub fn check(self, version: u32) -> Result<()> {
        self.check_of("job", version)
    }

    /// Refuses another version.
    pub fn check_of(self, what: &str, version: u32) -> Result<()> {
        let (code, expected) = match self {
            Condition::Header(expected) => (Code::PreconditionFailed, expected),
            Condition::Body(expected) => (Code::VersionConflict, expected),
            Condition::None => return Ok(()),
        };
        if expected == version {
            return Ok(());
        }
        let text = format!("the {what} has version {version}; the change is based on {expected}");
        Err(Problem { message: text.clone(), ..Problem::field(code, "version", text) })
    }
}

/// The version in `If-Match`; none if the header is absent or `*`.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<u32>> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    match value.to_str() {
        Ok("*") => Ok(None),
        Ok(tag) if version_of(tag).is_some() => Ok(version_of(tag)),
        _ => {
            let text = "must be an ETag that was answered, for example \"3\"";
            Err(Problem::field(Code::InvalidRequest, "If-Match", text))
        }
    }
}

/// The version of a tag.
pub(crate) fn version_of(tag: &str) -> Option<u32> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// The tag of a version.
pub(crate) fn etag(version: u32) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_str(&format!("\"{version}\""));
    (header::ETAG, value.unwrap_or(HeaderValue::from_static("\"\"")))
}

/// Whether the caller has this version already.
pub(crate) fn is_known(headers: &HeaderMap, version: u32) -> bool {
    let tags = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    tags.is_some_and(|tags| {
        tags.split(',').map(str::trim).any(|tag| version_of(tag) == Some(version))
    })
}

/// The answer to a caller who has this version already.
pub(crate) fn not_modified(version: u32) -> Response {
    (StatusCode::NOT_MODIFIED, [etag(version)]).into_response()
}
