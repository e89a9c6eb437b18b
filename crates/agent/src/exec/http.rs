//! Calls endpoints. `docs/http-jobs.md` describes for users what is sent and what counts as
//! success.
//!
//! An endpoint is not trusted: it may be slow, endless, broken or hostile. The guard decides where
//! a request may go; here everything that comes back has a limit, and every failure has a code.

mod error;
mod redirect;
mod request;
mod response;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::action::HttpAction;
use domain::id::TenantId;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use jiff::SignedDuration;
use reqwest::header::{CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Certificate, Response, Version};
use serde_json::json;
use tokio::time::{Instant, timeout};
use url::Url;

use super::{Failure, RESULT_BYTES_MAX};
use crate::Attempt;
use crate::guard::{Client, Guard, Lookup, Rule, SystemLookup, origin};
use crate::output::Stream;
use redirect::{REDIRECTS_MAX, Trail};
use request::Request;

/// Options of HTTP jobs.
pub struct HttpOptions {
    /// Targets that are not public and may be called all the same, by jobs of all tenants.
    pub allow_private: Vec<Rule>,
    /// The same for the jobs of one tenant, besides those of all tenants.
    pub allow_private_for: BTreeMap<TenantId, Vec<Rule>>,
    /// Certificates of authorities to trust besides those of the machine, in PEM.
    pub root_certificates: Vec<String>,
    /// How long it may take to be connected: lookup, connection and handshake.
    pub connect_timeout: Duration,
    /// How long an answer that has begun may pause.
    pub idle_timeout: Duration,
    /// How much of an answer is read, unpacked.
    pub body_bytes_max: usize,
    /// Resolves host names.
    pub lookup: Arc<dyn Lookup>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            allow_private: Vec::new(),
            allow_private_for: BTreeMap::new(),
            root_certificates: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_bytes_max: 1 << 20,
            lookup: Arc::new(SystemLookup),
        }
    }
}

/// Carries out HTTP actions.
pub(crate) struct Http {
    all_tenants: Result<Client, String>,
    /// Tenants with rules of their own have a client of their own, so that no other tenant reuses
    /// one of its open connections.
    tenants: BTreeMap<TenantId, Result<Client, String>>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    body_bytes_max: usize,
}

/// The state of an exchange so far, for the record.
#[derive(Default)]
struct HttpExchange {
    /// The step in progress, for the message of a timeout or a cancellation.
    waits_for: String,
    status: Option<u16>,
    version: Option<Version>,
    remote: Option<SocketAddr>,
    redirects: usize,
    bytes_in: usize,
    bytes_out: usize,
    is_cut: bool,
    /// Whether the answer was larger than a result may be.
    is_result_cut: bool,
    notes: Vec<String>,
    result: Option<String>,
    retry_after: Option<SignedDuration>,
}

impl Http {
    /// With these options. A machine without certificates is found out here and reported by
    /// every attempt.
    pub fn new(options: HttpOptions) -> Self {
        let client = |rules: Vec<Rule>| {
            let guard = Guard::new(rules, options.lookup.clone());
            let mut roots = Vec::new();
            for pem in &options.root_certificates {
                let bundle = Certificate::from_pem_bundle(pem.as_bytes());
                roots.extend(bundle.map_err(|error| describe(&error))?);
            }
            let settings = reqwest::Client::builder()
                .connect_timeout(options.connect_timeout)
                .tls_certs_merge(roots);
            Client::new(guard, settings).map_err(|error| describe(&error))
        };
        let tenants = options.allow_private_for.iter().map(|(tenant, own)| {
            let rules = options.allow_private.iter().chain(own).cloned().collect();
            (*tenant, client(rules))
        });
        Http {
            tenants: tenants.collect(),
            all_tenants: client(options.allow_private.clone()),
            connect_timeout: options.connect_timeout,
            idle_timeout: options.idle_timeout,
            body_bytes_max: options.body_bytes_max,
        }
    }

