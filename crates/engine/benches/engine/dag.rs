//! D1 to D8: DAG runs and sharded runs whose child runs do nothing, until the last one is history.
//!
//! | metric | what |
//! |---|---|
//! | D1, D5 | a chain of 400 and of 40 steps, seconds |
//! | D2 | one step, 10,000 items, one step, seconds |
//! | D3 | 1,000 runs of a chain of 40, steps a second |
//! | D4 | 100,000 items: seconds, memory that it takes, the slowest page of items |
//! | D6 | validation of 10,000 steps with 20,000 edges |
//! | D7 | 10,000 parents that end one by one into one step: processor time of the database an end, and how much of it is due to the join |
//! | D8 | the same for 10,000 parts of a run |

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::run::{AttemptResult, RunState};
use engine::{Engine, Executor, NewJob, Started, Stop, Trigger};
use serde_json::json;
use store::{DagRecords, SYSTEM, Store};

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::notifiers;
use crate::measurement::{Measurement, progress, round};
use crate::present::{now, parts};
use crate::{proc, process};

mod goals;
mod shape;

use goals::Table;
use shape::{Shape, ladder};

/// How many items a page has.
const PAGE: u32 = 500;

/// Completes every child run; the first one of a fan-out answers a list.
#[derive(Clone)]
struct Steps {
    count: Arc<AtomicU32>,
    list: Arc<str>,
}

impl Executor for Steps {
    fn execute(&self, run: Started, _: Stop) -> impl Future<Output = AttemptResult> + Send {
        self.count.fetch_add(1, Ordering::Relaxed);
        let lists = run.asks_rows || run.job.name.ends_with("/first");
        let result = lists.then(|| self.list.to_string());
        async { AttemptResult { result, ..AttemptResult::completed() } }
    }
}

/// Result of a measurement.
struct Measured {
    seconds: f64,
    /// MB more than before, at most.
    memory: f64,
    /// Milliseconds of the database's processor time for each child run. An embedded database has
    /// no processor time of its own: it is that of everything.
    database_ms: f64,
    /// The child runs.
    runs: u32,
    /// The slowest page of items, in milliseconds.
    page_ms: f64,
}

/// Makes the requested measurements.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    let mut table = Table::new(args.store);
    for (metric, shape) in [
        ("D1.chain_400", Shape::Chain(400)),
        ("D5.chain_40", Shape::Chain(40)),
        ("D2.fan_10000", Shape::Fan(10_000)),
    ] {
        if args.wants_named(metric) {
            let found = one(bed, args, metric, 1, shape).await?;
            say(args, &mut table, metric, found.seconds, "s", &found);
        }
    }
    if args.wants_named("D3.runs_1000x40") {
        let metric = "D3.runs_1000x40";
        let found = one(bed, args, metric, 1_000, Shape::Chain(40)).await?;
        let rate = (f64::from(found.runs) / found.seconds).round();
        say(args, &mut table, metric, rate, "steps/s", &found);
    }
    if args.wants_named("D4.items_100000") {
        let found = one(bed, args, "D4.items_100000", 1, Shape::Items(100_000)).await?;
        say(args, &mut table, "D4.items_100000", found.seconds, "s", &found);
        say(args, &mut table, "D4.memory", found.memory, "MB", &found);
        say(args, &mut table, "D4.page", found.page_ms, "ms", &found);
    }
    if args.wants_named("D6.validate_10000") {
        progress("D6.validate_10000");
        let dag = ladder(10_000);
        let edges: usize = dag.steps.iter().map(|step| step.after.len()).sum();
        let begun = Instant::now();
        let graph = domain::dag::check(&dag).context("the DAG is valid")?;
        let ms = round(begun.elapsed().as_secs_f64() * 1e3);
        let settings = json!({ "steps": graph.len(), "edges": edges });
        Measurement::new("D6.validate_10000", ms, "ms", settings).print();
        table.add("D6.validate_10000", ms, "ms");
    }
    if args.wants_named("D7.join") {
        let apart = one(bed, args, "D7.apart", 1, Shape::Apart(9_999)).await?;
        say(args, &mut table, "D7.apart_all", apart.database_ms, "ms/end", &apart);
        let join = one(bed, args, "D7.join", 1, Shape::Join(9_999)).await?;
        say(args, &mut table, "D7.join_all", join.database_ms, "ms/end", &join);
        // The cost that every end of a run has is not due to the join.
        let more = join.database_ms - apart.database_ms;
        say(args, &mut table, "D7.join_end", more.max(0.0), "ms/end", &join);
    }
    if args.wants_named("D8.parts") {
        let few = one(bed, args, "D8.parts_100", 100, Shape::Parts(100)).await?;
        say(args, &mut table, "D8.part_all_100", few.database_ms, "ms/end", &few);
        let many = one(bed, args, "D8.parts_10000", 1, Shape::Parts(10_000)).await?;
        say(args, &mut table, "D8.part_all_10000", many.database_ms, "ms/end", &many);
        // The cost of one of a hundred children is not due to their number.
        let more = many.database_ms - few.database_ms;
        say(args, &mut table, "D8.part_end", more.max(0.0), "ms/end", &many);
    }
    table.print();
    Ok(())
}

