//! The overhead of an agent, compared with the same work without one.
//!
//! `cargo xtask bench exec` prints one JSON line for each measurement on stdout and its progress on
//! stderr. Agent and bare call alternate; `ratio` is the median of the rounds' ratios, and 1 would
//! mean that the agent costs nothing.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

extern crate punctual_agent as agent;

mod http;

use clap::Parser;
use serde_json::json;

/// Measures the executors.
#[derive(Parser)]
#[command(name = "exec")]
struct Args {
    /// Runs in a round
    #[arg(long, default_value_t = 20_000)]
    runs: usize,
    /// Runs at the same time
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// How often agent and bare call take turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs a second with an agent and without, by round.
type Rounds = Vec<(f64, f64)>;

#[tokio::main]
async fn main() {
    let args = Args::parse();
    print("exec.http", &http::measure(&args).await);
}

fn print(metric: &str, rounds: &Rounds) {
    let value = median(rounds.iter().map(|(agent, _)| *agent).collect());
    let direct = median(rounds.iter().map(|(_, direct)| *direct).collect());
    let ratio = median(rounds.iter().map(|(agent, direct)| agent / direct).collect());
    let overhead_us = (1.0 / value - 1.0 / direct) * 1e6;
    let line = json!({
        "metric": metric,
        "value": value.round(),
        "unit": "runs/s",
        "direct": direct.round(),
        "ratio": (ratio * 1e3).round() / 1e3,
        "overhead_us": overhead_us.round(),
    });
    println!("{line}");
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
