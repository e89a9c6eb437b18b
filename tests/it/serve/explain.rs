//! EXPLAIN on the real binary and both stores: the cause is named, and all interfaces give the same
//! answer.

use serde_json::{Value, json};
use testbed::postgres::Setup;

use super::process::{Server, until};
use crate::cluster::member::create_database;

/// Commands may run, two at a time.
const SETTINGS: [(&str, &str); 5] = [
    ("PUNCTUAL_ENGINE__MAX_CONCURRENT_JOBS", "2"),
    ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
    ("PUNCTUAL_EXTERNAL__ENABLED", "true"),
    ("PUNCTUAL_EXTERNAL__ALLOW", "/bin/sh"),
    // The test does not depend on the sandbox features of this kernel.
    ("PUNCTUAL_EXTERNAL__SANDBOX", "best-effort"),
];

fn shell(script: &str) -> Value {
    json!({"type": "EXTERNAL", "command": "/bin/sh", "arguments": ["-c", script]})
}

/// Makes a job.
fn create(server: &Server, job: &Value) {
    let (status, made) = server.call("POST", "/v1/jobs", Some(job));
    assert_eq!(status, 201, "{made}");
}

fn manual(name: &str, payload: Value) -> Value {
    let retry = json!({"max_attempts": 1});
    json!({"name": name, "job_type": "MANUAL", "payload": payload, "retry_config": retry})
}

fn trigger(server: &Server, name: &str) -> String {
    let (status, run) = server.call("POST", &format!("/v1/jobs/{name}/trigger"), None);
    assert_eq!(status, 202, "{run}");
    run["execution_id"].as_str().unwrap().to_owned()
}

fn status(server: &Server, run: &str) -> String {
    let (_, shown) = server.call("GET", &format!("/v1/executions/{run}"), None);
    shown["status"].as_str().unwrap_or_default().to_owned()
}

fn explained(server: &Server, path: &str) -> Value {
    let (status, answer) = server.call("GET", path, None);
    assert_eq!(status, 200, "{path} {answer}");
    answer
}

fn of_run(server: &Server, run: &str) -> Value {
    explained(server, &format!("/v1/executions/{run}/explain"))
}

fn of_job(server: &Server, name: &str) -> Value {
    explained(server, &format!("/v1/jobs/{name}/explain"))
}

