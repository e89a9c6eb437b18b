//! M3.cron_lateness: many jobs on the same second, and how long after it each one started.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use domain::job::When;
use engine::{Engine, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::{Witness, notifiers};
use crate::jobs;
use crate::measurement::{Measurement, percentiles, progress};
use crate::present::{after, now, parts};

/// How long before its time the last of the jobs is created, at least.
const AHEAD: SignedDuration = SignedDuration::from_secs(8);

pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    for count in &args.due_together {
        progress(format!("M3.cron_lateness of {count} jobs"));
        together(bed, args, *count).await?.print();
    }
    Ok(())
}

/// The jobs are there before the engine starts, which then has a few seconds until they are due.
async fn together<B: Bed>(bed: &B, args: &Args, count: u32) -> Result<Measurement> {
    let store = bed.fresh().await?;
    // Creating them takes a while; the second lies safely behind it.
    let creating = SignedDuration::from_millis(i64::from(count) / 2);
    let at = whole_second(after(creating + AHEAD));
    let interval = SignedDuration::from_hours(1);
    let hourly = When::Every { interval, starts: Some(at), ends: None };
    jobs::scheduled(&store, count, &hourly).await?;
    bed.settle().await?;
    let spare_ms = at.duration_since(now()).as_millis();
    let witness = Witness::default();
    let settings = Settings {
        max_concurrent_jobs: args.concurrency,
        batch_max: args.batch,
        ..Settings::default()
    };
    let engine = Engine::start(store, witness.clone(), notifiers(), settings, parts()).await?;
    let end = at.saturating_add(SignedDuration::from_secs(20)).unwrap_or(at);
    while witness.count() < count && now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Whatever starts twice would show up now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.stop(Duration::from_secs(5)).await;
    let seen = witness.seen();
    let started: HashSet<_> = seen.iter().map(|seen| seen.job).collect();
    let mut value = percentiles(seen.iter().map(|seen| seen.late_ms).collect());
    value["early"] = seen.iter().filter(|seen| seen.late_ms < 0.0).count().into();
    value["not_started"] = (count as usize - started.len()).into();
    value["twice"] = (seen.len() - started.len()).into();
    let settings = json!({
        "store": args.store.name(),
        "schedules": count,
        "fires": 1,
        "overlap": "SKIP",
        "max_concurrent_jobs": args.concurrency,
        "engine_started_before_ms": spare_ms as i64,
    });
    Ok(Measurement::new("M3.cron_lateness", value, "ms", settings))
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second() + 1).unwrap_or(at)
}
