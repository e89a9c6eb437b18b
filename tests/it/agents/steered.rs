//! Commands to remote agents: cancel a run, drain, stop.

use serde_json::json;

use super::{LONG, Ledger, attempts, job, joined, serve, status, trigger, wait_for, wait_for_node};
use crate::serve::process::{Server, until};

#[test]
fn runs_are_cancelled_timed_out_and_held_back_while_the_agent_is_drained() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), LONG, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let agent = joined(folder.path(), &server, &url, "far");
    job(&server, &ledger, "calls", &json!({}));
    let once = json!({"timeout_seconds": 1, "retry_config": {"max_attempts": 1}});
    job(&server, &ledger, "short", &once);

    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    let (code, said) = server.call("POST", &format!("/v1/executions/{run}/cancel"), None);
    assert!(code < 300, "{said}");
    wait_for(&server, &run, "CANCELLED");
    let run = trigger(&server, "short");
    wait_for(&server, &run, "TIMEOUT");
    assert_eq!(attempts(&server, &run).len(), 1);

    let (code, said) = server.call("POST", "/v1/nodes/far/drain", None);
    assert_eq!(code, 200, "{said}");
    // It learns of it with a heartbeat that comes after.
    let drained_at = said["last_heartbeat"].clone();
    until(|| {
        (wait_for_node(&server, "far", "DRAINING")["last_heartbeat"] != drained_at).then_some(())
    });
    let run = trigger(&server, "calls");
    let (_, why) = server.call("GET", "/v1/nodes", None);
    assert_ne!(status(&server, &run), "RUNNING", "{why}");
    let (code, said) = server.call("POST", "/v1/nodes/far/resume", None);
    assert_eq!(code, 200, "{said}");
    ledger.wait(&run, 1);

    // Asked to stop, it lets what runs end.
    agent.signal("-TERM");
    agent.line_with("running work may finish");
    ledger.answer(&run, 0, "");
    let (code, said) = agent.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(status(&server, &run), "COMPLETED");
    let (_, nodes) = server.call("GET", "/v1/nodes?gone=true", None);
    let far = nodes["data"].as_array().unwrap().iter().find(|node| node["name"] == "far");
    assert_eq!(far.unwrap()["status"], "GONE", "{nodes}");
}

/// The server has one slot and the agent many, and the database is a file of the server.
#[test]
fn sql_of_the_servers_own_database_stays_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let one = [("PUNCTUAL_ENGINE__MAX_CONCURRENT_JOBS", "1")];
    let server = Server::start_with(&folder.path().join("server"), &[], &one);
    let url = format!("http://{}", server.address);
    let _agent = joined(folder.path(), &server, &url, "far");
    let query = json!({
        "name": "query", "job_type": "MANUAL", "overlap": "ALLOW",
        "payload": {"type": "SQL", "sql": "SELECT 1"},
    });
    let (status, made) = server.call("POST", "/v1/jobs", Some(&query));
    assert_eq!(status, 201, "{made}");
    let runs: Vec<String> = (0..12).map(|_| trigger(&server, "query")).collect();
    for run in &runs {
        wait_for(&server, run, "COMPLETED");
        let ends: Vec<String> = attempts(&server, run).into_iter().map(|it| it.0).collect();
        assert_eq!(ends, ["COMPLETED"], "{run}");
    }
}
