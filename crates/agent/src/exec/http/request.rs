//! From an action to the request that is sent.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use domain::action::{Assignment, HttpAction};
use domain::exact_number;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use crate::exec::Failure;
use crate::secrets::{SecretError, Secrets, resolve};
use crate::{Attempt, context};

/// How we name ourselves.
const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// Characters that the value of a context header keeps unescaped.
const FACT: &AsciiSet = &CONTROLS.add(b'%');

/// Characters that a secret in a URL keeps unescaped: it is a value, not syntax. Slashes pass,
/// because the path of a webhook's address is a common secret.
const IN_URL: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Headers that frame the message or address it. They follow from the rest.
const FRAMING: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A request, ready to be sent and to be sent elsewhere.
pub(super) struct Request {
    pub method: Method,
    pub url: Url,
    pub body: Option<RequestBody>,
    /// The headers that Punctual adds.
    ours: HeaderMap,
    /// Headers of the job, for the host that it names.
    theirs: HeaderMap,
}

/// A body and what describes it.
pub(super) struct RequestBody {
    pub bytes: Vec<u8>,
    pub content_type: Option<HeaderValue>,
    /// Whether a secret stands in it.
    pub is_secret: bool,
}

impl Request {
    /// The complete request of an attempt. The second value is a note for the user.
    pub async fn prepare(
        action: &HttpAction,
        attempt: &Attempt<'_>,
    ) -> Result<(Self, Option<String>), Failure> {
        let (assignment, secrets) = (attempt.assignment, attempt.secrets);
        let method = Method::from_bytes(action.method.as_bytes()).map_err(|_| {
            Failure::other("INVALID_METHOD", format!("method: {:?} is none", action.method))
        })?;
        let url = url(&action.endpoint, assignment, secrets).await?;
        let mut theirs = HeaderMap::new();
        for (name, value) in &action.headers {
            let (name, value) = header(name, value, assignment, secrets).await?;
            if !name.as_str().starts_with("punctual-") {
                theirs.insert(name, value);
            }
        }
        let mut note = None;
        let content_type = theirs.get(header::CONTENT_TYPE).cloned();
        let json = || Some(HeaderValue::from_static("application/json"));
        let body = match &action.body {
            Some(Value::String(text)) => {
                let resolved = resolve(text, assignment, secrets);
                let resolved = resolved.await.map_err(|error| Failure::secret("body", &error))?;
                let is_secret = resolved != *text;
                Some(RequestBody {
                    bytes: resolved.into_owned().into_bytes(),
                    content_type,
                    is_secret,
                })
            }
            Some(value) => {
                let resolved = resolve_within(value, assignment, secrets);
                let resolved = resolved.await.map_err(|error| Failure::secret("body", &error))?;
                let is_secret = resolved != *value;
                let bytes = exact_number::to_text(&resolved).into_bytes();
                Some(RequestBody { bytes, content_type: content_type.or_else(json), is_secret })
            }
            None if assignment.parameters.is_empty() => None,
            None if matches!(method, Method::GET | Method::HEAD) => {
                note = Some(format!("the run's parameters are not sent with {method}"));
                None
            }
            None => {
                let parameters = assignment.parameters.clone().into_iter().collect();
                let bytes = exact_number::to_text(&Value::Object(parameters)).into_bytes();
                Some(RequestBody {
                    bytes,
                    content_type: content_type.or_else(json),
                    is_secret: false,
                })
            }
        };
        if body.is_some() {
            theirs.remove(header::CONTENT_TYPE);
        }
        Ok((Request { method, url, body, ours: ours(assignment), theirs }, note))
    }

    /// All headers.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = self.ours.clone();
        for (name, value) in &self.theirs {
            headers.insert(name, value.clone());
        }
        let content_type = self.body.as_ref().and_then(|body| body.content_type.clone());
        if let Some(content_type) = content_type {
            headers.insert(header::CONTENT_TYPE, content_type);
        }
        headers
    }

    /// Takes away what only the host that the job names may see.
    pub fn forget_job(&mut self) {
        self.theirs.clear();
    }
}

