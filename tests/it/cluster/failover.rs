//! The leader is killed, or sleeps for longer than its lease and wakes up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Cluster, leader, node_named, wait_for_leader};
use crate::serve::process::{Server, until};

/// The longest time without a leader.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(15);

/// Does something to the leader, and waits until another one leads.
#[expect(clippy::disallowed_methods, reason = "how soon another one leads is the promise")]
fn followed(witness: &Server, old: (&str, i64), deed: impl FnOnce()) -> (String, i64) {
    let began = Instant::now();
    deed();
    let next = until(|| leader(witness).filter(|(name, _)| name != old.0));
    assert!(began.elapsed() <= FOLLOWED_WITHIN, "it took {:?}", began.elapsed());
    assert!(next.1 > old.1, "{next:?} after {old:?}");
    next
}

/// The fences of a run's attempts that ended as they should, or were lost with their node.
fn fences(server: &Server, run: &str, status: &str) -> BTreeSet<i64> {
    let (_, page) = server.call("GET", &format!("/v1/executions/{run}/attempts"), None);
    let attempts = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
    let ended = attempts.iter().filter(|attempt| attempt["status"] == status);
    ended.map(|attempt| attempt["fence"].as_i64().unwrap()).collect()
}

#[test]
fn a_dead_leader_and_a_sleeping_one_are_followed_and_nothing_is_lost_or_doubled() {
    let mut cluster = Cluster::start("failover", &["a", "b", "c"]);
    let first = wait_for_leader(cluster.server("a"));
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    let rows = |cluster: &Cluster| cluster.ledger.of("only").len();
    until(|| (rows(&cluster) >= 3).then_some(()));

    let dead = cluster.take(&first.0);
    let witness = cluster.others(&first.0).remove(0);
    let second = followed(cluster.server(&witness), (&first.0, first.1), || dead.kill());
    let before = rows(&cluster);
    until(|| (rows(&cluster) >= before + 3).then_some(()));

    // The one that sleeps leads; the other one watches and follows.
    let awake = cluster.others(&second.0).remove(0);
    let sleeper = cluster.server(&second.0);
    let asleep = node_named(sleeper, &second.0).unwrap()["worker_id"].clone();
    let third = followed(cluster.server(&awake), (&second.0, second.1), || {
        sleeper.signal("-STOP");
    });
    let before = rows(&cluster);
    until(|| (rows(&cluster) >= before + 3).then_some(()));
    sleeper.signal("-CONT");
    // It finds out that it was buried, and comes back as another node that does not lead.
    let witness = cluster.server(&awake);
    let back = until(|| {
        node_named(witness, &second.0)
            .filter(|node| node["status"] == "ACTIVE" && node["worker_id"] != asleep)
    });
    assert!(back["leader_epoch"].is_null(), "{back}");
    let before = rows(&cluster);
    until(|| (rows(&cluster) >= before + 3).then_some(()));
    assert_eq!(leader(witness), Some(third.clone()), "the lead has not moved again");

    let (status, _) = witness.call("POST", "/v1/jobs/only/pause", None);
    assert_eq!(status, 200);
    until(|| (node_named(witness, &third.0)?["running_jobs"] == 0).then_some(()));
    // Every tick has an effect. One that has two lost an attempt that had come so far.
    for (second, effects) in cluster.ledger.seconds("only") {
        let run = &effects[0].run;
        let done = fences(witness, run, "COMPLETED");
        assert_eq!(done.len(), 1, "{second}: {effects:?}");
        let lost = fences(witness, run, "LOST");
        for effect in &effects {
            assert_eq!(&effect.run, run, "one run of a tick");
            let known = done.contains(&effect.fence) || lost.contains(&effect.fence);
            assert!(known, "{second}: {effects:?}, not {done:?} nor {lost:?}");
        }
        assert!(effects.len() <= 1 + lost.len(), "{second}: {effects:?}");
    }
}
