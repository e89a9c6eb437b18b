//! Queues with real processes: servers and workers are killed, and no message is lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::rest::program;
use crate::serve::process::Server;

/// A worker of the SDK for Python that notes what it has done in a file.
fn worker(server: &Server, queue: &str, done: &Path, more: &[&str]) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/python/tests/work.py");
    let mut command: Command = program("python3");
    command.arg("-B").arg(script).arg(queue).arg(done).args(more);
    command.env("PUNCTUAL_URL", format!("http://{}", server.address));
    command.env("PUNCTUAL_TOKEN", &server.key);
    command.spawn().unwrap()
}

/// How often each message was done, by its number.
fn done(file: &Path) -> BTreeMap<u64, usize> {
    let mut done = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let number = line.split(' ').next().unwrap().parse().unwrap();
        *done.entry(number).or_default() += 1;
    }
    done
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("POST", path, Some(body));
    assert!(status < 300, "{path}: {status} {answer}");
    answer
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_200 {
        if is_so() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "another process has to get there")]
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{what} did not happen within a minute");
}

#[test]
fn a_thousand_messages_survive_a_killed_worker_and_a_killed_server() {
    let folder = tempfile::tempdir().unwrap();
    let (data, notes) = (folder.path().join("data"), folder.path().join("done"));
    let rates = [("PUNCTUAL_API__RATE_PER_SECOND", "0")];
    let server = Server::start_with(&data, &[], &rates);
    let address = server.address.clone();
    post(&server, "/v1/queues", &json!({"name": "work", "retry_config": {"max_attempts": 9}}));
    let message = |n: u64| json!({"payload": {"n": n}, "workspace": format!("w{}", n % 7)});
    let messages: Vec<Value> = (0..1_000).map(message).collect();
    post(&server, "/v1/queues/work/messages", &json!({ "messages": messages }));
    let mut first = worker(&server, "work", &notes, &[]);
    wait_for("the first messages", || done(&notes).len() > 200);
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = worker(&server, "work", &notes, &["--until-idle"]);
    wait_for("half of the messages", || done(&notes).len() > 500);
    // Leases are in the store: the worker goes on with the next process.
    server.kill();
    let server = Server::start_with(&data, &["--http", &address], &rates);
    assert!(second.wait().unwrap().success());
    let done = done(&notes);
    assert_eq!(done.len(), 1_000, "every message was done");
    let doubled = done.values().filter(|times| **times > 1).count();
    // Only what was at work in a moment of death can be done again.
    assert!(doubled <= 16, "{doubled} messages were done twice");
    let (_, queue) = server.call("GET", "/v1/queues/work", None);
    assert_eq!((&queue["ready"], &queue["leased"]), (&json!(0), &json!(0)), "{queue}");
}

#[test]
fn the_python_worker_does_what_handlers_say() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("done");
    let server = Server::start(&folder.path().join("data"), &[]);
    let retry = json!({"max_attempts": 3, "backoff_seconds": 0.1});
    post(&server, "/v1/queues", &json!({"name": "work", "retry_config": retry}));
    let payloads = [
        json!({"n": 1}),
        json!({"n": 2, "do": "retry"}),
        json!({"n": 3, "do": "fail"}),
        json!({"n": 4, "do": "raise"}),
        json!({"n": 5, "do": "block"}),
        json!({"n": 6, "action": "greet"}),
    ];
    let messages: Vec<Value> = payloads.iter().map(|it| json!({ "payload": it })).collect();
    let sent = post(&server, "/v1/queues/work/messages", &json!({ "messages": messages }));
    let mut worker = worker(&server, "work", &notes, &["--until-idle"]);
    assert!(worker.wait().unwrap().success());
    let shown = |n: usize| {
        let id = sent["messages"][n - 1]["id"].as_str().unwrap();
        server.call("GET", &format!("/v1/queues/work/messages/{id}"), None).1
    };
    for (n, status, attempts, reason) in [
        (1, "COMPLETED", 1, None),
        (2, "COMPLETED", 3, None),
        (3, "FAILED", 1, Some("NOT_RETRYABLE")),
        (4, "FAILED", 3, Some("RETRIES_EXHAUSTED")),
        // It took three leases, and kept its message.
        (5, "COMPLETED", 1, None),
        (6, "COMPLETED", 1, None),
    ] {
        let it = shown(n);
        assert_eq!((&it["status"], &it["attempts"]), (&json!(status), &json!(attempts)), "{it}");
        assert_eq!(it["reason"].as_str(), reason, "{it}");
    }
    assert_eq!(shown(6)["result"], "hello");
    assert_eq!(shown(4)["message"], "RuntimeError: broken");
}