fn say(
    args: &Args,
    table: &mut Table,
    metric: &str,
    value: f64,
    unit: &'static str,
    found: &Measured,
) {
    let value = round(value);
    let settings = json!({
        "store": args.store.name(),
        "runs": found.runs,
        "seconds": round(found.seconds),
        "runs_per_s": (f64::from(found.runs) / found.seconds).round(),
        "memory_mb": round(found.memory),
        "database_cpu_ms_per_end": round(found.database_ms),
        "at": now().to_string(),
    });
    Measurement::new(metric, value, unit, settings).print();
    table.add(metric, value, unit);
}

async fn one<B: Bed>(
    bed: &B,
    args: &Args,
    metric: &str,
    runs: u32,
    shape: Shape,
) -> Result<Measured> {
    progress(metric);
    let store = bed.fresh().await?;
    let steps = Steps { count: Arc::default(), list: shape.list().into() };
    let mut settings = process::settings(args);
    settings.max_concurrent_jobs = shape.slots().unwrap_or(settings.max_concurrent_jobs);
    let engine =
        Engine::start(Arc::clone(&store), steps.clone(), notifiers(), settings, parts()).await?;
    let job = create(&engine, shape).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let database = bed.server().unwrap_or(std::process::id());
    let (memory, cpu) = (proc::rss_mib(std::process::id()), proc::cpu_seconds(database));
    let begun = Instant::now();
    let new = (0..runs).map(|_| engine.node().triggered_of(&job, Trigger::default()));
    let new: Vec<_> = new.collect::<Result<_, _>>()?;
    let ids: Vec<RunId> = new.iter().map(|run| run.id).collect();
    engine.submit(new).await?;
    let mut most = memory;
    let mut sampled = Instant::now();
    for id in &ids {
        loop {
            match store.run(*id).await?.map(|run| run.state) {
                Some(RunState::Ended(outcome)) => {
                    ensure!(outcome.name() == "COMPLETED", "{metric}: {outcome}");
                    break;
                }
                _ if begun.elapsed() > Duration::from_secs(600) => bail!("{metric}: gave up"),
                // A question costs the database as well: not many while steps end one by one.
                _ if shape_is_slow(shape) => tokio::time::sleep(Duration::from_millis(50)).await,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            if sampled.elapsed() > Duration::from_millis(100) {
                most = most.max(proc::rss_mib(std::process::id()));
                sampled = Instant::now();
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = proc::cpu_seconds(database) - cpu;
    let all = runs * shape.runs();
    ensure!(steps.count.load(Ordering::Relaxed) == all, "a step ran twice or not at all");
    let page_ms = match shape {
        Shape::Items(items) => slowest_page(&*store, ids[0], items).await?,
        _ => 0.0,
    };
    engine.stop(Duration::from_secs(5)).await;
    let database_ms = cpu * 1e3 / f64::from(all);
    Ok(Measured { seconds, memory: most - memory, database_ms, runs: all, page_ms })
}

fn shape_is_slow(shape: Shape) -> bool {
    matches!(shape, Shape::Join(_) | Shape::Apart(_) | Shape::Parts(_))
}

/// The slowest of some pages of items, with their runs.
async fn slowest_page<S: Store + DagRecords>(store: &S, run: RunId, items: u32) -> Result<f64> {
    let mut slowest: f64 = 0.0;
    for first in (1..items).step_by(items as usize / 20) {
        let begun = Instant::now();
        let after = domain::dag::state::StepKey { step: 1, item: Some(first) };
        let page = store.dag_steps(run, Some(1), Some(after), PAGE).await?;
        let runs: Vec<RunId> = page.items.iter().filter_map(|record| record.run).collect();
        let found = store.runs(&runs).await?;
        ensure!(found.len() == page.items.len(), "runs of items are missing");
        slowest = slowest.max(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(slowest)
}

async fn create(engine: &Engine, shape: Shape) -> Result<Job> {
    let new = NewJob {
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "dag".into(),
        definition: shape.definition(),
        state: JobState::Enabled,
    };
    Ok(engine.node().create_job(new, SYSTEM).await?)
}
