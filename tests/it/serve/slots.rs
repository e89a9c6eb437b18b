//! An endpoint that never answers, called every second by a job that may overlap: every other job
//! goes on.

use std::collections::BTreeMap;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::process::{Server, key, until};
use super::sink::{header, received, sink};

/// How many calls of the endpoint are open while the others go on: many more than there are process
/// slots.
const OPEN: usize = 8;

fn job(name: &str, payload: &Value) -> Value {
    json!({"name": name, "interval_seconds": 1, "overlap": "ALLOW", "payload": payload})
}

#[test]
fn an_endpoint_that_never_answers_stops_no_other_job() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("PUNCTUAL_ENGINE__MAX_CONCURRENT_JOBS", "2"),
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
    ];
    let server = Server::start_with(&folder.path().join("data"), &[], &environment);
    let (silent, silent_address) = sink();
    let (answering, address) = sink();
    let call = |address: &str| json!({"endpoint": format!("http://{address}/")});
    let mut jobs = vec![job("stuck", &call(&silent_address))];
    jobs.extend((0..5).map(|n| job(&format!("calls-{n}"), &call(&address))));
    jobs.push(job("works", &json!({"type": "SQL", "sql": "SELECT 1"})));
    for job in &jobs {
        let (status, made) = server.call("POST", "/v1/jobs", Some(job));
        assert_eq!(status, 201, "{made}");
    }
    // Each second brings one more call that stays open.
    let mut open: Vec<TcpStream> = Vec::new();
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    while open.len() < OPEN || heard.len() < 5 || heard.values().any(|count| *count < OPEN) {
        open.extend(silent.accept().ok().map(|(stream, _)| stream));
        let (head, _) = received(&answering, "204 No Content");
        *heard.entry(header(&head, "punctual-job-name").to_owned()).or_default() += 1;
    }
    let executions = |filter: &str| {
        let (status, list) = server.call("GET", &format!("/v1/executions?{filter}"), None);
        assert_eq!(status, 200, "{list}");
        list["data"].as_array().map_or(0, Vec::len)
    };
    until(|| (executions("job=works&status=COMPLETED&limit=100") >= OPEN).then_some(()));
    assert!(executions("job=stuck&status=RUNNING&limit=100") >= OPEN);
    let (_, nodes) = server.call("GET", "/v1/nodes", None);
    let node = &nodes["data"][0];
    assert_eq!((&node["capacity"], &node["http_capacity"]), (&json!(2), &json!(4096)));
}

/// A server that may open few files makes fewer calls.
#[test]
#[expect(clippy::disallowed_methods, reason = "a shell lowers the limit for the server")]
fn http_calls_fit_into_the_limit_on_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["serve", "--data", data.to_str().unwrap(), "--http", "127.0.0.1:0", "--pg", "none"];
    let server = crate::binary::punctual(args);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\""]);
    limited.arg(server.get_program()).args(server.get_args()).current_dir(folder.path());
    let mut server = Server::of(limited);
    server.key = key(&data);
    let (_, nodes) = server.call("GET", "/v1/nodes", None);
    assert_eq!(nodes["data"][0]["http_capacity"], 128, "{nodes}");
}
