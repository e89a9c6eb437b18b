//! M2.latency: from just before a run is asked for to the first line of its executor.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use domain::job::Overlap;
use engine::{Engine, Settings};
use serde_json::json;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::{Witness, notifiers};
use crate::jobs;
use crate::measurement::{Measurement, percentiles, progress};
use crate::present::{now, parts, until};

const RUNS: u32 = 600;
const PER_SECOND: u32 = 50;

/// An open loop: the next run is asked for when its time comes, not when the last one was taken.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<Measurement> {
    progress("M2.latency");
    let store = bed.fresh().await?;
    let job = jobs::on_demand(&store, Overlap::Allow).await?;
    let witness = Witness::default();
    let settings =
        Settings { max_concurrent_jobs: 10, max_runs_per_job: 10, ..Settings::default() };
    let engine = Engine::start(store, witness.clone(), notifiers(), settings, parts()).await?;
    let engine = Arc::new(engine);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut interval = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    let mut submits = JoinSet::new();
    for _ in 0..RUNS {
        interval.tick().await;
        let (engine, job) = (Arc::clone(&engine), job.clone());
        // The run stands for the moment in which it is asked for.
        submits.spawn(async move { engine.submit(vec![jobs::run(&job, now())]).await });
    }
    while let Some(submitted) = submits.join_next().await {
        submitted??;
    }
    until("every run started", || witness.count() == RUNS).await?;
    engine.stop(Duration::from_secs(1)).await;
    let values = witness.seen().iter().map(|seen| seen.late_ms).collect();
    let settings = json!({ "store": args.store.name(), "rate": PER_SECOND, "concurrency": 10 });
    Ok(Measurement::new("M2.latency", percentiles(values), "ms", settings))
}
