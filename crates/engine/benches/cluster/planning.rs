//! `cluster.planning`: jobs that are due in the same minute, until each has its run, planned by the
//! first node to come and in planning buckets.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use domain::id::{TenantId, UserId};
use domain::job::{Definition, JobState, When};
use engine::{NewJob, Node, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use store::SYSTEM;

use crate::args::Args;
use crate::child::Part;
use crate::databases::{Databases, connect, rows};
use crate::fleet;
use crate::measurement::{Measurement, median, progress, round};
use crate::present::{now, parts, rate};

/// Jobs that one call creates.
const BATCH: u32 = 5_000;

/// The minute is so far ahead, in seconds: no time is near while it is planned.
const AHEAD: i64 = 1_800;

pub async fn measure(databases: &Databases, args: &Args) -> Result<Vec<Measurement>> {
    progress(format!("cluster.planning: creating {} jobs", args.jobs));
    let template = create(databases, args.jobs).await?;
    let turns: Vec<(usize, bool)> =
        args.nodes.iter().flat_map(|nodes| [(*nodes, false), (*nodes, true)]).collect();
    let mut rates = vec![Vec::new(); turns.len()];
    for round in 1..=args.rounds {
        for ((nodes, divided), rates) in turns.iter().zip(&mut rates) {
            progress(format!("cluster.planning: {nodes} nodes, divided: {divided}, round {round}"));
            rates.push(plan(databases, args, &template, *nodes, *divided).await?);
        }
    }
    let medians: Vec<f64> = rates.iter().map(|rates| median(rates.clone())).collect();
    let measurement = |((nodes, divided), rate): (&(usize, bool), &f64)| {
        let settings = json!({
            "store": "postgres", "nodes": nodes, "divided": divided, "schedules": args.jobs,
            "rounds": args.rounds, "seconds": round(f64::from(args.jobs) / rate),
            "ratio_to_one_node": round(rate / medians[0]),
            "until": "every job has its run",
        });
        Measurement::new("cluster.planning", rate.round(), "jobs/s", settings)
    };
    let measurements: Vec<Measurement> = turns.iter().zip(&medians).map(measurement).collect();
    measurements.iter().for_each(Measurement::print);
    Ok(measurements)
}

/// A database with so many jobs, spread over the seconds of one minute.
async fn create(databases: &Databases, count: u32) -> Result<String> {
    let name = databases.fresh(None).await?;
    let node = Node::new(databases.store(&name).await?, Settings::default(), parts());
    let minute = now().as_second() + AHEAD;
    for first in (0..count).step_by(BATCH as usize) {
        let job = |n: u32| -> Result<NewJob> {
            let starts = Timestamp::from_second(minute + i64::from(n % 60))?;
            let interval = SignedDuration::from_hours(24);
            let when = When::Every { interval, starts: Some(starts), ends: None };
            Ok(NewJob {
                tenant: TenantId::DEFAULT,
                owner: UserId::ADMIN,
                name: format!("job {n}"),
                definition: Definition { when, ..Definition::default() },
                state: JobState::Enabled,
            })
        };
        let jobs = (first..count.min(first + BATCH)).map(job).collect::<Result<_>>()?;
        for created in node.create_jobs(jobs, SYSTEM).await? {
            created?;
        }
    }
    drop(node);
    let client = connect(&databases.url(&name)).await?;
    client.batch_execute("VACUUM (ANALYZE)").await?;
    drop(client);
    Ok(name)
}

async fn plan(
    databases: &Databases,
    args: &Args,
    template: &str,
    nodes: usize,
    divided: bool,
) -> Result<f64> {
    let name = databases.fresh(Some(template)).await?;
    let part = Part {
        url: databases.url(&name),
        name: String::new(),
        executes: false,
        concurrency: 1,
        look_ahead: 2 * AHEAD,
        planning_buckets_above: if divided { 0 } else { u32::MAX },
        lease: 10,
    };
    let mut members = fleet::start(nodes, &part)?;
    let client = connect(&part.url).await?;
    let begun = Instant::now();
    for member in &mut members {
        member.go()?;
    }
    while rows(&client, "runs").await? < u64::from(args.jobs) {
        ensure!(begun.elapsed() < Duration::from_secs(600), "gave up waiting for the plans");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let rate = rate(args.jobs, begun);
    drop(members);
    ensure!(rows(&client, "runs").await? == u64::from(args.jobs), "a tick has two runs");
    databases.drop(&name).await?;
    Ok(rate)
}
