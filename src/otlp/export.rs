//! The task that posts spans.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use serde_json::Value as Json;
use server::Metrics;
use tokio::sync::{mpsc, oneshot};

use super::json;
use super::span::Span;

/// Spans of one request at most.
const BATCH_MAX: usize = 512;

/// How long a span waits for others.
const GATHER: Duration = Duration::from_millis(500);

/// How long a collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a batch is posted.
const TRIES: u32 = 3;

/// An answer is read up to this length.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub struct Exporter {
    client: reqwest::Client,
    url: Url,
    node: String,
    metrics: Arc<Metrics>,
    /// Whether the last batch arrived: a change is logged once.
    is_well: bool,
}

/// The result of a request.
enum Posted {
    /// It arrived; the collector kept all but so many.
    Taken { rejected: u64 },
    /// Another try may help.
    Busy(String),
    /// It would not.
    Refused(String),
}

impl Exporter {
    pub fn new(
        url: Url,
        mut headers: HeaderMap,
        node: &str,
        metrics: Arc<Metrics>,
    ) -> Result<Self, reqwest::Error> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .build()?;
        Ok(Exporter { client, url, node: node.to_owned(), metrics, is_well: true })
    }

    /// Posts spans until it is stopped, and then those that are left.
    pub async fn run(
        mut self,
        mut waiting: mpsc::Receiver<Span>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            tokio::select! {
                taken = waiting.recv_many(&mut batch, BATCH_MAX) => if taken == 0 { return },
                _ = &mut stopped => break,
            }
            // More spans may follow, but a stop does not wait for them.
            let gathered = tokio::time::sleep(GATHER);
            tokio::pin!(gathered);
            let mut stopping = false;
            while batch.len() < BATCH_MAX && !stopping {
                let free = BATCH_MAX - batch.len();
                tokio::select! {
                    taken = waiting.recv_many(&mut batch, free) => if taken == 0 { break },
                    () = &mut gathered => break,
                    _ = &mut stopped => stopping = true,
                }
            }
            self.send(&mut batch).await;
            if stopping {
                break;
            }
        }
        waiting.close();
        while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<Span>) {
        let count = batch.len() as u64;
        let body = json::request(&self.node, batch).to_string();
        batch.clear();
        let mut tries = 0;
        let problem = loop {
            tries += 1;
            match self.post(body.clone()).await {
                Posted::Taken { rejected } => {
                    let rejected = rejected.min(count);
                    self.metrics.spans_exported(count - rejected);
                    self.metrics.spans_dropped(rejected);
                    if !self.is_well {
                        tracing::info!("OTLP collector accepts traces again");
                        self.is_well = true;
                    }
                    return;
                }
                Posted::Busy(_) if tries < TRIES => {
                    tokio::time::sleep(Duration::from_millis(500 << tries)).await;
                }
                Posted::Busy(problem) | Posted::Refused(problem) => break problem,
            }
        };
        self.metrics.spans_dropped(count);
        if self.is_well {
            tracing::warn!(problem, "OTLP collector rejected traces, spans dropped");
            self.is_well = false;
        }
    }

    async fn post(&self, body: String) -> Posted {
        let response = match self.client.post(self.url.clone()).body(body).send().await {
            Ok(response) => response,
            Err(error) => return Posted::Busy(error.without_url().to_string()),
        };
        match response.status() {
            status if status.is_success() => Posted::Taken { rejected: rejected(response).await },
            status @ (StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT) => Posted::Busy(format!("it answered {status}")),
            status => Posted::Refused(format!("it answered {status}")),
        }
    }
}

/// How many spans the collector reports as rejected.
async fn rejected(mut response: reqwest::Response) -> u64 {
    let mut body = Vec::new();
    while let Ok(Some(part)) = response.chunk().await {
        body.extend_from_slice(&part);
        if body.len() > ANSWER_BYTES_MAX {
            return 0;
        }
    }
    let answer: Json = serde_json::from_slice(&body).unwrap_or_default();
    match &answer["partialSuccess"]["rejectedSpans"] {
        Json::String(text) => text.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    }
}
