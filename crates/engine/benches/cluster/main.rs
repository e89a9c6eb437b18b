//! How several nodes share one PostgreSQL: each is a process of its own.
//!
//! `cargo xtask bench cluster` prints one JSON line a measurement on stdout, and what it is doing
//! and a table at the end on stderr: runs a second with more and more nodes, how long after a `kill
//! -9` of the leader another node leads, and how fast jobs are planned that are due in the same
//! minute. Single measurements move with whatever else the machine does; what counts is the ratio
//! to one node.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, starts processes and kills them"
)]

extern crate punctual_engine as engine;

mod args;
mod child;
mod databases;
mod failover;
mod fleet;
mod planning;
mod process;

#[path = "../engine/executors.rs"]
#[allow(dead_code, reason = "the engine's benchmark uses all of it")]
mod executors;
#[path = "../engine/jobs.rs"]
#[allow(dead_code, reason = "the engine's benchmark uses all of it")]
mod jobs;
#[path = "../engine/measurement.rs"]
#[allow(dead_code, reason = "the engine's benchmark uses all of it")]
mod measurement;
#[path = "../engine/present.rs"]
#[allow(dead_code, reason = "the engine's benchmark uses all of it")]
mod present;
#[path = "../engine/bed/server.rs"]
mod server;

use anyhow::Result;
use clap::Parser;

use args::{Args, Mode};
use databases::Databases;
use measurement::Measurement;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(part) = &args.child {
        return child::run(part).await;
    }
    let databases = Databases::start()?;
    let mut measurements = Vec::new();
    if args.wants(Mode::Process) {
        measurements.extend(process::measure(&databases, &args).await?);
    }
    if args.wants(Mode::Planning) {
        measurements.extend(planning::measure(&databases, &args).await?);
    }
    if args.wants(Mode::Failover) {
        measurements.push(failover::measure(&databases, &args).await?);
    }
    table(&measurements);
    Ok(())
}

/// The measurements once more, as a table.
fn table(measurements: &[Measurement]) {
    eprintln!("{:<22} {:>6} {:>9} {:>12} {:>8}", "metric", "nodes", "divided", "value", "ratio");
    for Measurement { metric, value, unit, settings } in measurements {
        let of = |name: &str| settings.get(name).map_or(String::new(), ToString::to_string);
        let value = if value.is_number() { format!("{value} {unit}") } else { value.to_string() };
        let (nodes, divided, ratio) = (of("nodes"), of("divided"), of("ratio_to_one_node"));
        eprintln!("{metric:<22} {nodes:>6} {divided:>9} {value:>12} {ratio:>8}");
    }
}
