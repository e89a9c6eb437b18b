//! An agent whose server dies goes to another one of the cluster, with all that it has.

use serde_json::json;
use testbed::postgres;

use super::{Ledger, attempts, job, joined, node, trigger, wait_for};
use crate::serve::process::{Server, until};

/// A key that both servers have.
const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn database(name: &str) -> String {
    let server = postgres::Server::shared();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = server.url("postgres");
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    });
    server.url(name)
}

#[test]
fn a_run_outlives_the_server_that_handed_it_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = database("agent_moves_store");
    let serve = |name: &str| {
        let variables = [
            ("PUNCTUAL_ENGINE__ROLES", "scheduler"),
            ("PUNCTUAL_ENGINE__NAME", name),
            ("PUNCTUAL_ENGINE__LEASE", "60s"),
            ("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms"),
            ("PUNCTUAL_MASTER_KEY", MASTER_KEY),
        ];
        Server::start_with(&folder.path().join(name), &["--store", &store], &variables)
    };
    let (a, b) = (serve("a"), serve("b"));
    let urls = format!("http://{},http://{}", a.address, b.address);
    let ledger = Ledger::open();
    let agent = joined(folder.path(), &a, &urls, "far");
    job(&a, &ledger, "calls", &json!({}));
    let (across, during) = (trigger(&a, "calls"), trigger(&a, "calls"));
    ledger.wait(&across, 1);
    ledger.wait(&during, 1);
    let before = node(&b, "far").unwrap()["worker_id"].clone();

    a.kill();
    ledger.answer(&during, 0, "in between");
    agent.line_with("agent ready");
    wait_for(&b, &during, "COMPLETED");
    ledger.answer(&across, 0, "");
    wait_for(&b, &across, "COMPLETED");
    // New work comes by the other server, to the same node.
    let next = trigger(&b, "calls");
    ledger.wait(&next, 1);
    ledger.answer(&next, 0, "");
    wait_for(&b, &next, "COMPLETED");
    assert_eq!(until(|| node(&b, "far"))["worker_id"], before);
    for run in [&across, &during, &next] {
        let recorded = attempts(&b, run);
        let done = ledger.of(run);
        assert_eq!(done.len(), 1, "{done:?}");
        assert_eq!(recorded, [("COMPLETED".to_owned(), Some(done[0].fence))]);
    }
    let (_, logs) = b.call("GET", &format!("/v1/executions/{during}/logs"), None);
    assert!(logs.as_str().unwrap_or_default().contains("in between"), "{logs}");
}
