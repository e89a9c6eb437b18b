//! Nodes that race for the same jobs, and a node that is drained.

use serde_json::json;

use super::{Cluster, node_named, wait_for_leader};
use crate::serve::process::until;

/// S2.116: one worker executes, for each interval.
#[test]
fn three_servers_make_exactly_one_run_of_each_tick() {
    let cluster = Cluster::start("racing", &["a", "b", "c"]);
    let jobs = ["one", "two", "three", "four"];
    for job in jobs {
        cluster.create_job(job, &json!({}));
    }
    for job in jobs {
        until(|| (cluster.ledger.of(job).len() >= 12).then_some(()));
    }
    cluster.settle(&jobs);
    for job in jobs {
        let seconds = cluster.ledger.seconds(job);
        let doubled: Vec<_> = seconds.values().filter(|effects| effects.len() != 1).collect();
        assert!(doubled.is_empty(), "{job} did twice: {doubled:?}");
    }
}

#[test]
fn a_drained_node_finishes_and_the_others_go_on() {
    let cluster = Cluster::start("drained", &["a", "b"]);
    let (leader, epoch) = wait_for_leader(cluster.any());
    let other = cluster.others(&leader).remove(0);
    let only = json!({"class": "LEADER_ONLY"});
    cluster.create_job("only", &only);
    cluster.create_job("any", &json!({}));
    until(|| (cluster.ledger.of("only").len() >= 2).then_some(()));
    let asked = cluster.server(&other);
    let (status, drained) = asked.call("POST", &format!("/v1/nodes/{leader}/drain"), None);
    assert_eq!((status, &drained["status"]), (200, &json!("DRAINING")), "{drained}");
    let (next, second) = until(|| super::leader(asked).filter(|(name, _)| *name != leader));
    assert_eq!((next.as_str(), second), (other.as_str(), epoch + 1));
    until(|| (node_named(asked, &leader)?["running_jobs"] == 0).then_some(()));
    // From now on, all that begins begins on the other one.
    let drained = node_named(asked, &leader).unwrap()["worker_id"].clone();
    let done = cluster.ledger.of("any").len();
    until(|| (cluster.ledger.of("any").len() >= done + 5).then_some(()));
    let (_, runs) = asked.call("GET", "/v1/jobs/any/executions?limit=5", None);
    for run in runs["data"].as_array().unwrap() {
        assert_ne!(run["worker_id"], drained, "{run}");
    }
    let (status, resumed) = asked.call("POST", &format!("/v1/nodes/{leader}/resume"), None);
    assert_eq!((status, &resumed["status"]), (200, &json!("ACTIVE")), "{resumed}");
    cluster.settle(&["only", "any"]);
    for job in ["only", "any"] {
        let seconds = cluster.ledger.seconds(job);
        let doubled: Vec<_> = seconds.values().filter(|effects| effects.len() != 1).collect();
        assert!(doubled.is_empty(), "{job} did twice: {doubled:?}");
    }
}
