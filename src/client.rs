//! A client of a server's REST API: one call at a time, answers as JSON values.
//!
//! Answers are kept as the server gave them, so that `-o json` shows fields that this program
//! does not know yet.

pub mod contexts;
mod problem;
mod target;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, IF_MATCH,
};
use reqwest::{Method, Response, Url};
use serde_json::Value;
use server::SERVER_MARK;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::cli_error::{CliError, visible};
use crate::clock;
use crate::exit::{Exit, Failure};

pub use target::{ServerTarget, data_folder};

/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The most items that a server gives on one page.
const PAGE_MAX: usize = 500;

/// Which server, and with which key.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Address of the server [env: PUNCTUAL_SERVER] [default: that of the data folder]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,

    /// Key to present [env: PUNCTUAL_TOKEN, PUNCTUAL_TOKEN_FILE] [default: that of the data folder
    /// or of the context, at its own address only]
    #[arg(long, value_name = "KEY")]
    pub token: Option<String>,

    /// Tenant to act in, for administrators of the cluster [env: PUNCTUAL_TENANT]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,

    /// Data folder of a server on this machine [env: PUNCTUAL_DATA] [default: ./punctual-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<std::path::PathBuf>,

    /// Print each request on stderr, with the id by which the server's log knows it
    #[arg(short, long)]
    pub verbose: bool,

    /// Name of a server in ~/.config/punctual/config.toml [env: PUNCTUAL_CONTEXT]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// A server, and the right to ask it.
pub struct Client {
    http: reqwest::Client,
    place: ServerTarget,
    tenant: Option<String>,
    runtime: Runtime,
    is_verbose: bool,
}

impl Client {
    /// The client of the server that arguments, environment and files name.
    pub fn new(args: &ServerArgs) -> Result<Self, Failure> {
        let place = ServerTarget::find(args)?;
        let of_context = || place.tenant().map(str::to_owned);
        let tenant = args.tenant.clone().or_else(target::tenant).or_else(of_context);
        Ok(Client { is_verbose: args.verbose, tenant, ..Client::at(place)? })
    }

    /// The client of a server.
    pub fn at(place: ServerTarget) -> Result<Self, Failure> {
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        if place.is_loopback() {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| Failure::failed(error.to_string()))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Client { http, place, tenant: None, runtime, is_verbose: false })
    }

    /// The server that it sends requests to.
    pub fn place(&self) -> &ServerTarget {
        &self.place
    }

    /// A call without a body. A part of the path is one segment, whatever characters it has.
    pub fn call<'a>(&'a self, method: Method, path: &[&str]) -> Call<'a> {
        let mut url = self.place.url().clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let needs_key = path.first() == Some(&"v1");
        Call { client: self, method, url, headers: HeaderMap::new(), body: None, needs_key }
    }

    /// Reads something.
    pub fn get(&self, path: &[&str]) -> Result<Value, Failure> {
        self.call(Method::GET, path).send()
    }

    /// Asks for something to be done.
    pub fn post(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::POST, path)
    }

    /// The same without a key: for what makes one.
    pub fn post_openly(&self, path: &[&str]) -> Call<'_> {
        Call { needs_key: false, ..self.call(Method::POST, path) }
    }

    /// The items of a list up to a limit, page after page, and whether there are more.
    pub fn list(
        &self,
        path: &[&str],
        filters: &[(&str, String)],
        limit: Option<usize>,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let limit = limit.unwrap_or(usize::MAX);
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = (limit - items.len()).min(PAGE_MAX);
            let mut call = self.call(Method::GET, path).query("limit", &page.to_string());
            for (name, value) in filters {
                call = call.query(name, value);
            }
            if let Some(cursor) = &cursor {
                call = call.query("cursor", cursor);
            }
            let mut answer = call.send()?;
            match answer["data"].take() {
                Value::Array(more) => items.extend(more),
                _ => return Err(odd("a page has no list named \"data\"")),
            }
            let next = answer["next_cursor"].as_str().map(str::to_owned);
            let is_more = next.is_some();
            if !is_more || items.len() >= limit || next == cursor {
                items.truncate(limit);
                return Ok((items, is_more));
            }
            cursor = next;
        }
    }

    /// Lets time pass before something is asked again.
    pub fn sleep(&self, pause: SignedDuration) {
        self.block_on(async { sleep(pause.unsigned_abs()).await });
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// A request that has not been sent.
pub struct Call<'a> {
    client: &'a Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    /// Whether the path is open only to clients with a key.
    needs_key: bool,
}

impl<'a> Call<'a> {
    /// The call with a parameter.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    /// The call with a body.
    pub fn json(self, body: &Value) -> Self {
        self.text(body.to_string())
    }

