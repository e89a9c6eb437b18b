//! Agents and servers that are killed, put to sleep, or cut off while they work.

use serde_json::json;
use testbed::postgres::free_port;

use super::{
    Agent, LONG, Ledger, SHORT, attempts, job, joined, kept, node, serve, trigger, wait_for,
    wait_for_node,
};
use crate::proxy::{Line, Proxy};
use crate::serve::process::until;

/// The ends of a run's attempts, whose fences must be those of the ledger's effects in order. That
/// of an attempt that was lost with its agent is not known.
fn ends(server: &crate::serve::process::Server, ledger: &Ledger, run: &str) -> Vec<String> {
    let attempts = attempts(server, run);
    let done: Vec<i64> = ledger.of(run).iter().map(|effect| effect.fence).collect();
    let said = "every effect has one record, and every record one effect";
    assert_eq!(attempts.len(), done.len(), "{said}");
    for ((end, recorded), done) in attempts.iter().zip(&done) {
        let is_known = end != "LOST" || recorded.is_some();
        assert!(!is_known || *recorded == Some(*done), "{said}: {end} {recorded:?} {done}");
    }
    assert!(done.is_sorted_by(|a, b| a < b), "fences grow: {done:?}");
    attempts.into_iter().map(|(end, _)| end).collect()
}

#[test]
fn a_killed_agent_loses_its_run_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), SHORT, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let first = joined(folder.path(), &server, &url, "first");
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    first.kill();
    let _second = joined(folder.path(), &server, &url, "second");
    ledger.wait(&run, 2);
    ledger.answer(&run, 1, "");
    wait_for(&server, &run, "COMPLETED");
    assert_eq!(ends(&server, &ledger, &run), ["LOST", "COMPLETED"]);
    wait_for_node(&server, "first", "DOWN");
}

#[test]
fn what_ends_while_the_server_is_dead_is_recorded_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("server");
    // No connection is given this port while the server is dead.
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let server = serve(&data, LONG, &["--http", &address]);
    let url = format!("http://{address}");
    let ledger = Ledger::open();
    let _agent = joined(folder.path(), &server, &url, "far");
    job(&server, &ledger, "calls", &json!({}));
    let (during, across) = (trigger(&server, "calls"), trigger(&server, "calls"));
    ledger.wait(&during, 1);
    ledger.wait(&across, 1);
    let before = node(&server, "far").unwrap()["worker_id"].clone();

    server.kill();
    ledger.answer(&during, 0, "while nobody listened");
    let data_of_agent = folder.path().join("far");
    until(|| (kept(&data_of_agent) == 1).then_some(()));
    let server = serve(&data, LONG, &["--http", &address]);
    wait_for(&server, &during, "COMPLETED");
    assert_eq!(wait_for_node(&server, "far", "ACTIVE")["worker_id"], before, "the same node");
    // A run that executed all the time is taken over, not started again.
    ledger.answer(&across, 0, "");
    wait_for(&server, &across, "COMPLETED");
    for run in [&during, &across] {
        assert_eq!(ends(&server, &ledger, run), ["COMPLETED"]);
    }
    let (_, logs) = server.call("GET", &format!("/v1/executions/{during}/logs"), None);
    assert!(logs.as_str().unwrap_or_default().contains("while nobody listened"), "{logs}");
    until(|| (kept(&data_of_agent) == 0).then_some(()));
}

#[test]
fn a_killed_agent_reports_what_it_had_finished() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), LONG, &[]);
    let ledger = Ledger::open();
    let proxy = Proxy::to(server.address.clone());
    let agent = joined(folder.path(), &server, &proxy.url(), "far");
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    // It ends while the server is unreachable, and so does the agent.
    proxy.set(Line::Silent);
    ledger.answer(&run, 0, "");
    let data_of_agent = folder.path().join("far");
    until(|| (kept(&data_of_agent) == 1).then_some(()));
    agent.kill();
    assert_eq!(super::status(&server, &run), "RUNNING");
    let direct = format!("http://{}", server.address);
    let _again = Agent::start(&folder.path().join("far"), &direct, &[]);
    wait_for(&server, &run, "COMPLETED");
    assert_eq!(ends(&server, &ledger, &run), ["COMPLETED"]);
    until(|| (kept(&data_of_agent) == 0).then_some(()));
}

