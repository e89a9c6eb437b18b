//! Agents that have no store: real processes, a ledger that is none of theirs, and what goes wrong
//! between them.

mod ledger;
pub mod process;

mod faults;
mod joins;
mod moves;
mod steered;

use std::path::Path;

use serde_json::{Value, json};

use crate::serve::process::{Server, until};
use ledger::Ledger;
use process::Agent;

/// A lease that ends soon, and still outlives a busy machine.
const SHORT: &str = "8s";

/// A lease that outlives a restart.
const LONG: &str = "120s";

/// A server that plans and executes nothing itself.
fn serve(data: &Path, lease: &str, more: &[&str]) -> Server {
    let variables = [
        ("PUNCTUAL_ENGINE__ROLES", "scheduler"),
        ("PUNCTUAL_ENGINE__NAME", "server"),
        ("PUNCTUAL_ENGINE__LEASE", lease),
        ("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms"),
    ];
    Server::start_with(data, more, &variables)
}

/// A token with which one agent can join.
fn token(server: &Server, body: &Value) -> String {
    let (status, made) = server.call("POST", "/v1/agent-tokens", Some(body));
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().unwrap().to_owned()
}

/// An agent that has joined a server at an address.
fn joined(folder: &Path, server: &Server, address: &str, name: &str) -> Agent {
    let token = token(server, &json!({"labels": {"place": "far"}}));
    Agent::start(&folder.join(name), address, &["--join", &token, "--name", name])
}

/// A job that calls the ledger, at an agent far away.
fn job(server: &Server, ledger: &Ledger, name: &str, more: &Value) {
    let mut job = json!({
        "name": name, "job_type": "MANUAL", "run_on": {"place": "far"}, "overlap": "ALLOW",
        "payload": {"endpoint": ledger.url()},
    });
    for (field, value) in more.as_object().unwrap() {
        job[field] = value.clone();
    }
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
}

fn trigger(server: &Server, job: &str) -> String {
    let (status, run) = server.call("POST", &format!("/v1/jobs/{job}/trigger"), None);
    assert!(status == 201 || status == 202, "{run}");
    run["execution_id"].as_str().unwrap().to_owned()
}

/// How many results an agent keeps that no server has answered for.
fn kept(data: &Path) -> usize {
    let files = std::fs::read_dir(data.join("results")).unwrap();
    let names = files.map(|file| file.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|end| end == "json")).count()
}

/// How a run stands.
fn status(server: &Server, run: &str) -> String {
    let (_, run) = server.call("GET", &format!("/v1/executions/{run}"), None);
    run["status"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

fn wait_for(server: &Server, run: &str, wanted: &str) {
    until(|| (status(server, run) == wanted).then_some(()));
}

/// The ends and fences of a run's attempts, in their order.
fn attempts(server: &Server, run: &str) -> Vec<(String, Option<i64>)> {
    let (_, page) = server.call("GET", &format!("/v1/executions/{run}/attempts"), None);
    let attempts = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
    let attempt = |attempt: &Value| {
        (attempt["status"].as_str().unwrap().to_owned(), attempt["fence"].as_i64())
    };
    attempts.iter().map(attempt).collect()
}

fn node(server: &Server, name: &str) -> Option<Value> {
    let (status, said) = server.call("GET", "/v1/nodes", None);
    assert_eq!(status, 200, "{said}");
    said["data"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned()
}

fn wait_for_node(server: &Server, name: &str, wanted: &str) -> Value {
    until(|| node(server, name).filter(|node| node["status"] == wanted))
}