    /// The call with a body that is JSON already.
    pub fn text(mut self, body: String) -> Self {
        self.body = Some(body.into_bytes());
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    /// The call with a body of bytes.
    pub fn bytes(mut self, body: Vec<u8>, kind: &'static str) -> Self {
        self.body = Some(body);
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        self
    }

    /// The call on the condition that the resource has this version.
    pub fn if_version(mut self, version: Option<u64>) -> Self {
        if let Some(value) = version.and_then(|v| HeaderValue::from_str(&format!("\"{v}\"")).ok()) {
            self.headers.insert(IF_MATCH, value);
        }
        self
    }

    /// The call with the form of the answer that it wants.
    pub fn accept(mut self, kind: &'static str) -> Self {
        self.headers.insert(ACCEPT, HeaderValue::from_static(kind));
        self
    }

    /// Sends it and reads the answer, which is null when there is none.
    pub fn send(self) -> Result<Value, Failure> {
        self.send_within(Some(ANSWER_MAX))
    }

    /// The same for work that takes as long as it takes.
    pub fn send_whenever(self) -> Result<Value, Failure> {
        self.send_within(None)
    }

    fn send_within(self, patience: Option<Duration>) -> Result<Value, Failure> {
        let client = self.client;
        client.block_on(async {
            let response = self.start(patience).await?;
            let body = response.bytes().await.map_err(|error| client.unreachable(&error))?;
            if body.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(&body).map_err(|_| odd("the answer is not JSON"))
        })
    }

    /// Sends it and reads what the server's clock said when it answered.
    pub fn server_time(self) -> Result<Option<Timestamp>, Failure> {
        let client = self.client;
        client.block_on(async {
            let response = self.start(Some(ANSWER_MAX)).await?;
            let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| rfc2822::parse(date).ok());
            Ok(date.map(|date| date.timestamp()))
        })
    }

    /// Sends it and reads the answer whatever its status is.
    pub fn send_any(self) -> Result<(u16, Value), Failure> {
        let client = self.client;
        client.block_on(async {
            let response = self.answer(Some(ANSWER_MAX)).await?;
            let status = response.status().as_u16();
            let body = response.bytes().await.map_err(|error| client.unreachable(&error))?;
            Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
        })
    }

    /// Sends it and passes on the body as it arrives, until it ends, or `take` has enough, or the
    /// timeout has passed.
    pub fn stream(
        self,
        patience: Option<SignedDuration>,
        mut take: impl FnMut(&[u8]) -> Result<Flow, Failure>,
    ) -> Result<(), Failure> {
        let client = self.client;
        let work = async {
            let mut response = self.start(None).await?;
            while let Some(part) =
                response.chunk().await.map_err(|error| client.unreachable(&error))?
            {
                if take(&part)? == Flow::Enough {
                    break;
                }
            }
            Ok(())
        };
        client.block_on(async {
            match patience {
                Some(patience) => timeout(patience.unsigned_abs(), work).await.unwrap_or(Ok(())),
                None => work.await,
            }
        })
    }

    /// The head of a successful response, or the error of the server.
    async fn start(self, patience: Option<Duration>) -> Result<Response, Failure> {
        let client = self.client;
        let response = self.answer(patience).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap_or_default();
        Err(problem::failure(status, &body, &client.place))
    }

    /// The head of the answer. Only an answer of a Punctual server counts as one.
    async fn answer(self, patience: Option<Duration>) -> Result<Response, Failure> {
        let client = self.client;
        let response = self.request(patience).await?;
        match response.headers().contains_key(SERVER_MARK) {
            true => Ok(response),
            false => Err(client.place.not_punctual(response.status().as_u16())),
        }
    }

    /// The head of a response of any server at the address.
    async fn request(self, patience: Option<Duration>) -> Result<Response, Failure> {
        let Call { client, method, url, headers, body, needs_key } = self;
        // A body may hold secrets, and without a key the server refuses it anyway.
        if client.place.token().is_none() && needs_key {
            return Err(client.place.no_key());
        }
        let asked = format!("{method} {url}");
        let asked_at = clock::now();
        let mut request = client.http.request(method, url).headers(headers);
        if let Some(token) = client.place.token() {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
                let error =
                    CliError::new("invalid API key: it has characters that keys never have");
                Failure::Ended(Exit::Auth, error.hint(client.place.about_key()))
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(tenant) = &client.tenant {
            request = request.header("punctual-tenant", tenant.as_str());
        }
        if let Some(patience) = patience {
            request = request.timeout(patience);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = request.send().await.map_err(|error| client.unreachable(&error));
        if client.is_verbose {
            let millis = clock::now().duration_since(asked_at).as_millis();
            let word = answer.as_ref().map_or_else(|_| "no answer".to_owned(), told);
            // When stderr is gone, there is no other place to report it.
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                visible(&format!("{asked}: {word}, {millis} ms"))
            );
        }
        answer
    }
}

/// The status of an answer, and the request's id.
fn told(answer: &Response) -> String {
    let id = answer.headers().get("x-request-id").and_then(|id| id.to_str().ok());
    format!("{}, request {}", answer.status().as_u16(), id.unwrap_or("without an id"))
}

/// Whether a reader of a stream wants more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    More,
    /// It has enough.
    Enough,
}

impl Client {
    /// The failure of one item of a request for many.
    pub fn failure_of(&self, item: &Value) -> Failure {
        let status = item["status"].as_u64().and_then(|status| status.try_into().ok());
        problem::failure(status.unwrap_or(0), item.to_string().as_bytes(), &self.place)
    }

    /// The failure of a request without a complete response.
    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let message = format!("cannot reach the server at {}: {cause}", self.place.url());
        let hint = if self.place.is_loopback() {
            "start one with `punctual serve`, or name another with --server or PUNCTUAL_SERVER"
        } else {
            "is the address right (--server, PUNCTUAL_SERVER, --context) and the server running?"
        };
        Failure::Ended(Exit::Unreachable, CliError::new(message).hint(hint))
    }
}

/// An answer that no server of ours gives.
fn odd(what: &str) -> Failure {
    let error = CliError::new(format!("the server's answer was not understood: {what}"));
    Failure::Ended(Exit::Failed, error.hint("is there a Punctual server at this address?"))
}
