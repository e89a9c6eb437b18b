//! The database is restarted, or dies and is followed by its synchronous replica.

use serde_json::json;
use testbed::load::Stopwatch;
use testbed::postgres::{Setup, Stop};

use super::member::{Member, ask, create_database};
use super::{Cluster, FOLLOWED_WITHIN};
use crate::serve::process::until;

/// A job that was answered for, to be looked for later.
fn promise(cluster: &Cluster, name: &str) -> String {
    let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    cluster.create_any_job(&job);
    format!("/v1/jobs/{name}")
}

/// The acknowledged job exists, and runs start again soon after the database is back.
fn goes_on(cluster: &Cluster, promised: &str) {
    let back = Stopwatch::start();
    cluster.wait_for_effects("every", 1);
    back.assert_within(FOLLOWED_WITHIN);
    until(|| (cluster.any().call("GET", promised, None).0 == 200).then_some(()));
    cluster.wait_for_effects("only", 3);
}

#[test]
fn a_restarted_database_is_waited_for() {
    let postgres = Setup::default().start();
    create_database(&postgres.url("postgres"), "restarted");
    let url = postgres.url("restarted");
    let members = ["a", "b"].map(|name| Member::new(name, &url).hasty());
    let mut cluster = Cluster::create(members.into());
    cluster.create_job("every", &json!({}));
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    for stop in [Stop::Fast, Stop::Immediate] {
        cluster.wait_for_effects("only", 2);
        let promised = promise(&cluster, &format!("before-{stop:?}"));
        postgres.restart(stop);
        goes_on(&cluster, &promised);
    }
    cluster.settle(&["every", "only"]);
    // Each outage is logged once by each server that met it.
    for name in ["a", "b"] {
        let server = cluster.member(name).take();
        server.terminate();
        let log = server.rest_of_log();
        let [away, back] = ["waiting for the store", "the store is back"]
            .map(|words| log.lines().filter(|line| line.contains(words)).collect::<Vec<_>>());
        assert!(away.len() <= 2 && back.len() == away.len(), "{name}: {away:#?} {back:#?}");
    }
}

#[test]
fn a_promoted_replica_knows_everything_that_was_answered() {
    let waits = Setup::default().set("synchronous_standby_names=*").set("synchronous_commit=on");
    let primary = waits.tcp().unwrap().start();
    let replica = Setup::default().tcp().unwrap().copy_of(&primary).start();
    let in_step = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
    let admin = primary.url("postgres");
    until(|| ask(&admin, async |client| client.query_opt(in_step, &[]).await).unwrap());
    create_database(&admin, "promoted");
    // Each of them has another one first: both find the server that takes writes.
    let both = [primary.address(), replica.address()];
    let url = |hosts: [&str; 2]| {
        let hosts = hosts.join(",");
        format!("postgres://postgres@{hosts}/promoted?target_session_attrs=read-write")
    };
    let cluster = Cluster::create(vec![
        Member::new("a", &url([&both[0], &both[1]])).hasty(),
        Member::new("b", &url([&both[1], &both[0]])).hasty(),
    ]);
    cluster.create_job("every", &json!({}));
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    cluster.wait_for_effects("only", 2);
    let promised = promise(&cluster, "before-the-crash");
    primary.crash();
    replica.promote();
    goes_on(&cluster, &promised);
    cluster.settle(&["every", "only"]);
}
