//! M1.process: runs that wait, until the last one is history. M7.line: the same with runs of one
//! job that must not overlap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use domain::job::Overlap;
use engine::{Engine, Settings};
use serde_json::json;
use store::FullStore;

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::{Counter, notifiers};
use crate::measurement::{Measurement, progress, round};
use crate::present::{now, parts, rate, until};
use crate::{jobs, proc};

/// How many runs of one job wait in line.
const LINE_RUNS: u32 = 10_000;

/// Fills an empty database with due runs, starts an engine, and takes the time until the
/// database shows all of them as ended.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<Measurement> {
    progress("M1.process");
    let store = bed.fresh().await?;
    process(bed, &store, args, "M1.process").await
}

/// Runs of one job in line, each of which begins when the one before has ended.
pub async fn measure_line<B: Bed>(bed: &B, args: &Args) -> Result<Measurement> {
    progress("M7.line");
    let store = bed.fresh().await?;
    process_runs(bed, &store, args, ("M7.line", Overlap::Skip, LINE_RUNS)).await
}

/// The same on a database that is there already.
pub async fn process<B: Bed>(
    bed: &B,
    store: &Arc<B::Store>,
    args: &Args,
    metric: &str,
) -> Result<Measurement> {
    process_runs(bed, store, args, (metric, Overlap::Allow, args.runs)).await
}

async fn process_runs<B: Bed>(
    bed: &B,
    store: &Arc<B::Store>,
    args: &Args,
    (metric, overlap, runs): (&str, Overlap, u32),
) -> Result<Measurement> {
    let settings = settings(args);
    let before = bed.ended().await?;
    fill(store, overlap, runs).await?;
    bed.settle().await?;
    let counter = Counter::default();
    let cpu_before = proc::cpu_seconds(std::process::id());
    let begun = Instant::now();
    let engine =
        Engine::start(Arc::clone(store), counter.clone(), notifiers(), settings.clone(), parts())
            .await?;
    until("the executor sees every run", || counter.get() >= runs).await?;
    let executed = begun.elapsed();
    // To count a long history would take longer than the work.
    while bed.live().await? > 0 {
        ensure!(begun.elapsed() < Duration::from_secs(300), "gave up waiting for the last run");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let rate = rate(runs, begun);
    let ended = bed.ended().await? - before;
    ensure!(ended == u64::from(runs), "{ended} runs are in the history");
    let cpu = proc::cpu_seconds(std::process::id()) - cpu_before;
    engine.stop(Duration::from_secs(5)).await;
    ensure!(counter.get() == runs, "{} executions", counter.get());
    let settings = json!({
        "store": args.store.name(),
        "n": runs,
        "max_concurrent_jobs": settings.max_concurrent_jobs,
        "batch_max": settings.batch_max,
        "until": "all rows are in the history, none is deleted",
        "handlers_done_s": round(executed.as_secs_f64()),
        "cpu_us_per_run": round(cpu * 1e6 / f64::from(runs)),
    });
    Ok(Measurement::new(metric, rate.round(), "jobs/s", settings))
}

/// The engine's settings where throughput is measured.
pub fn settings(args: &Args) -> Settings {
    Settings {
        max_concurrent_jobs: args.concurrency,
        max_runs_per_job: u32::MAX,
        batch_max: args.batch,
        ..Settings::default()
    }
}

async fn fill<S: FullStore>(store: &Arc<S>, overlap: Overlap, count: u32) -> Result<()> {
    let job = jobs::on_demand(store, overlap).await?;
    for first in (0..count).step_by(5_000) {
        let size = 5_000.min(count - first);
        let runs: Vec<_> = (0..size).map(|_| jobs::run(&job, now())).collect();
        let submitted = store.submit(&runs, None).await?;
        ensure!(submitted.accepted.iter().all(|accepted| *accepted), "a run was refused");
    }
    Ok(())
}