    /// Whether policy permits a request, judged by its definition alone: names are not looked up,
    /// and a definition that is not valid is left to the attempt.
    pub fn permitted(&self, tenant: TenantId, action: &HttpAction) -> Result<(), Failure> {
        for name in action.headers.keys() {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                request::permitted_header(&name)?;
            }
        }
        match (self.client(tenant), Url::parse(&action.endpoint)) {
            (Ok(client), Ok(url)) => Ok(client.check_known(&url)?),
            _ => Ok(()),
        }
    }

    fn client(&self, tenant: TenantId) -> &Result<Client, String> {
        self.tenants.get(&tenant).unwrap_or(&self.all_tenants)
    }

    /// Executes an attempt. A stop request drops the HTTP request where it is: there is no orderly
    /// end, so the grace period is not used.
    pub async fn execute(&self, action: &HttpAction, attempt: Attempt<'_>) -> AttemptResult {
        let started = Instant::now();
        let mut stop = attempt.stop.clone();
        let mut exchange = HttpExchange::default();
        let ended = tokio::select! {
            biased;
            end = stop.requested() => Err(end),
            done = self.call(action, &attempt, &mut exchange) => Ok(done),
        };
        let details = self.details(&exchange, started.elapsed());
        let mut result = match ended {
            Ok(Ok(())) => AttemptResult::completed(),
            Ok(Err(failure)) => AttemptResult::failed(failure.code, failure.message),
            Err(end) => {
                let why = if end == AttemptEnd::Timeout { "took too long and was" } else { "was" };
                let waits_for = std::mem::take(&mut exchange.waits_for);
                let message = format!("the request {why} dropped{waits_for}");
                AttemptResult { end, message, ..AttemptResult::completed() }
            }
        };
        let said = std::mem::take(&mut result.message);
        let said = Some(said).filter(|said| !said.is_empty());
        result.message = said.into_iter().chain(exchange.notes).collect::<Vec<_>>().join("; ");
        result.result = exchange.result;
        result.is_result_cut = exchange.is_result_cut;
        result.retry_after = exchange.retry_after;
        result.details = Some(details);
        result
    }

    /// The whole exchange, redirects included.
    async fn call(
        &self,
        action: &HttpAction,
        attempt: &Attempt<'_>,
        exchange: &mut HttpExchange,
    ) -> Result<(), Failure> {
        let client = self.client(attempt.assignment.tenant).as_ref().map_err(|problem| {
            let message = format!("this agent cannot make secure connections: {problem}");
            Failure::other("HTTP_NOT_AVAILABLE", message)
        })?;
        let (mut request, note) = Request::prepare(action, attempt).await?;
        exchange.notes.extend(note);
        let mut trail = Trail::default();
        loop {
            let response = self.send(client, &request, exchange).await?;
            let is_expected = response::is_expected(action, response.status());
            let location = response.headers().get(LOCATION);
            let location =
                location.and_then(|location| std::str::from_utf8(location.as_bytes()).ok());
            if let Some(location) = location
                && !is_expected
                && redirect::is_redirect(response.status())
            {
                let note = trail.follow(&mut request, response.status(), location)?;
                exchange.notes.extend(note);
                exchange.redirects = trail.len();
                continue;
            }
            let status = response.status();
            exchange.retry_after = response::retry_after(status, response.headers());
            let url = request.url;
            let read = self.read(response, &url, attempt, exchange).await;
            if is_expected {
                exchange.retry_after = None;
                return read;
            }
            // The status is more specific than an error in the rest of the response.
            exchange.notes.extend(read.err().map(|failure| failure.message));
            let message = format!("{} answered {}", origin(&url), status.as_u16());
            return Err(Failure { code: ErrorCode::Http(status.as_u16()), message });
        }
    }

    /// Sends one request and waits for the head of its answer, for as long as the job may take.
    async fn send(
        &self,
        client: &Client,
        request: &Request,
        exchange: &mut HttpExchange,
    ) -> Result<Response, Failure> {
        exchange.waits_for = format!(" before {} answered", origin(&request.url));
        (exchange.status, exchange.version, exchange.remote) = (None, None, None);
        let mut builder = client.request(request.method.clone(), request.url.clone())?;
        builder = builder.headers(request.headers());
        if let Some(body) = &request.body {
            exchange.bytes_out += body.bytes.len();
            builder = builder.body(body.bytes.clone());
        }
        let response = builder
            .send()
            .await
            .map_err(|error| Failure::from_client(&error, &request.url, self.connect_timeout))?;
        exchange.status = Some(response.status().as_u16());
        exchange.version = Some(response.version());
        exchange.remote = response.remote_addr();
        Ok(response)
    }

    /// Reads the body up to the limit. Dropping the rest closes the connection.
    async fn read(
        &self,
        mut response: Response,
        url: &Url,
        attempt: &Attempt<'_>,
        exchange: &mut HttpExchange,
    ) -> Result<(), Failure> {
        exchange.waits_for = format!(" while {} was answering", origin(url));
        let mut body = Vec::new();
        loop {
            let chunk = timeout(self.idle_timeout, response.chunk());
            let chunk = chunk.await.map_err(|_| Failure::silent(url, self.idle_timeout))?;
            let chunk =
                chunk.map_err(|error| Failure::from_client(&error, url, self.connect_timeout))?;
            let Some(chunk) = chunk else { break };
            let free = self.body_bytes_max - body.len();
            let taken = &chunk[..chunk.len().min(free)];
            attempt.output.write(Stream::Stdout, taken);
            body.extend_from_slice(taken);
            exchange.bytes_in = body.len();
            if chunk.len() > free {
                exchange.is_cut = true;
                exchange.is_result_cut = true;
                let limit = self.body_bytes_max;
                exchange.notes.push(format!("the answer was cut after {limit} bytes"));
                return Ok(());
            }
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|content_type| content_type.to_str().ok());
        let (result, note) = response::result(&body, content_type);
        exchange.result = result;
        // A note is there if the answer was too large for a result.
        exchange.is_result_cut = note.is_some();
        exchange.notes.extend(note);
        Ok(())
    }

    /// The details of the attempt for the record.
    fn details(&self, exchange: &HttpExchange, took: Duration) -> String {
        json!({
            "status": exchange.status,
            "http_version": exchange.version.map(|version| format!("{version:?}")),
            "remote_address": exchange.remote.map(|remote| remote.to_string()),
            "redirects": exchange.redirects,
            "bytes_in": exchange.bytes_in,
            "bytes_out": exchange.bytes_out,
            "body_cut": exchange.is_cut,
            "duration_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "limits": {
                "body_bytes": self.body_bytes_max,
                "result_bytes": RESULT_BYTES_MAX,
                "redirects": REDIRECTS_MAX,
                "connect_timeout_ms": u64::try_from(self.connect_timeout.as_millis()).unwrap_or(u64::MAX),
                "idle_timeout_ms": u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX),
            },
        })
        .to_string()
    }
}

/// An error of the client's making, with its cause.
fn describe(error: &reqwest::Error) -> String {
    let texts: Vec<String> = crate::guard::causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}
