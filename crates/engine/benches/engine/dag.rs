//! D1 to D4: DAG runs of steps that do nothing, until the last DAG run is history.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use domain::dag::{Dag, ForEach, Step};
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap};
use domain::run::{AttemptResult, RunState};
use engine::{Engine, Executor, NewJob, Started, Stop, Trigger};
use serde_json::json;
use store::Store;

use crate::args::Args;
use crate::bed::Bed;
use crate::executors::notifiers;
use crate::measurement::{Measurement, progress, round};
use crate::present::{now, parts};
use crate::{proc, process};

/// The shapes that are measured: metric, DAG runs, and the steps of each.
const SHAPES: [(&str, u32, Shape); 5] = [
    ("D1.chain_400", 1, Shape::Chain(400)),
    ("D2.fan_10000", 1, Shape::Fan(10_000)),
    ("D3.runs_1000x40", 1_000, Shape::Chain(40)),
    ("D4.items_100000", 1, Shape::Items(100_000)),
    // The scenario that Windmill publishes for 40 light tasks in a row.
    ("D5.chain_40", 1, Shape::Chain(40)),
];

#[derive(Clone, Copy)]
enum Shape {
    /// Steps one after the other.
    Chain(u32),
    /// One step, so many after it, and one after them.
    Fan(u32),
    /// A list of so many items.
    Items(u32),
}

impl Shape {
    fn steps(self) -> u32 {
        match self {
            Shape::Chain(steps) => steps,
            Shape::Fan(width) => width + 2,
            Shape::Items(items) => items + 1,
        }
    }

    fn dag(self) -> Dag {
        let step = |name: String, after: Vec<String>| Step { name, after, ..Step::default() };
        let name = |n: u32| format!("s{n}");
        let steps = match self {
            Shape::Chain(steps) => {
                let before = |n: u32| n.checked_sub(1).map(name).into_iter().collect();
                (0..steps).map(|n| step(name(n), before(n))).collect()
            }
            Shape::Fan(width) => {
                // At most 10,000 steps: those in between are items.
                let mut fan = step("fan".into(), vec!["first".into()]);
                fan.for_each = Some(ForEach {
                    list: Some("steps.first.result".into()),
                    max_items: Some(width),
                    ..ForEach::default()
                });
                let mut first = step("first".into(), Vec::new());
                first.result_bytes = Some(1 << 20);
                vec![first, fan, step("last".into(), vec!["fan".into()])]
            }
            Shape::Items(items) => {
                let mut fan = step("fan".into(), vec!["first".into()]);
                fan.for_each = Some(ForEach {
                    list: Some("steps.first.result".into()),
                    max_items: Some(items),
                    ..ForEach::default()
                });
                let mut first = step("first".into(), Vec::new());
                first.result_bytes = Some(1 << 20);
                vec![first, fan]
            }
        };
        Dag { steps, ..Dag::default() }
    }
}

/// Completes every step; the first one of a fan-out answers a list.
#[derive(Clone)]
struct Steps {
    count: Arc<AtomicU32>,
    list: Arc<str>,
}

impl Executor for Steps {
    fn execute(&self, run: Started, _: Stop) -> impl Future<Output = AttemptResult> + Send {
        self.count.fetch_add(1, Ordering::Relaxed);
        let result = run.job.name.ends_with("/first").then(|| self.list.to_string());
        async { AttemptResult { result, ..AttemptResult::completed() } }
    }
}

/// Measures the shapes that were asked for.
pub async fn measure<B: Bed>(bed: &B, args: &Args) -> Result<()> {
    for (metric, runs, shape) in SHAPES {
        if args.wants_named(metric) {
            one(bed, args, metric, runs, shape).await?.print();
        }
    }
    Ok(())
}

async fn one<B: Bed>(
    bed: &B,
    args: &Args,
    metric: &str,
    runs: u32,
    shape: Shape,
) -> Result<Measurement> {
    progress(metric);
    let store = bed.fresh().await?;
    let items = match shape {
        Shape::Fan(items) | Shape::Items(items) => items,
        Shape::Chain(_) => 0,
    };
    let list: Vec<u32> = (0..items).collect();
    let list = serde_json::to_string(&list)?.into();
    let steps = Steps { count: Arc::default(), list };
    let settings = process::settings(args);
    let engine =
        Engine::start(Arc::clone(&store), steps.clone(), notifiers(), settings, parts()).await?;
    let job = create(&engine, shape).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let memory = proc::rss_mib(std::process::id());
    let begun = Instant::now();
    let new = (0..runs).map(|_| engine.node().triggered_of(&job, Trigger::default()));
    let new: Vec<_> = new.collect::<Result<_, _>>()?;
    let ids: Vec<RunId> = new.iter().map(|run| run.id).collect();
    engine.submit(new).await?;
    let mut most = memory;
    let mut sampled = Instant::now();
    for id in ids {
        loop {
            match store.run(id).await?.map(|run| run.state) {
                Some(RunState::Ended(outcome)) => {
                    ensure!(outcome.name() == "COMPLETED", "{metric}: {outcome}");
                    break;
                }
                _ if begun.elapsed() > Duration::from_secs(300) => bail!("{metric}: gave up"),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            if sampled.elapsed() > Duration::from_millis(100) {
                most = most.max(proc::rss_mib(std::process::id()));
                sampled = Instant::now();
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let all = runs * shape.steps();
    ensure!(steps.count.load(Ordering::Relaxed) == all, "a step ran twice or not at all");
    engine.stop(Duration::from_secs(5)).await;
    let settings = json!({
        "store": args.store.name(),
        "runs": runs,
        "steps": all,
        "steps_per_s": (f64::from(all) / seconds).round(),
        "memory_mb": round(most - memory),
        "at": now().to_string(),
    });
    Ok(Measurement::new(metric, round(seconds), "s", settings))
}

async fn create(engine: &Engine, shape: Shape) -> Result<Job> {
    let definition = Definition {
        overlap: Overlap::Allow,
        dag: Some(Box::new(shape.dag())),
        ..Definition::default()
    };
    let new = NewJob {
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "dag".into(),
        definition,
        state: JobState::Enabled,
    };
    Ok(engine.node().create_job(new).await?)
}
