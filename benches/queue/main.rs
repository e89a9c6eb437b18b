//! How fast queues are: the real server as a process, asked over HTTP by producers and workers.
//!
//! `cargo xtask bench queue --store postgres` prints one JSON line a measurement on stdout: messages sent
//! and processed a second with 1 and 4 clients in batches of 1 and 100, the time from a send to its
//! worker, how a quiet workspace fares beside a flood, what 1,000 idle workers cost, and how fast
//! messages are processed while a snapshot is held open, and how long a worker takes for a workflow. A
//! table at the end, on stderr, has each measurement beside its goal. With `--peers DIR` the other queues of that
//! folder are measured in turns with it, and with `--sdk` the workers of the SDKs.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and starts servers")]

#[path = "../rest/http.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod http;
#[path = "../rest/service.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod service;

mod fairness;
mod goals;
mod idle;
mod peers;
mod snapshot;
mod work;
mod workflow;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use goals::Goal;
use service::Service;

/// Measures queues on a store.
#[derive(Parser)]
#[command(name = "queue")]
struct Args {
    /// The store
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
    /// Only these measurements
    #[arg(long, value_enum, value_delimiter = ',')]
    metrics: Vec<Metric>,
    /// Messages that are sent and processed for a measurement in batches
    #[arg(long, default_value_t = 50_000)]
    messages: usize,
    /// Messages that are sent and processed one by one
    #[arg(long, default_value_t = 5_000)]
    singles: usize,
    /// Messages of the latency, at 50 a second
    #[arg(long, default_value_t = 600)]
    latencies: usize,
    /// Messages of the workspace that floods the queue
    #[arg(long, default_value_t = 100_000)]
    flood: usize,
    /// Workers that have nothing to do
    #[arg(long, default_value_t = 1_000)]
    workers: usize,
    /// Seconds of the measurements that last a time: fairness, idle workers
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seconds that a snapshot is held open
    #[arg(long, default_value_t = 180)]
    snapshot_seconds: u64,
    /// The folder with other queues to be measured in turns with this one
    #[arg(long, value_name = "DIR")]
    peers: Option<std::path::PathBuf>,
    /// How often each is measured in turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure the workers of the SDKs as well
    #[arg(long)]
    sdk: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    fn name(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Metric {
    Enqueue,
    Process,
    Latency,
    Fairness,
    Idle,
    Snapshot,
    Workflow,
}

impl Args {
    fn wants(&self, metric: Metric) -> bool {
        self.metrics.is_empty() || self.metrics.contains(&metric)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.peers.is_some() {
        true => peers::compare(&args)?,
        false => measure(&args)?,
    }
    goals::print(args.store.name());
    Ok(())
}

fn measure(args: &Args) -> Result<()> {
    if args.wants(Metric::Enqueue) {
        for (clients, batch) in [(1, 1), (4, 1), (1, 100), (4, 100)] {
            work::enqueue(&Service::start(args.store)?, args, clients, batch)?;
        }
    }
    if args.wants(Metric::Process) {
        for (workers, batch) in [(1, 1), (4, 1), (1, 100), (4, 100)] {
            work::process(&Service::start(args.store)?, args, workers, batch)?;
        }
        if args.sdk {
            peers::sdks(&Service::start(args.store)?, args)?;
        }
    }
    if args.wants(Metric::Latency) {
        work::latency(&Service::start(args.store)?, args)?;
    }
    if args.wants(Metric::Fairness) {
        fairness::measure(args)?;
    }
    if args.wants(Metric::Idle) {
        idle::measure(&Service::start(args.store)?, args)?;
    }
    if args.wants(Metric::Snapshot) {
        snapshot::measure(&Service::start(args.store)?, args)?;
    }
    if args.wants(Metric::Workflow) {
        workflow::measure(&Service::start(args.store)?, args)?;
    }
    Ok(())
}

/// Says on stderr what is going on.
fn progress(text: impl std::fmt::Display) {
    eprintln!("# {text}");
}

/// Prints a measurement, and adds it to the table. Of percentiles, the table has p99.
fn print(
    args: &Args,
    metric: &str,
    value: impl Into<Value>,
    unit: &str,
    mut settings: Value,
    goal: Option<Goal>,
) {
    let named = ["producers", "workers", "batch", "sdk", "flood"];
    let words = named.iter().filter_map(|name| Some(format!("{name}={}", settings.get(name)?)));
    let words: Vec<String> = std::iter::once(metric.to_owned()).chain(words).collect();
    settings["store"] = args.store.name().into();
    let (version, value): (_, Value) = (env!("CARGO_PKG_VERSION"), value.into());
    let measurement = value.as_f64().or_else(|| value["p99"].as_f64());
    let p99 = if value.is_object() { " p99" } else { "" };
    goals::add(words.join(" "), measurement.unwrap_or(f64::NAN), &format!("{unit}{p99}"), goal);
    let line = json!({
        "peer": "punctual", "version": version, "metric": metric, "value": value, "unit": unit,
        "settings": settings,
    });
    println!("{line}");
}

/// The percentiles of lengths of time, in milliseconds.
fn percentiles(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let place = (values.len().saturating_sub(1) as f64 * part).round() as usize;
        values.get(place).map(|value| (value * 1_000.0).round() / 1_000.0)
    };
    json!({"n": values.len(), "p50": at(0.5), "p99": at(0.99), "max": at(1.0)})
}