/// The headers that every request has.
fn ours(assignment: &Assignment) -> HeaderMap {
    let value = |text: &str| {
        let safe = utf8_percent_encode(text, FACT).to_string();
        HeaderValue::try_from(safe).unwrap_or_else(|_| HeaderValue::from_static(""))
    };
    let mut headers = HeaderMap::new();
    for fact in context::FACTS {
        if let Ok(name) = HeaderName::try_from(fact.header) {
            headers.insert(name, value(&(fact.value)(assignment)));
        }
    }
    headers.insert("idempotency-key", value(&assignment.run.to_string()));
    headers.insert("traceparent", value(&context::traceparent(assignment)));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers
}

/// The URL with its secrets, which may be anywhere but in the host and port: a name that is looked
/// up and an address that is refused are visible to others.
async fn url(
    endpoint: &str,
    assignment: &Assignment,
    secrets: &dyn Secrets,
) -> Result<Url, Failure> {
    let invalid = |problem: String| Failure::other("INVALID_URL", format!("endpoint: {problem}"));
    let written = Url::parse(endpoint)
        .map_err(|error| invalid(format!("it is no URL ({error}); write https://host/path")))?;
    let resolved = resolve(endpoint, assignment, &Encoded(secrets)).await;
    let Cow::Owned(resolved) = resolved.map_err(|error| Failure::secret("endpoint", &error))?
    else {
        return Ok(written);
    };
    let full = Url::parse(&resolved).map_err(|_| {
        invalid("with its secrets it is no URL; keep them to path and query".into())
    })?;
    let place = |url: &Url| {
        let user = (url.username().to_owned(), url.password().map(str::to_owned));
        (url.origin(), user)
    };
    if place(&written) != place(&full) {
        return Err(invalid(
            "a secret must not decide where the request goes; keep it to path and query".into(),
        ));
    }
    Ok(full)
}

/// Secrets in the form in which they can stand in a URL.
struct Encoded<'s>(&'s dyn Secrets);

impl Secrets for Encoded<'_> {
    fn get<'a>(
        &'a self,
        assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>> {
        Box::pin(async move {
            let value = self.0.get(assignment, name).await?;
            Ok(value.map(|value| utf8_percent_encode(&value, IN_URL).to_string()))
        })
    }
}

/// Whether a job may set a header.
pub(super) fn permitted_header(name: &HeaderName) -> Result<(), Failure> {
    if FRAMING.contains(name) || name == "keep-alive" || name == "proxy-connection" {
        let problem = "cannot be set; it follows from the endpoint and the body";
        return Err(Failure::refused("HEADER_NOT_ALLOWED", format!("headers: {name} {problem}")));
    }
    Ok(())
}

/// One header of the job.
async fn header(
    name: &str,
    value: &str,
    assignment: &Assignment,
    secrets: &dyn Secrets,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let invalid =
        |problem: &str| Failure::other("INVALID_HEADER", format!("headers: {name} {problem}"));
    let parsed =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("is not a header name"))?;
    permitted_header(&parsed)?;
    let resolved = resolve(value, assignment, secrets).await;
    let resolved =
        resolved.map_err(|error| Failure::secret(&format!("headers: {name}"), &error))?;
    let mut value = HeaderValue::from_bytes(resolved.as_bytes())
        .map_err(|_| invalid("has a value with control characters"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// A JSON value with the secrets that its strings name. Names of fields stay as they are.
fn resolve_within<'a>(
    value: &'a Value,
    assignment: &'a Assignment,
    secrets: &'a dyn Secrets,
) -> Pin<Box<dyn Future<Output = Result<Value, SecretError>> + Send + 'a>> {
    Box::pin(async move {
        Ok(match value {
            Value::String(text) => {
                Value::String(resolve(text, assignment, secrets).await?.into_owned())
            }
            Value::Array(items) => {
                let mut resolved = Vec::with_capacity(items.len());
                for item in items {
                    resolved.push(resolve_within(item, assignment, secrets).await?);
                }
                Value::Array(resolved)
            }
            Value::Object(fields) => {
                let mut resolved = serde_json::Map::with_capacity(fields.len());
                for (name, field) in fields {
                    let field = resolve_within(field, assignment, secrets).await?;
                    resolved.insert(name.clone(), field);
                }
                Value::Object(resolved)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    })
}