#[test]
fn a_result_from_behind_a_cut_that_outlived_the_lease_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), SHORT, &[]);
    let direct = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let proxy = Proxy::to(server.address.clone());
    let cut_off = joined(folder.path(), &server, &proxy.url(), "cut-off");
    job(&server, &ledger, "calls", &json!({}));
    let (finished, running) = (trigger(&server, "calls"), trigger(&server, "calls"));
    ledger.wait(&finished, 1);
    ledger.wait(&running, 1);
    let before = node(&server, "cut-off").unwrap()["worker_id"].clone();
    proxy.set(Line::Silent);
    ledger.answer(&finished, 0, "");
    let data_of_agent = folder.path().join("cut-off");
    until(|| (kept(&data_of_agent) == 1).then_some(()));
    // It stops by itself what has not ended.
    cut_off.line_with("lease lost");
    wait_for_node(&server, "cut-off", "DOWN");
    let _other = joined(folder.path(), &server, &direct, "other");
    for run in [&finished, &running] {
        ledger.wait(run, 2);
        ledger.answer(run, 1, "");
        wait_for(&server, run, "COMPLETED");
    }
    proxy.set(Line::Open);
    cut_off.line_with("result refused");
    let back = until(|| node(&server, "cut-off").filter(|node| node["status"] == "ACTIVE"));
    assert_ne!(back["worker_id"], before, "it is another node");
    for run in [&finished, &running] {
        assert_eq!(ends(&server, &ledger, run), ["LOST", "COMPLETED"]);
    }
    until(|| (kept(&data_of_agent) == 0).then_some(()));
}

#[test]
fn a_short_cut_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), LONG, &[]);
    let ledger = Ledger::open();
    let proxy = Proxy::to(server.address.clone());
    let agent = joined(folder.path(), &server, &proxy.url(), "far");
    let before = node(&server, "far").unwrap()["worker_id"].clone();
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    proxy.set(Line::Silent);
    agent.line_with("connection to the server lost");
    proxy.set(Line::Open);
    ledger.answer(&run, 0, "");
    wait_for(&server, &run, "COMPLETED");
    let next = trigger(&server, "calls");
    ledger.wait(&next, 1);
    ledger.answer(&next, 0, "");
    wait_for(&server, &next, "COMPLETED");
    assert_eq!(node(&server, "far").unwrap()["worker_id"], before, "the same node");
    for run in [&run, &next] {
        assert_eq!(ends(&server, &ledger, run), ["COMPLETED"]);
    }
}

#[test]
fn an_agent_that_sleeps_beyond_its_lease_changes_nothing_when_it_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), SHORT, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let sleeper = joined(folder.path(), &server, &url, "sleeper");
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    let before = node(&server, "sleeper").unwrap()["worker_id"].clone();
    sleeper.signal("-STOP");
    // Its answer waits for it when it wakes.
    ledger.answer(&run, 0, "");
    wait_for_node(&server, "sleeper", "DOWN");
    let _other = joined(folder.path(), &server, &url, "other");
    ledger.wait(&run, 2);
    sleeper.signal("-CONT");
    let back = until(|| node(&server, "sleeper").filter(|node| node["status"] == "ACTIVE"));
    assert_ne!(back["worker_id"], before, "it is another node");
    assert_eq!(super::status(&server, &run), "RUNNING", "at the other one");
    ledger.answer(&run, 1, "");
    wait_for(&server, &run, "COMPLETED");
    assert_eq!(ends(&server, &ledger, &run), ["LOST", "COMPLETED"]);
}
