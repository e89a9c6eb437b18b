//! A job on sixteen shards of a real cluster, one of whose nodes is killed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Cluster, wait_for_leader};
use crate::serve::process::{Server, until};

/// The names of the nodes that own shards, when every shard has an owner among these.
fn owners(server: &Server, among: &[&str]) -> Option<BTreeSet<String>> {
    let (status, page) = server.call("GET", "/v1/shards", None);
    assert_eq!(status, 200, "{page}");
    let owner = |shard: &Value| shard["owner"].as_str().map(str::to_owned);
    let owners =
        page["data"].as_array().unwrap().iter().map(owner).collect::<Option<BTreeSet<_>>>()?;
    owners.iter().all(|owner| among.contains(&owner.as_str())).then_some(owners)
}

/// Runs a job, and answers the run when it has ended.
fn ran(server: &Server, job: &str) -> Value {
    let (status, run) = server.call("POST", &format!("/v1/jobs/{job}/trigger"), None);
    assert_eq!(status, 202, "{run}");
    let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    until(|| Some(server.call("GET", &path, None).1).filter(|run| run["completed_at"].is_string()))
}

#[test]
fn sixteen_shards_are_done_by_their_owners_and_by_others_when_one_is_killed() {
    let mut cluster = Cluster::start("shards", &["a", "b", "c"]);
    let (leader, _) = wait_for_leader(cluster.server("a"));
    let witness = cluster.others(&leader).remove(0);
    for n in 1..=16 {
        let shard = json!({"name": format!("shard_{n:03}"), "database": "ledger"});
        let (status, made) = cluster.server(&witness).call("POST", "/v1/shards", Some(&shard));
        assert_eq!(status, 201, "{made}");
    }
    // The leader may know two of the nodes before it knows the third, which then gets its share.
    until(|| owners(cluster.server(&witness), &["a", "b", "c"]).filter(|all| all.len() == 3));
    let job = json!({
        "job_type": "MANUAL", "interval_seconds": null, "partition": {"strategy": "ALL_SHARDS"},
    });
    cluster.create_job("sweep", &job);

    let run = ran(cluster.server(&witness), "sweep");
    assert_eq!(
        (&run["status"], &run["message"]),
        (&json!("COMPLETED"), &json!("16 of 16 shards done"))
    );
    assert_eq!(cluster.ledger.of("sweep").len(), 16);
    let path = format!("/v1/executions/{}/parts", run["execution_id"].as_str().unwrap());
    let (_, parts) = cluster.server(&witness).call("GET", &path, None);
    let parts_done = parts["data"].as_array().unwrap().iter();
    let nodes: BTreeSet<&str> = parts_done.filter_map(|part| part["worker_id"].as_str()).collect();
    assert_eq!(nodes.len(), 3, "each at its owner: {parts}");

    // The leader is killed: another one leads, and its shards find other owners.
    cluster.kill(&leader);
    let others = cluster.others(&leader);
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    until(|| owners(cluster.server(&witness), &others));
    let run = ran(cluster.server(&witness), "sweep");
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(cluster.ledger.of("sweep").len(), 32);
}
