//! The leader loses its database, in every way that a line can fail; the others do not.

use serde_json::json;
use testbed::load::Stopwatch;
use testbed::postgres::Setup;

use super::member::{Member, create_database};
use super::{Cluster, node_named, wait_for_leader};
use crate::proxy::{Line, Proxy};
use crate::serve::process::until;

#[test]
fn a_leader_without_its_database_is_followed_and_comes_back_by_itself() {
    let postgres = Setup::default().tcp().unwrap().start();
    create_database(&postgres.url("postgres"), "cut");
    let lines = ["a", "b"].map(|name| (name, Proxy::to(postgres.address())));
    let member = |(name, line): &(&str, Proxy)| {
        Member::new(name, &format!("postgres://postgres@{}/cut", line.address)).hasty()
    };
    let cluster = Cluster::create(lines.iter().map(member).collect());
    cluster.create_job("every", &json!({}));
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    for fault in [Line::Silent, Line::OneWay, Line::Cut] {
        cluster.wait_for_effects("only", 2);
        let old = wait_for_leader(cluster.any());
        let witness = cluster.others(&old.0).remove(0);
        let witness = cluster.server(&witness);
        let before = until(|| node_named(witness, &old.0))["worker_id"].clone();
        let line = &lines.iter().find(|(name, _)| *name == old.0).unwrap().1;

        let began = Stopwatch::start();
        line.set(fault);
        cluster.followed(&cluster.others(&old.0)[0], &old, began);
        cluster.wait_for_effects("only", 2);
        let cut = cluster.server(&old.0);
        until(|| (cut.call("GET", "/readyz", None).0 == 503).then_some(()));
        assert_eq!(witness.call("GET", "/readyz", None).0, 200);
        line.set(Line::Open);
        // No restart: it finds out, and joins as another node.
        until(|| {
            let node = node_named(witness, &old.0)?;
            (node["status"] == "ACTIVE" && node["worker_id"] != before).then_some(())
        });
        until(|| (cut.call("GET", "/readyz", None).0 == 200).then_some(()));
    }
    cluster.settle(&["every", "only"]);
}
