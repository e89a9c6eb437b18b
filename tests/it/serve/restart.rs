//! What was answered is there after a kill, every tick has one row, and a stop is graceful.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use super::process::{Server, until};

/// How often the server is killed.
const KILLS: usize = 3;

/// How many jobs fire every second.
const JOBS: usize = 20;

/// Every row of a job: scheduled time to status, ranges with how many times they stand for.
fn ledger(server: &Server, job: &str) -> BTreeMap<String, (String, u64, String)> {
    let mut rows = BTreeMap::new();
    let mut path = format!("/v1/jobs/{job}/executions?limit=500");
    loop {
        let (status, page) = server.call("GET", &path, None);
        assert_eq!(status, 200, "{page}");
        for run in page["data"].as_array().unwrap() {
            let text = |field: &str| run[field].as_str().unwrap_or_default().to_owned();
            let until = run["scheduled_until"].as_str().unwrap_or_default().to_owned();
            let row = (text("status"), run["occurrences"].as_u64().unwrap_or(1), until);
            let twice = rows.insert(text("scheduled_time"), row);
            assert_eq!(twice, None, "two rows for one time: {run}");
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/jobs/{job}/executions?limit=500&cursor={cursor}"),
            None => return rows,
        }
    }
}

fn seconds(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

#[test]
fn nothing_is_lost_and_nothing_is_doubled_when_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data, &[]);
    let jobs: Vec<Value> = (0..JOBS)
        .map(|n| {
            json!({
                "name": format!("job-{n}"), "interval_seconds": 1, "catch_up": "ALL",
                "max_catch_up": 1000, "overlap": "ALLOW", "payload": {"type": "NOOP"},
            })
        })
        .collect();
    let (status, made) = server.call("POST", "/v1/jobs:bulk", Some(&Value::Array(jobs)));
    assert_eq!((status, made["created"].as_u64()), (200, Some(JOBS as u64)), "{made}");
    for round in 0..KILLS {
        let completed = |server: &Server| {
            let path = "/v1/jobs/job-0/executions?status=COMPLETED&limit=500";
            server.call("GET", path, None).1["data"].as_array().map_or(0, Vec::len)
        };
        let before = completed(&server);
        until(|| (completed(&server) >= before + 2).then_some(()));
        // What was answered must be there afterwards.
        let name = format!("made-before-kill-{round}");
        let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
        assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
        server.kill();
        server = Server::start(&data, &[]);
        assert_eq!(server.call("GET", &format!("/v1/jobs/{name}"), None).0, 200);
    }
    let mut last_completed = String::new();
    until(|| {
        let rows = ledger(&server, "job-0");
        let done = rows.iter().rev().find(|(_, row)| row.0 == "COMPLETED")?;
        last_completed.clone_from(done.0);
        let pending = rows
            .range(..last_completed.clone())
            .any(|(_, (state, ..))| ["PENDING", "QUEUED", "RUNNING"].contains(&state.as_str()));
        (!pending && rows.len() > 5).then_some(())
    });
    for n in 0..JOBS {
        let rows = ledger(&server, &format!("job-{n}"));
        let mut expected = seconds(rows.keys().next().unwrap());
        for (time, (state, count, until)) in &rows {
            assert_eq!(seconds(time), expected, "job-{n}: a second is missing or doubled");
            expected += *count as i64;
            if *count > 1 {
                assert_eq!(seconds(until), expected - 1, "job-{n} {state}");
            }
        }
    }
    server.terminate();
    assert_eq!(server.wait(), Some(0));
}

/// A job that calls this test, and the call when it comes.
fn call_from_job(server: &Server, listener: &TcpListener) -> (String, TcpStream) {
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let job = json!({"name": "caller", "job_type": "MANUAL", "payload": {"endpoint": endpoint}});
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (_, run) = server.call("POST", "/v1/jobs/caller/trigger", None);
    let (call, _) = listener.accept().unwrap();
    (run["execution_id"].as_str().unwrap().to_owned(), call)
}

const ALLOW: [(&str, &str); 1] = [("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1")];

#[test]
fn a_stop_waits_for_work_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &[], &ALLOW);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (run, mut call) = call_from_job(&server, &listener);
    server.terminate();
    server.line_with("stopping");
    call.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    assert_eq!(server.wait(), Some(0));
    let server = Server::start(&data, &[]);
    let (_, run) = server.call("GET", &format!("/v1/executions/{run}"), None);
    assert_eq!((&run["status"], &run["attempt_number"]), (&json!("COMPLETED"), &json!(1)), "{run}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["--shutdown-grace", "1h"], &ALLOW);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (run, _call) = call_from_job(&server, &listener);
    server.terminate();
    server.line_with("stopping");
    server.terminate();
    server.line_with("asked a second time");
    assert_eq!(server.wait(), Some(0));
    // Its node is gone without a word; the run is tried again when its lease has ended.
    let server = Server::start(&data, &[]);
    let (_, run) = server.call("GET", &format!("/v1/executions/{run}"), None);
    assert!(run.get("completed_at").is_none(), "{run}");
}

#[test]
fn a_server_with_nothing_to_do_stops_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--shutdown-grace", "5s"]);
    let (status, answer) = server.call("GET", "/readyz?verbose", None);
    assert_eq!((status, answer["status"].as_str()), (200, Some("ready")));
    server.terminate();
    server.line_with("stopping");
    server.line_with("\"stopped\"");
    assert_eq!(server.wait(), Some(0));
}