/// The texts of an answer: its message and all lines.
fn texts(answer: &Value) -> String {
    let lines = answer["lines"].as_array().into_iter().flatten();
    let lines = lines.map(|line| {
        format!(
            "{} {}",
            line["aspect"].as_str().unwrap_or_default(),
            line["text"].as_str().unwrap_or_default()
        )
    });
    let message = answer["message"].as_str().unwrap_or_default().to_owned();
    std::iter::once(message).chain(lines).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn has(answer: &Value, verdict: &str, parts: &[&str]) {
    assert_eq!(answer["verdict"], verdict, "{answer}");
    let text = texts(answer);
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

fn situations(server: &Server) {
    // A job that fails names its exit code, and a secret or a table that is missing.
    create(server, &manual("fails", shell("echo no route >&2; exit 5")));
    create(
        server,
        &manual("table", json!({"type": "SQL", "sql": "SELECT * FROM orders_of_nobody"})),
    );
    let fails = trigger(server, "fails");
    until(|| (status(server, &fails) == "FAILED").then_some(()));
    has(
        &of_run(server, &fails),
        "FAILED",
        &["exit code 5", "its only attempt failed", "requested by admin", "dead letter"],
    );
    has(&of_job(server, "fails"), "FAILING", &["1 dead letter", "exit code 5", "created at"]);
    let retried = server.call("POST", &format!("/v1/executions/{fails}/retry"), None).1;
    let retried = retried["execution_id"].as_str().unwrap().to_owned();
    until(|| (status(server, &retried) == "FAILED").then_some(()));
    has(&of_run(server, &retried), "FAILED", &["origin retry by admin of run"]);
    has(&of_run(server, &fails), "FAILED", &[&format!("it was retried by admin: run {retried}")]);

    // A change is shown with the value that it replaced, on every interface.
    server.call("PATCH", "/v1/jobs/fails", Some(&json!({"priority": 9})));
    has(
        &of_job(server, "fails"),
        "FAILING",
        &["; priority changed at", "by admin (was: 5), version 2"],
    );
    let sql = json!({"sql": "EXPLAIN JOB fails"});
    let (_, told) = server.call("POST", "/v1/sql", Some(&sql));
    assert!(told.to_string().contains("by admin (was: 5), version 2"), "{told}");

    // Slots: two runs are under way, the third waits for one and its explanation names that; later
    // it names the reason of the delay.
    create(server, &manual("long", shell("sleep 600")));
    let mut beside = manual("beside", shell("sleep 600"));
    beside["overlap"] = json!("ALLOW");
    create(server, &beside);
    create(server, &manual("quick", shell("true")));
    let long = trigger(server, "long");
    let other = trigger(server, "beside");
    let begun = |run: &str| {
        server.call("GET", &format!("/v1/executions/{run}"), None).1["started_at"].is_string()
    };
    until(|| (begun(&long) && begun(&other)).then_some(()));
    has(&of_run(server, &long), "RUNNING", &["runs on node", "attempt 1 of 1", "times out at"]);
    let quick = trigger(server, "quick");
    let waits = until(|| {
        let answer = of_run(server, &quick);
        texts(&answer).contains("2 of 2 busy").then_some(answer)
    });
    assert!(
        texts(&waits).contains("waits for a slot")
            || texts(&waits).contains("waits there for a slot"),
        "{waits}"
    );
    // A second run of a job that runs one at a time waits in line.
    let second = trigger(server, "long");
    let (_, cancelled) = server.call(
        "POST",
        &format!("/v1/executions/{other}/cancel"),
        Some(&json!({"reason": "too long"})),
    );
    assert!(cancelled["status"].is_string(), "{cancelled}");
    until(|| (status(server, &other) == "CANCELLED").then_some(()));
    has(&of_run(server, &other), "CANCELLED", &["cancelled by admin at", "(too long)"]);
    until(|| (status(server, &quick) == "COMPLETED").then_some(()));
    until(|| {
        texts(&of_run(server, &second))
            .contains("waits in line for earlier runs of the job")
            .then_some(())
    });
    has(
        &of_run(server, &second),
        "WAITING",
        &["place 1", &format!("run {long}"), "is RUNNING since"],
    );
    for run in [&second, &long] {
        server.call("POST", &format!("/v1/executions/{run}/cancel"), None);
        until(|| (status(server, run) == "CANCELLED").then_some(()));
    }

    // States, clock changes and times that were never due.
    let daily = json!({"name": "daily", "job_type": "CRON", "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "payload": {"type": "NOOP"}});
    create(server, &daily);
    has(
        &explained(server, "/v1/jobs/daily/explain?at=2100-03-28%2002:30"),
        "DST_GAP",
        &["2100-03-28T02:30:00 does not exist in Europe/Berlin", "GAP SKIP"],
    );
    has(
        &explained(server, "/v1/jobs/daily/explain?at=2100-03-27%2002:30"),
        "PLANNED",
        &["2100-03-27T02:30:00+01:00"],
    );
    has(
        &explained(server, "/v1/jobs/daily/explain?at=2100-03-27%2004:30"),
        "NOT_SCHEDULED",
        &["the nearest times are"],
    );
    has(
        &explained(server, "/v1/jobs/daily/explain?at=2001-03-27%2002:30"),
        "BEFORE_JOB",
        &["by admin"],
    );
    server.call("POST", "/v1/jobs/daily/pause", None);
    let paused = of_job(server, "daily");
    has(&paused, "PAUSED", &["paused since", "by admin", "CATCH_UP LAST"]);
    assert_eq!(paused["next_time"], Value::Null);
    has(
        &explained(server, "/v1/jobs/daily/explain?at=2100-03-27%2002:30"),
        "PAUSED",
        &["no run will start"],
    );
    let (wrong, _) = server.call("GET", "/v1/jobs/daily/explain?at=whenever", None);
    assert_eq!(wrong, 422);

    // A renamed and a deleted job are found by the name that they had.
    server.call("PATCH", "/v1/jobs/daily", Some(&json!({"name": "nightly"})));
    let renamed = of_job(server, "daily");
    assert_eq!(renamed["job_name"], "nightly");
    has(&renamed, "PAUSED", &["its name was daily until"]);
    let (gone, _) = server.call("DELETE", "/v1/jobs/nightly", None);
    assert!((200..300).contains(&gone));
    has(&of_job(server, "nightly"), "DELETED", &["deleted since", "by admin"]);
    has(
        &explained(server, "/v1/jobs/nightly/explain?at=2100-03-27%2002:30"),
        "DELETED",
        &["deleted at"],
    );
    let (none, _) = server.call("GET", "/v1/jobs/nothing/explain", None);
    assert_eq!(none, 404);

    // A job that waits for another one, and one that waits for a label.
    create(server, &manual("extract", json!({"type": "NOOP"})));
    create(
        server,
        &json!({"name": "load", "job_type": "INTERVAL", "interval_seconds": 3600, "payload": {"type": "NOOP"}, "depends_on": ["extract"]}),
    );
    create(
        server,
        &json!({"name": "placed", "job_type": "MANUAL", "payload": {"type": "NOOP"}, "run_on": {"zone": "eu"}}),
    );
    until(|| {
        texts(&of_job(server, "load")).contains("waits for extract to complete").then_some(())
    });
    has(&of_job(server, "load"), "NEW", &["it has never run", "gives up at"]);
    let placed = trigger(server, "placed");
    until(|| {
        texts(&of_run(server, &placed)).contains("a node with the labels zone=eu").then_some(())
    });

    // SQL has the same lines.
    let sql = json!({"sql": format!("EXPLAIN RUN '{fails}'; EXPLAIN JOB fails")});
    let (code, answer) = server.call("POST", "/v1/sql", Some(&sql));
    assert_eq!(code, 200, "{answer}");
    let over_rest = of_run(server, &fails);
    let rows = answer["results"][0]["rows"].as_array().unwrap();
    let lines = over_rest["lines"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len(), "{answer}");
    for (row, line) in rows.iter().zip(lines) {
        assert_eq!((&row[0], &row[2]), (&line["aspect"], &line["text"]));
        assert_eq!((&row[3], &row[4]), (&line["status"], &line["code"]));
    }
    let decided: Vec<&Value> = rows.iter().filter(|row| row[3] == "DECIDED").collect();
    assert_eq!(decided.len(), 1);
    assert_eq!(decided[0][4], "EXECUTION");
}

#[test]
fn causes_are_named_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    situations(&Server::start_with(&folder.path().join("data"), &[], &SETTINGS));
}

#[test]
fn causes_are_named_on_postgres() {
    let postgres = Setup::default().start();
    create_database(&postgres.url("postgres"), "explained");
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("data"), postgres.url("explained"));
    situations(&Server::start_with(&data, &["--store", &store], &SETTINGS));
}

/// A server that was killed: its run says when the lease ends, and the times of the outage say so.
#[test]
fn an_outage_is_named_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &[], &SETTINGS);
    let job = json!({"name": "often", "job_type": "INTERVAL", "interval_seconds": 1, "catch_up": "NONE", "payload": {"type": "NOOP"}});
    create(&server, &job);
    until(|| texts(&of_job(&server, "often")).contains("COMPLETED").then_some(()));
    server.kill();
    super::ledger::pass(std::time::Duration::from_secs(3));
    let server = Server::start_with(&data, &[], &SETTINGS);
    let answer = until(|| {
        let answer = of_job(&server, "often");
        texts(&answer)
            .contains("no server was running: the last heartbeat was at")
            .then_some(answer)
    });
    assert!(texts(&answer).contains("CATCH_UP NONE"), "{answer}");
}
