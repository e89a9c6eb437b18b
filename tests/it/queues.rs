//! Queues with real processes: servers and workers are killed, and no message is lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::rest::program;
use crate::serve::process::Server;

/// The SDKs: the program, its options, and a worker that notes in a file what it has done.
const PYTHON: (&str, &[&str], &str) = ("python3", &["-B"], "sdk/python/tests/work.py");
const NODE: (&str, &[&str], &str) = ("node", &[], "sdk/typescript/tests/work.js");

fn worker(
    (interpreter, options, script): (&str, &[&str], &str),
    server: &Server,
    queue: &str,
    done: &Path,
    more: &[&str],
) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut command: Command = program(interpreter);
    command.args(options).arg(script).arg(queue).arg(done).args(more);
    command.env("PUNCTUAL_SERVER", format!("http://{}", server.address));
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

/// The ids of all messages of a queue in a state.
fn ids_in(server: &Server, queue: &str, status: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/queues/{queue}/messages?status={status}&limit=500{cursor}");
        let (code, page) = server.call("GET", &path, None);
        assert_eq!(code, 200, "{page}");
        let items = page["data"].as_array().unwrap().iter();
        ids.extend(items.map(|it| it["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[test]
fn a_thousand_messages_survive_a_killed_worker_and_a_killed_server() {
    survive(&[]);
}

#[test]
fn a_thousand_messages_survive_on_postgres_too() {
    let postgres = testbed::postgres::Server::shared();
    crate::cluster::member::create_database(&postgres.url("postgres"), "queue_work");
    survive(&["--store", &postgres.url("queue_work")]);
}

fn survive(store: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (data, notes) = (folder.path().join("data"), folder.path().join("done"));
    let rates = [("PUNCTUAL_API__RATE_PER_SECOND", "0")];
    let server = Server::start_with(&data, store, &rates);
    let address = server.address.clone();
    post(&server, "/v1/queues", &json!({"name": "tasks", "retry_config": {"max_attempts": 9}}));
    let message = |n: u64| json!({"payload": {"n": n}, "workspace": format!("w{}", n % 7)});
    let messages: Vec<Value> = (0..1_000).map(message).collect();
    let sent = post(&server, "/v1/queues/tasks/messages", &json!({ "messages": messages }));
    let mut first = worker(PYTHON, &server, "tasks", &notes, &[]);
    wait_for("the first messages", || done(&notes).len() > 200);
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = worker(NODE, &server, "tasks", &notes, &["--until-idle"]);
    wait_for("half of the messages", || done(&notes).len() > 500);
    // Leases are in the store: the worker goes on with the next process.
    server.kill();
    let args: Vec<&str> = store.iter().copied().chain(["--http", &address]).collect();
    let server = Server::start_with(&data, &args, &rates);
    assert!(second.wait().unwrap().success());
    let done = done(&notes);
    assert_eq!(done.len(), 1_000, "every message was done");
    let doubled = done.values().filter(|times| **times > 1).count();
    // Only messages that were at work when a process was killed can be done again.
    assert!(doubled <= 16, "{doubled} messages were done twice");
    let (_, queue) = server.call("GET", "/v1/queues/tasks", None);
    assert_eq!((&queue["ready"], &queue["leased"]), (&json!(0), &json!(0)), "{queue}");
    // Each message that was sent ended once.
    let mut ended = ids_in(&server, "tasks", "COMPLETED");
    ended.sort();
    let sent = sent["messages"].as_array().unwrap().iter();
    let mut sent: Vec<String> = sent.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    sent.sort();
    assert_eq!(ended, sent);
}

/// The first message of a lease.
fn lease(server: &Server, body: &Value) -> Option<Value> {
    let leased = post(server, "/v1/queues/tasks/lease", body);
    leased["messages"].as_array().unwrap().first().cloned()
}

#[test]
fn a_lease_outlives_a_killed_server_and_is_acknowledged_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    post(&server, "/v1/queues", &json!({"name": "tasks"}));
    post(&server, "/v1/queues/tasks/messages", &json!({"payload": "kept"}));
    post(&server, "/v1/queues/tasks/messages", &json!({"payload": "lost"}));
    let kept = lease(&server, &json!({"lease_s": 300})).unwrap();
    let lost = lease(&server, &json!({"lease_s": 1})).unwrap();
    server.kill();
    let server = Server::start(&data, &[]);
    // The short lease ends: another worker gets the message, and the late report is refused.
    let again = lease(&server, &json!({"wait_s": 30})).unwrap();
    assert_eq!((&again["id"], &again["attempt"]), (&lost["id"], &json!(2)));
    let report = |it: &Value| json!({"messages": [{"id": it["id"], "fence": it["fence"]}]});
    let ack = |it: &Value| server.call("POST", "/v1/queues/tasks/ack", Some(&report(it)));
    let (status, answer) = ack(&lost);
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("STALE_FENCE")), "{answer}");
    assert_eq!(ack(&again).0, 200);
    // The long lease goes on with the next process.
    assert_eq!(ack(&kept).0, 200);
    assert_eq!(ids_in(&server, "tasks", "COMPLETED").len(), 2);
    assert_eq!(lease(&server, &json!({"wait_s": 1})), None);
}

#[test]
fn the_python_worker_does_what_handlers_say() {
    handlers_decide(PYTHON, "RuntimeError: broken");
}

#[test]
fn the_typescript_worker_does_what_handlers_say() {
    handlers_decide(NODE, "TypeError: broken");
}

fn handlers_decide(sdk: (&str, &[&str], &str), error: &str) {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("done");
    let server = Server::start(&folder.path().join("data"), &[]);
    let retry = json!({"max_attempts": 3, "backoff_seconds": 0.1});
    post(&server, "/v1/queues", &json!({"name": "tasks", "retry_config": retry}));
    let payloads = [
        json!({"n": 1}),
        json!({"n": 2, "do": "retry"}),
        json!({"n": 3, "do": "fail"}),
        json!({"n": 4, "do": "raise"}),
        json!({"n": 5, "do": "block"}),
        json!({"n": 6, "action": "greet"}),
    ];
    let messages: Vec<Value> = payloads.iter().map(|it| json!({ "payload": it })).collect();
    let sent = post(&server, "/v1/queues/tasks/messages", &json!({ "messages": messages }));
    let mut worker = worker(sdk, &server, "tasks", &notes, &["--until-idle"]);
    assert!(worker.wait().unwrap().success());
    let shown = |n: usize| {
        let id = sent["messages"][n - 1]["id"].as_str().unwrap();
        server.call("GET", &format!("/v1/queues/tasks/messages/{id}"), None).1
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
    assert_eq!(shown(4)["message"], error);
}
