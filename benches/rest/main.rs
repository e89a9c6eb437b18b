//! How fast the API is: the real server as a process, asked over HTTP.
//!
//! `cargo xtask bench rest --store sqlite --runs 1000000` prints one JSON line a measurement on stdout:
//! how many jobs a second are made in bulk, how many triggers and pages of executions a second on
//! many connections and what they cost, how fast runs of one job follow each other in line, how long
//! pages of lists take in a long history, and how long after a trigger its run begins; the same
//! history is asked about in SQL.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and starts servers")]

mod bulk;
mod dashboard;
mod fill;
mod gate;
mod http;
mod latency;
mod load;
mod pages;
mod paths;
mod service;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use service::Service;

/// Measures the API on a store.
#[derive(Parser)]
#[command(name = "rest")]
struct Args {
    /// The store
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
    /// Ended runs in the history whose pages are read
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    runs: Vec<u64>,
    /// Jobs that are made in bulk; none when 0
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
    /// How often each page is read
    #[arg(long, default_value_t = 200)]
    repeats: usize,
    /// How many runs are triggered; none when 0
    #[arg(long, default_value_t = 500)]
    triggers: usize,
    /// Only these measurements of the gate (`cargo xtask bench gate`)
    #[arg(long, value_enum, value_delimiter = ',')]
    gate: Vec<gate::GateMetric>,
    /// Seconds for which triggers and pages are asked for on many connections; none when 0
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many connections that are
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Runs of one job that wait in line for each other; none when 0
    #[arg(long, default_value_t = 10_000)]
    line: usize,
    /// Measure the pages of the dashboard in a browser, and nothing else
    #[arg(long)]
    dashboard: bool,
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

fn main() -> Result<()> {
    let args = Args::parse();
    if !args.gate.is_empty() {
        return gate::measure(&args);
    }
    if args.dashboard {
        return dashboard::measure(Service::start(args.store)?, &args);
    }
    if args.jobs > 0 {
        progress("jobs in bulk");
        bulk::measure(&Service::start(args.store)?, &args)?;
    }
    if args.triggers > 0 {
        progress("trigger to start");
        latency::measure(&Service::start(args.store)?, &args)?;
    }
    if args.seconds > 0 {
        paths::measure(&Service::start(args.store)?, &args)?;
    }
    if args.line > 0 {
        paths::line(&Service::start(args.store)?, &args)?;
    }
    for runs in &args.runs {
        progress(format!("{runs} ended runs"));
        pages::measure(Service::start(args.store)?, *runs, &args)?;
    }
    Ok(())
}

/// Says on stderr what is going on.
fn progress(text: impl std::fmt::Display) {
    eprintln!("# {text}");
}

/// Prints a measurement.
fn print(metric: &str, value: impl Into<Value>, unit: &str, settings: Value) {
    let version = env!("CARGO_PKG_VERSION");
    let value: Value = value.into();
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
