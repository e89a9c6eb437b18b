//! The leader is killed, or sleeps for longer than its lease and wakes up.

use serde_json::json;
use testbed::load::Stopwatch;

use super::{Cluster, leader, node_named, wait_for_leader};
use crate::serve::process::until;

#[test]
fn a_dead_leader_and_a_sleeping_one_are_followed_and_nothing_is_lost_or_doubled() {
    let mut cluster = Cluster::start("failover", &["a", "b", "c"]);
    let first = wait_for_leader(cluster.any());
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    cluster.wait_for_effects("only", 3);

    let began = Stopwatch::start();
    cluster.kill(&first.0);
    let witness = cluster.others(&first.0).remove(0);
    let second = cluster.followed(&witness, &first, began);
    cluster.wait_for_effects("only", 3);

    // The one that sleeps leads; the other one watches and follows.
    let awake = cluster.others(&second.0).remove(0);
    let asleep = node_named(cluster.any(), &second.0).unwrap()["worker_id"].clone();
    let began = Stopwatch::start();
    cluster.server(&second.0).signal("-STOP");
    let third = cluster.followed(&awake, &second, began);
    cluster.wait_for_effects("only", 3);
    cluster.server(&second.0).signal("-CONT");
    // It finds out that it was declared dead, and comes back as another node that does not lead.
    let witness = cluster.server(&awake);
    let back = until(|| {
        node_named(witness, &second.0)
            .filter(|node| node["status"] == "ACTIVE" && node["worker_id"] != asleep)
    });
    assert!(back["leader_epoch"].is_null(), "{back}");
    cluster.wait_for_effects("only", 3);
    assert_eq!(leader(witness), Some(third), "leadership has not moved again");

    assert!(cluster.settle(&["only"]) >= 12);
}
