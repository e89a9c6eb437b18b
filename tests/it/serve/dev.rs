//! A server for looking around has something to show, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::process::{Server, key, until};
use crate::binary::punctual;

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The newest run of a job with this status, when there is one.
fn run_of(server: &Server, job: &str, status: &str) -> Value {
    until(|| {
        let path = format!("/v1/jobs/{job}/executions?status={status}");
        let (code, page) = server.call("GET", &path, None);
        assert_eq!(code, 200, "{page}");
        page["data"].as_array()?.first().cloned()
    })
}

#[test]
fn the_samples_end_in_every_way_and_the_folder_goes() {
    let folder = tempfile::tempdir().unwrap();
    // Settings of others do not count.
    std::fs::write(folder.path().join("punctual.toml"), "http = \"nowhere\"\n").unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = punctual(["dev"]);
    command
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .env("PUNCTUAL_DATA", folder.path().join("elsewhere"));
    let mut server = Server::of(command);
    let made = entries(&temporary);
    assert_eq!(made.len(), 1, "{made:?}");
    server.key = key(&made[0].join("data"));

    let (_, jobs) = server.call("GET", "/v1/jobs?tag=sample", None);
    for kind in ["CRON", "INTERVAL", "ONE_TIME", "DEPENDENT"] {
        let found = jobs["data"].as_array().unwrap().iter().any(|job| job["job_type"] == kind);
        assert!(found, "no {kind} in {jobs}");
    }
    for job in ["heartbeat", "once", "a-little-later", "load", "slow-endpoint"] {
        run_of(&server, job, "COMPLETED");
    }
    let failed = run_of(&server, "flaky-endpoint", "FAILED");
    assert_eq!(failed["attempt_number"], json!(3), "{failed}");
    let skipped = run_of(&server, "slow-endpoint", "SKIPPED");
    assert_eq!(skipped["reason"], json!("OVERLAP"), "{skipped}");
    // Each of these can be explained at once.
    for (job, cause) in [
        ("flaky-endpoint", "HTTP status 500"),
        ("slow-endpoint", "an earlier run had not ended (OVERLAP SKIP)"),
        ("late-report", "late: waited for run"),
        ("waiting-release", "waits for approval to complete"),
    ] {
        until(|| {
            let (_, told) = server.call("GET", &format!("/v1/jobs/{job}/explain"), None);
            told.to_string().contains(cause).then_some(())
        });
    }
    // The request of the cron job need not wait for the minute to show that it works.
    server.call("POST", "/v1/jobs/health-check/trigger", None);
    run_of(&server, "health-check", "COMPLETED");
    server.call("POST", "/v1/jobs/letters-feed/trigger", None);
    run_of(&server, "letters-feed", "COMPLETED");
    let (_, queue) = server.call("GET", "/v1/queues/letters", None);
    assert!(queue["ready"].as_u64() >= Some(6), "{queue}");
    server.call("POST", "/v1/jobs/snapshot/trigger", None);
    run_of(&server, "snapshot", "COMPLETED");
    // A minute may have passed: then the schedule has made another one.
    assert!((1..=3).contains(&entries(&made[0].join("backups")).len()));
    // The workflow has steps in every state.
    until(|| {
        let (_, runs) = server.call("GET", "/v1/dags/nightly-pipeline/runs", None);
        let id = runs["data"][0]["dag_run_id"].as_str()?.to_owned();
        let (_, run) = server.call("GET", &format!("/v1/dag-runs/{id}/columns"), None);
        (run["statuses"] == json!("CCCCFSSRP")).then_some(())
    });
    // The sample of a command is there where this machine has walls for it.
    let (code, _) = server.call("GET", "/v1/jobs/machine", None);
    if code == 200 {
        run_of(&server, "machine", "COMPLETED");
    }

    server.terminate();
    assert_eq!(server.wait(), Some(0));
    assert_eq!(entries(&temporary), Vec::<PathBuf>::new());
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn it_is_for_this_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let output = punctual(["dev", "--http", "0.0.0.0:0"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--http") && text.contains("punctual serve"), "{text}");
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
}
