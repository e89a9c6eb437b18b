//! Queues with real processes: servers and workers are killed, and no message is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::rest::program;
use crate::serve::process::Server;

/// An SDK: what starts the worker of its tests, which notes in a file what it has done, and how it
/// names an error.
struct Sdk {
    program: fn() -> Command,
    error: &'static str,
}

const PYTHON: Sdk = Sdk {
    program: || with_script("python3", &["-B"], "sdk/python/tests/work.py"),
    error: "RuntimeError: broken",
};
const NODE: Sdk = Sdk {
    program: || with_script("node", &[], "sdk/typescript/tests/work.js"),
    error: "TypeError: broken",
};
const RUST: Sdk = Sdk { program: || program(rust_worker().to_str().unwrap()), error: "broken" };

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn with_script(interpreter: &str, options: &[&str], script: &str) -> Command {
    let mut command = program(interpreter);
    command.args(options).arg(root().join(script));
    command
}

/// The worker of the Rust SDK, which is built once: it is a workspace of its own.
fn rust_worker() -> &'static Path {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    BUILT.get_or_init(|| {
        let target = root().join("target/sdk-rust");
        let mut cargo = program(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--example", "work", "--manifest-path"]);
        cargo.arg(root().join("sdk/rust/Cargo.toml")).arg("--target-dir").arg(&target);
        assert!(cargo.status().unwrap().success(), "the Rust SDK does not build");
        target.join("debug/examples/work")
    })
}

fn worker(sdk: &Sdk, server: &Server, queue: &str, done: &Path, more: &[&str]) -> Child {
    command(sdk, server, queue, done, more).spawn().unwrap()
}

fn command(sdk: &Sdk, server: &Server, queue: &str, done: &Path, more: &[&str]) -> Command {
    let mut command = (sdk.program)();
    command.arg(queue).arg(done).args(more);
    command.env("PUNCTUAL_SERVER", format!("http://{}", server.address));
    command.env("PUNCTUAL_TOKEN", &server.key);
    command
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
    // Each SDK does a part, and is killed in the middle of its work.
    for (sdk, part) in [(PYTHON, 200), (RUST, 400)] {
        let mut killed = worker(&sdk, &server, "tasks", &notes, &[]);
        wait_for("the first messages", || done(&notes).len() > part);
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    let mut second = worker(&NODE, &server, "tasks", &notes, &["--until-idle"]);
    wait_for("half of the messages", || done(&notes).len() > 600);
    // Leases are in the store: the worker goes on with the next process.
    server.kill();
    let args: Vec<&str> = store.iter().copied().chain(["--http", &address]).collect();
    let server = Server::start_with(&data, &args, &rates);
    assert!(second.wait().unwrap().success());
    let done = done(&notes);
    assert_eq!(done.len(), 1_000, "every message was done");
    let doubled = done.values().filter(|times| **times > 1).count();
    // Only messages that were at work when a process was killed can be done again.
    assert!(doubled <= 24, "{doubled} messages were done twice");
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
fn the_python_sdk_conforms() {
    conforms(&PYTHON);
}

#[test]
fn the_typescript_sdk_conforms() {
    conforms(&NODE);
}

#[test]
fn the_rust_sdk_conforms() {
    conforms(&RUST);
}

/// Runs the conformance script of all SDKs.
fn conforms(sdk: &Sdk) {
    let script = std::fs::read_to_string(root().join("sdk/conformance.json")).unwrap();
    let script: Value = serde_json::from_str(&script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("done");
    let server = Server::start(&folder.path().join("data"), &[]);
    let mut queue = script["queue"].clone();
    queue["name"] = json!("tasks");
    post(&server, "/v1/queues", &queue);
    let cases = script["messages"].as_array().unwrap();
    let messages: Vec<Value> = cases.iter().map(|it| json!({"payload": it["payload"]})).collect();
    let sent = post(&server, "/v1/queues/tasks/messages", &json!({ "messages": messages }));
    let mut worker = command(sdk, &server, "tasks", &notes, &["--until-idle"]);
    worker.env("LEASE", script["lease"].to_string());
    assert!(worker.status().unwrap().success());
    for (case, sent) in cases.iter().zip(sent["messages"].as_array().unwrap()) {
        let (name, id) = (&case["name"], sent["id"].as_str().unwrap());
        let (_, it) = server.call("GET", &format!("/v1/queues/tasks/messages/{id}"), None);
        for field in ["status", "attempts", "reason", "result", "message"] {
            let expected = match &case[field] {
                Value::String(text) => json!(text.replace("{error}", sdk.error)),
                Value::Null => continue,
                value => value.clone(),
            };
            assert_eq!(it[field], expected, "{name}: {field} of {it}");
        }
        if let Some(output) = case["output"].as_str() {
            let (status, logs) =
                server.call("GET", &format!("/v1/executions/{id}/logs?attempt=1"), None);
            assert!(status == 200 && logs.to_string().contains(output.trim()), "{name}: {logs}");
        }
    }
}

#[test]
fn handlers_are_tried_without_a_server() {
    for mut command in [
        with_script("python3", &["-B"], "sdk/python/tests/without_server.py"),
        with_script("node", &[], "sdk/typescript/tests/without-server.js"),
    ] {
        let tried = command.output().unwrap();
        assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
    }
    let mut cargo = program(env!("CARGO"));
    cargo.args(["test", "--quiet", "--locked", "--test", "without_server", "--manifest-path"]);
    cargo.arg(root().join("sdk/rust/Cargo.toml"));
    cargo.arg("--target-dir").arg(root().join("target/sdk-rust"));
    assert!(cargo.status().unwrap().success());
}
