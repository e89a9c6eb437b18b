//! What was answered is there after a kill, every tick has one row, and a stop is graceful.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::process::Server;

/// How often the server is killed.
const KILLS: usize = 3;

/// How many jobs fire every second.
const JOBS: usize = 20;

/// Looks until it is there.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = look() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "between two looks at another process")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not happen");
}

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

#[test]
fn a_stop_lets_requests_and_work_finish() {
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
