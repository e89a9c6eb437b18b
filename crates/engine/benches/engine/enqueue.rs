//! M1.enqueue: callers that wait for a durable yes, alone, side by side, and in batches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use domain::job::Job;
use domain::job::Overlap;
use domain::run::NewRun;
use engine::{Engine, Settings};
use jiff::SignedDuration;
use serde_json::json;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::{Counter, notifiers};
use crate::measurement::{Measurement, progress};
use crate::present::{after, parts, rate};
use crate::{jobs, process};

/// Callers, and the runs that they submit in all.
const SINGLE: [(u32, u32); 3] = [(1, 2_000), (16, 10_000), (64, 30_000)];

/// Callers, and the runs that each of their calls submits.
const BATCHES: [(u32, u32); 3] = [(1, 1_000), (4, 1_000), (1, 5_000)];

pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (callers, count) in SINGLE {
        let metric = format!("M1.enqueue_single_c{callers}");
        if args.wants(&metric) {
            progress(&metric);
            measurements.push(single(bed, args, metric, callers, count).await?);
        }
    }
    for (callers, batch) in BATCHES.into_iter().filter(|_| args.wants("M1.enqueue_batch")) {
        progress(format!("M1.enqueue_batch of {batch} by {callers}"));
        measurements.push(batched(bed, args, callers, batch).await?);
    }
    Ok(measurements)
}

/// An engine that works as always; the runs are not due before tomorrow, so it has none to start.
async fn engine<B: Bed>(bed: &B, settings: Settings) -> Result<(Engine, Job)> {
    let store = bed.fresh().await?;
    let job = jobs::on_demand(&store, Overlap::Allow).await?;
    let engine = Engine::start(store, Counter::default(), notifiers(), settings, parts()).await?;
    Ok((engine, job))
}

/// A run for this time tomorrow.
fn run(job: &Job) -> NewRun {
    jobs::run(job, after(SignedDuration::from_hours(24)))
}

async fn single<B: Bed>(
    bed: &B,
    args: &Args,
    metric: String,
    callers: u32,
    count: u32,
) -> Result<Measurement> {
    let (engine, job) = engine(bed, process::settings(args)).await?;
    let engine = Arc::new(engine);
    let left = Arc::new(AtomicU32::new(count));
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..callers {
        let (engine, job, left) = (Arc::clone(&engine), job.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                let accepted = engine.submit(vec![run(&job)]).await?;
                ensure!(accepted == [true], "a run was refused");
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let rate = rate(count, begun);
    ensure!(bed.live().await? == u64::from(count), "{} live rows", bed.live().await?);
    engine.stop(Duration::from_secs(1)).await;
    let settings = json!({
        "store": args.store.name(), "n": count, "clients": callers, "durable_ack_each": true,
    });
    Ok(Measurement::new(metric, rate.round(), "jobs/s", settings))
}

async fn batched<B: Bed>(bed: &B, args: &Args, callers: u32, batch: u32) -> Result<Measurement> {
    let (engine, job) = engine(bed, process::settings(args)).await?;
    let batches: Vec<Vec<NewRun>> = (0..args.runs)
        .step_by(batch as usize)
        .map(|_| (0..batch).map(|_| run(&job)).collect())
        .collect();
    let count = batch * batches.len() as u32;
    let engine = Arc::new(engine);
    let batches = Arc::new(Mutex::new(batches));
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..callers {
        let (engine, batches) = (Arc::clone(&engine), Arc::clone(&batches));
        tasks.spawn(async move {
            let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
            while let Some(batch) = next() {
                let accepted = engine.submit(batch).await?;
                ensure!(accepted.iter().all(|accepted| *accepted), "a run was refused");
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let rate = rate(count, begun);
    ensure!(bed.live().await? == u64::from(count), "{} live rows", bed.live().await?);
    engine.stop(Duration::from_secs(1)).await;
    let settings =
        json!({ "store": args.store.name(), "n": count, "batch": batch, "clients": callers });
    Ok(Measurement::new("M1.enqueue_batch", rate.round(), "jobs/s", settings))
}
