//! How fast the engine is, beside the bare store in the same run.
//!
//! `cargo xtask bench engine --store sqlite` prints one JSON line a measurement on stdout, in the
//! format and with the names of the peers' harness (`../shared/peers`), and what it is doing on
//! stderr. Every measurement is taken on a fresh database with durable commits. Single measurements
//! move with whatever else the machine does; what counts is their ratio to the floor that was
//! measured next to them, or to a peer (`--against peers`, which takes turns).
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, looks for a database server and starts it"
)]

extern crate punctual_engine as engine;

mod args;
mod bed;
mod dag;
mod enqueue;
mod executors;
mod floor;
mod history;
mod idle;
mod jobs;
mod latency;
mod lateness;
mod measurement;
mod peers;
mod present;
mod proc;
mod process;

use anyhow::Result;
use clap::Parser;

use args::{Args, StoreKind};
use bed::Bed;
use bed::postgres::PostgresBed;
use bed::sqlite::SqliteBed;
use measurement::progress;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    match (&args.child, args.store) {
        (Some(address), StoreKind::Sqlite) => {
            idle::child(bed::sqlite::open(address.as_ref())?, &args).await
        }
        (Some(address), StoreKind::Postgres) => {
            idle::child(bed::postgres::open(address).await?, &args).await
        }
        (None, StoreKind::Sqlite) => measure(&SqliteBed::new()?, &args).await,
        (None, StoreKind::Postgres) => measure(&PostgresBed::start().await?, &args).await,
    }
}

async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    if args.against.is_some() {
        return peers::take_turns(bed, args).await;
    }
    if args.wants("floor.process") {
        progress("floor");
        for measurement in bed.floor(args.runs).await? {
            measurement.print();
        }
    }
    if args.wants("M1.process") {
        process::measure(bed, args).await?.print();
    }
    if args.wants("M7.line") {
        process::measure_line(bed, args).await?.print();
    }
    for measurement in enqueue::measure(bed, args).await? {
        measurement.print();
    }
    if args.wants("M2.latency") {
        latency::measure(bed, args).await?.print();
    }
    if args.wants("M3.cron_lateness") {
        lateness::measure(bed, args).await?;
    }
    if args.wants("M4.idle_cpu") || args.wants("M5.memory") || args.wants("M5.restart") {
        idle::measure(bed, args).await?;
    }
    if args.metrics.iter().any(|wanted| wanted.starts_with('D')) {
        dag::measure(bed, args).await?;
    }
    if args.wants_named("M6.history") {
        history::measure(bed, args).await?;
    }
    Ok(())
}
