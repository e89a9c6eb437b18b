//! How fast the SQL interface is: the real server as a process, asked by a driver of PostgreSQL.
//!
//! `cargo xtask bench sql` prints one JSON line a measurement on stdout: how many jobs a second several
//! connections make, each with one statement that is durable when it answers, and how many pages of
//! the history they read.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and starts servers")]

mod create;
mod page;
mod service;

use anyhow::Result;
use clap::Parser;
use serde_json::{Value, json};

use service::Service;

/// Measures the SQL interface on SQLite.
#[derive(Parser)]
#[command(name = "sql")]
struct Args {
    /// Jobs that are made; none when 0
    #[arg(long, default_value_t = 20_000)]
    jobs: usize,
    /// Pages of the history that are read; none when 0
    #[arg(long, default_value_t = 0)]
    pages: usize,
    /// By how many connections
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.jobs > 0 {
        eprintln!("# CREATE JOB");
        create::measure(&Service::start()?, &args)?;
    }
    if args.pages > 0 {
        eprintln!("# pages of the history");
        page::measure(&Service::start()?, &args)?;
    }
    Ok(())
}

/// Prints a measurement.
fn print(metric: &str, value: f64, unit: &str, more: &Value) {
    let mut line = json!({ "metric": metric, "value": value, "unit": unit, "store": "sqlite" });
    if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
        line.extend(more.clone());
    }
    println!("{line}");
}
