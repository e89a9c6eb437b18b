//! A server that dies in the middle of each kind of job: every run is tried again under a larger
//! fence, and what was written before is still there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use super::process::{Server, until};

/// Counts for ever on the first attempt, and to ten on the others.
const COUNT: &str = "WITH RECURSIVE c (n) AS (
        SELECT 1 UNION ALL SELECT n + 1 FROM c
        WHERE n < CASE punctual('attempt') WHEN '1' THEN 100000000000 ELSE 10 END)
    SELECT max(n) AS n FROM c";

/// Says under which fence it runs, and sleeps on the first attempt.
const SCRIPT: &str = "echo fence $PUNCTUAL_FENCE; [ $PUNCTUAL_ATTEMPT != 1 ] || exec sleep 600";

/// The names and values of a request's headers, in small letters.
fn headers(call: &TcpStream) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for line in BufReader::new(call).lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }
    headers
}

fn start(data: &Path) -> Server {
    let variables = [
        // It ends soon, and still outlives a busy machine.
        ("PUNCTUAL_ENGINE__LEASE", "8s"),
        ("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms"),
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
        ("PUNCTUAL_EXTERNAL__ENABLED", "true"),
        ("PUNCTUAL_EXTERNAL__ALLOW", "/bin/sh"),
        // The test does not depend on the sandbox features of this kernel.
        ("PUNCTUAL_EXTERNAL__SANDBOX", "best-effort"),
    ];
    Server::start_with(data, &[], &variables)
}

/// Creates a job and triggers a run.
fn trigger(server: &Server, name: &str, payload: Value) -> String {
    let job = json!({"name": name, "job_type": "MANUAL", "payload": payload});
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (_, run) = server.call("POST", &format!("/v1/jobs/{name}/trigger"), None);
    run["execution_id"].as_str().unwrap().to_owned()
}

/// Whether a folder or one below it holds a file.
fn has_file(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.path().is_file() || has_file(&entry.path()))
}

#[test]
fn each_kind_of_job_is_tried_again_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());

    let server = start(&data);
    let http = trigger(&server, "http", json!({"endpoint": endpoint}));
    let sql = trigger(&server, "sql", json!({"type": "SQL", "sql": COUNT}));
    let script = json!({"type": "EXTERNAL", "command": "/bin/sh", "arguments": ["-c", SCRIPT]});
    let external = trigger(&server, "external", script);
    let (first_call, _) = listener.accept().unwrap();
    let first = headers(&first_call);
    // The fencing token that the command has printed.
    let said = |server: &Server, attempt: u32| -> Option<i64> {
        let path = format!("/v1/executions/{external}/logs?attempt={attempt}");
        let (_, text) = server.call("GET", &path, None);
        text.as_str()?.split("fence ").nth(1)?.split_whitespace().next()?.parse().ok()
    };
    let fence = until(|| said(&server, 1));
    let status = |server: &Server, run: &str| {
        server.call("GET", &format!("/v1/executions/{run}"), None).1["status"].clone()
    };
    until(|| (status(&server, &sql) == "RUNNING").then_some(()));
    // A few bytes are in memory at first; what has been there for a while is in a file.
    until(|| has_file(&data.join("outputs")).then_some(()));
    server.kill();

    let server = start(&data);
    let (mut second_call, _) = listener.accept().unwrap();
    let second = headers(&second_call);
    second_call.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    let number = |headers: &BTreeMap<String, String>, name: &str| -> i64 {
        headers[name].parse().unwrap_or_else(|_| panic!("{headers:?}"))
    };
    assert_eq!((&first["punctual-run"], &second["punctual-run"]), (&http, &http));
    assert_eq!((number(&first, "punctual-attempt"), number(&second, "punctual-attempt")), (1, 2));
    assert!(number(&second, "punctual-fence") > number(&first, "punctual-fence"));
    for run in [&http, &sql, &external] {
        until(|| (status(&server, run) == "COMPLETED").then_some(()));
        let (_, page) = server.call("GET", &format!("/v1/executions/{run}/attempts"), None);
        let attempts = page["data"].as_array().unwrap();
        let ends: Vec<&str> =
            attempts.iter().map(|attempt| attempt["status"].as_str().unwrap()).collect();
        assert_eq!(ends, ["LOST", "COMPLETED"], "{page}");
        assert!(attempts[1]["fence"].as_i64() > attempts[0]["fence"].as_i64(), "{page}");
    }
    assert_eq!(said(&server, 1), Some(fence), "what was written before the kill");
    assert!(until(|| said(&server, 2)) > fence);
}

#[test]
fn an_attempt_that_a_decision_is_awaited_about_is_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let server = start(&data);
    let job = json!({"name": "asks", "job_type": "MANUAL", "on_lost": "ASK", "payload": {"endpoint": endpoint}});
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (_, run) = server.call("POST", "/v1/jobs/asks/trigger", None);
    let run = run["execution_id"].as_str().unwrap().to_owned();
    let (_call, _) = listener.accept().unwrap();
    server.kill();

    let server = start(&data);
    let status = || server.call("GET", &format!("/v1/executions/{run}"), None).1["status"].clone();
    until(|| (status() == "HELD").then_some(()));
    let text = format!(
        "SELECT retry_count, state_detail, started_at IS NOT NULL, completed_at IS NULL \
         FROM sys.job_runs WHERE execution_uuid = '{run}'"
    );
    let rows = || {
        let (code, found) = server.call("POST", "/v1/sql", Some(&json!({ "sql": text })));
        assert_eq!(code, 200, "{found}");
        found["results"][0]["rows"].clone()
    };
    assert_eq!(rows(), json!([[0, "HELD", true, true]]));
    let decision = json!({"answer": "FAIL"});
    let path = format!("/v1/executions/{run}/decide");
    let (code, decided) = server.call("POST", &path, Some(&decision));
    assert_eq!(code, 200, "{decided}");
    assert_eq!(rows(), json!([[0, "FAILED", true, false]]));
}
