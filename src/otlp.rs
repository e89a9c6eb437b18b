//! A trace for each run, sent to a collector by OTLP over HTTP in its JSON form.
//!
//! [`Spans`] turns the steps that the engine traces into spans and puts them into a queue of
//! limited length: a full queue drops and counts. A task takes them out in batches and posts them.
//!
//! ```text
//!   engine ──(Tracer)──▶ Spans ──try_send──▶ queue ──▶ Exporter ──▶ collector
//!                          └─ full: dropped, counted       └─ refused: dropped, counted
//! ```

mod export;
mod json;
mod span;

use std::sync::Arc;
use std::time::Duration;

use engine::{Planned, Settled, Tracer};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use server::Metrics;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::cli_error::CliError;
use crate::config::Config;
use export::Exporter;
use span::Span;

/// Spans that wait for the collector at most.
const QUEUE_MAX: usize = 8_192;

/// How long a collector may take when the server stops.
const GOODBYE: Duration = Duration::from_secs(3);

/// Where traces are sent.
pub struct Collector {
    url: Url,
    headers: HeaderMap,
}

impl Collector {
    /// The collector of the settings, if they have one.
    pub fn of(config: &Config) -> Result<Option<Self>, CliError> {
        let (endpoint, headers) = ("otlp.endpoint", "otlp.headers");
        if config.text(endpoint).is_empty() {
            return match config.text(headers) {
                "" => Ok(None),
                _ => Err(config.wrong(endpoint, &format!("set when {headers} is"))),
            };
        }
        let right = "an address such as http://127.0.0.1:4318";
        let mut url: Url = config.parse(endpoint, right)?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
            return Err(config.wrong(endpoint, right));
        }
        url.path_segments_mut()
            .map_err(|()| config.wrong(endpoint, right))?
            .pop_if_empty()
            .extend(["v1", "traces"]);
        let fields = config.list(headers).map(|field| {
            let (name, value) = field.split_once('=')?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
        });
        let fields: Option<HeaderMap> = fields.collect();
        let fields = fields.ok_or_else(|| config.wrong(headers, "name=value, name=value"))?;
        Ok(Some(Collector { url, headers: fields }))
    }

    /// Begins to send.
    pub fn start(self, node: &str, metrics: Arc<Metrics>) -> Result<Tracing, reqwest::Error> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (stop, stopped) = oneshot::channel();
        let exporter = Exporter::new(self.url, self.headers, node, Arc::clone(&metrics))?;
        let task = tokio::spawn(exporter.run(waiting, stopped));
        Ok(Tracing { spans: Arc::new(Spans { queue, metrics }), stop, task })
    }
}

/// Traces that are being sent.
pub struct Tracing {
    /// The sink that the engine writes spans to.
    pub spans: Arc<Spans>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Tracing {
    /// Sends what waits, if the collector takes it soon.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        if tokio::time::timeout(GOODBYE, self.task).await.is_err() {
            tracing::warn!("OTLP collector timed out, last spans dropped");
        }
    }
}

/// Makes spans of the steps that the engine traces.
pub struct Spans {
    queue: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

impl Spans {
    fn put(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }
}

impl Tracer for Spans {
    fn planned(&self, planned: Planned<'_>) {
        self.put(span::plan(&planned));
    }

    fn settled(&self, settled: Settled<'_>) {
        span::settle(&settled).into_iter().for_each(|span| self.put(span));
    }
}

#[cfg(test)]
mod tests;
