//! `cluster.process`: runs that wait, until the last one is history, with more and more nodes.

use domain::job::Overlap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use store::Store;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::args::Args;
use crate::child::Part;
use crate::databases::{Databases, connect, rows};
use crate::measurement::{Measurement, median, progress, round};
use crate::present::{now, rate};
use crate::{fleet, jobs};

/// How long runs may take.
const PATIENCE: Duration = Duration::from_secs(600);

pub async fn measure(databases: &Databases, args: &Args) -> Result<Vec<Measurement>> {
    let mut rates = vec![Vec::new(); args.nodes.len()];
    for round in 1..=args.rounds {
        for (nodes, rates) in args.nodes.iter().zip(&mut rates) {
            progress(format!("cluster.process: {nodes} nodes, round {round}"));
            rates.push(process(databases, args, *nodes).await?);
        }
    }
    let medians: Vec<f64> = rates.iter().map(|rates| median(rates.clone())).collect();
    let measurement = |(nodes, rate): (&usize, &f64)| {
        let settings = json!({
            "store": "postgres", "nodes": nodes, "n": args.runs, "rounds": args.rounds,
            "max_concurrent_jobs": args.concurrency,
            "ratio_to_one_node": round(rate / medians[0]),
            "from": "a tenth is in the history",
            "until": "all rows are in the history, none is deleted",
        });
        Measurement::new("cluster.process", rate.round(), "jobs/s", settings)
    };
    let measurements: Vec<Measurement> = args.nodes.iter().zip(&medians).map(measurement).collect();
    measurements.iter().for_each(Measurement::print);
    Ok(measurements)
}

async fn process(databases: &Databases, args: &Args, nodes: usize) -> Result<f64> {
    let name = databases.fresh(None).await?;
    let store = databases.store(&name).await?;
    let job = jobs::on_demand(&store, Overlap::Allow).await?;
    let mut ids = Vec::new();
    for first in (0..args.runs).step_by(5_000) {
        let runs: Vec<_> =
            (first..args.runs.min(first + 5_000)).map(|_| jobs::run(&job, now())).collect();
        store.submit(&runs, None).await?;
        ids.extend(runs.iter().map(|run| run.id.0));
    }
    drop(store);
    let part = Part {
        url: databases.url(&name),
        name: String::new(),
        executes: true,
        concurrency: args.concurrency,
        look_ahead: 120,
        planning_buckets_above: 100_000,
        lease: 10,
    };
    let mut members = fleet::start(nodes, &part)?;
    let client = connect(&part.url).await?;
    client.batch_execute("CHECKPOINT").await?;
    for member in &mut members {
        member.go()?;
    }
    // Until a tenth is done, the nodes open their connections.
    gone(&client, ids[ids.len() / 10]).await?;
    let before = rows(&client, "history").await?;
    let begun = Instant::now();
    gone(&client, ids[ids.len() - 1]).await?;
    while rows(&client, "history").await? < u64::from(args.runs) {
        ensure!(begun.elapsed() < PATIENCE, "gave up waiting for the history");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let rate = rate(args.runs - u32::try_from(before)?, begun);
    ensure!(rows(&client, "runs").await? == 0, "a run is still there");
    drop(members);
    databases.drop(&name).await?;
    Ok(rate)
}

/// Waits until a run has ended. Counting rows again and again would take a core from the nodes.
async fn gone(client: &Client, run: Uuid) -> Result<()> {
    let begun = Instant::now();
    let waits = client.prepare("SELECT 1 FROM punctual.runs WHERE id = $1").await?;
    while client.query_opt(&waits, &[&run]).await?.is_some() {
        ensure!(begun.elapsed() < PATIENCE, "gave up waiting for a run");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
