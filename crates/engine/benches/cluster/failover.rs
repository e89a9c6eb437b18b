//! `cluster.failover`: the leader is killed with signal 9, again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use store::Cluster;
use store::postgres::PostgresStore;

use crate::args::Args;
use crate::child::Part;
use crate::databases::Databases;
use crate::fleet::Member;
use crate::measurement::{Measurement, percentiles, progress};

/// How many nodes there are.
const NODES: u32 = 3;

pub async fn measure(databases: &Databases, args: &Args) -> Result<Measurement> {
    let name = databases.fresh(None).await?;
    let store = databases.store(&name).await?;
    let part = Part {
        url: databases.url(&name),
        name: String::new(),
        executes: true,
        concurrency: 8,
        look_ahead: 120,
        planning_buckets_above: 100_000,
        lease: i64::from(args.lease),
    };
    // A node that comes back under its old name would declare itself dead at once, so each has a
    // new one.
    let start = |n: u32| -> Result<Member> {
        let mut member = Member::start(&Part { name: format!("node {n}"), ..part.clone() })?;
        member.go()?;
        Ok(member)
    };
    let mut members = (0..NODES).map(start).collect::<Result<Vec<Member>>>()?;
    let mut leader = next_leader(&store, "", Duration::from_secs(60)).await?;
    let mut took = Vec::new();
    for kill in 0..args.kills {
        joined(&store, &members).await?;
        // Leaders die at any moment between two renewals.
        let moment = u64::from(kill) * 3_000 / u64::from(args.kills);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        progress(format!("cluster.failover: kill {} of {}", kill + 1, args.kills));
        let place = members.iter().position(|member| member.name == leader);
        let dead = members.swap_remove(place.context("a node leads that is not ours")?);
        let begun = Instant::now();
        dead.kill()?;
        leader = next_leader(&store, &leader, Duration::from_secs(300)).await?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        members.push(start(NODES + kill)?);
    }
    drop(members);
    let settings = json!({
        "store": "postgres", "nodes": NODES, "kills": args.kills, "lease_s": args.lease,
        "until": "another node leads",
    });
    let measurement = Measurement::new("cluster.failover", percentiles(took), "ms", settings);
    measurement.print();
    Ok(measurement)
}

/// The name of the node that leads, once it is another one.
async fn next_leader(store: &Arc<PostgresStore>, old: &str, patience: Duration) -> Result<String> {
    let begun = Instant::now();
    loop {
        if let Some(leader) = store.leadership().await?.node {
            let nodes = store.nodes().await?;
            let found = nodes.iter().find(|node| node.id == leader && node.info.name != old);
            if let Some(node) = found {
                return Ok(node.info.name.clone());
            }
        }
        ensure!(begun.elapsed() < patience, "nobody followed {old:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until every member is listed.
async fn joined(store: &Arc<PostgresStore>, members: &[Member]) -> Result<()> {
    let begun = Instant::now();
    loop {
        let nodes = store.nodes().await?;
        let listed = |member: &Member| nodes.iter().any(|node| node.info.name == member.name);
        if members.iter().all(listed) {
            return Ok(());
        }
        ensure!(begun.elapsed() < Duration::from_secs(60), "a node did not join");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
