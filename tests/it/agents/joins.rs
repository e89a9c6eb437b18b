//! Joining, working, leaving and coming back.

use serde_json::json;

use super::{
    Agent, LONG, Ledger, job, joined, kept, node, serve, token, trigger, wait_for, wait_for_node,
};
use crate::serve::process::until;

#[test]
fn an_agent_joins_once_works_far_away_and_comes_back_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), LONG, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let ticket = token(&server, &json!({"ttl_seconds": 600, "labels": {"place": "far"}}));
    let data = folder.path().join("far");
    let agent = Agent::start(&data, &url, &["--join", &ticket, "--name", "far"]);

    let seen = wait_for_node(&server, "far", "ACTIVE");
    assert_eq!(seen["kind"], "AGENT", "{seen}");
    assert_eq!(seen["roles"], json!(["AGENT"]));
    assert_eq!(seen["labels"], json!({"place": "far"}));
    assert_eq!(seen["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(node(&server, "server").unwrap()["kind"], "SERVER");

    // It gets the secret of its run, and its output is read at the server.
    let (status, said) =
        server.call("PUT", "/v1/secrets/FAR", Some(&json!({"value": "s3cr3t-f4r"})));
    assert!(status < 300, "{said}");
    let payload = json!({"endpoint": ledger.url(), "headers": {"X-Token": "${secrets.FAR}"}});
    job(&server, &ledger, "calls", &json!({"payload": payload}));
    let run = trigger(&server, "calls");
    let effects = ledger.wait(&run, 1);
    assert_eq!(effects[0].token, "s3cr3t-f4r");
    ledger.answer(&run, 0, "told to s3cr3t-f4r from far away");
    wait_for(&server, &run, "COMPLETED");
    let (status, logs) = server.call("GET", &format!("/v1/executions/{run}/logs"), None);
    let logs = logs.as_str().unwrap_or_default().to_owned();
    assert_eq!(status, 200, "{logs}");
    assert!(logs.contains("from far away") && !logs.contains("s3cr3t-f4r"), "{logs}");
    let (_, shown) = server.call("GET", &format!("/v1/executions/{run}/attempts"), None);
    assert_eq!(shown["data"][0]["worker_id"], seen["worker_id"], "{shown}");
    until(|| (kept(&data) == 0).then_some(()));

    // A token is good for one.
    let thief = Agent::launch(&folder.path().join("thief"), &url, &["--join", &ticket]);
    let (code, said) = thief.wait();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("was used"), "{said}");
    assert!(!folder.path().join("thief/agent.key").exists());

    // It leaves in good order, and comes back with its own key.
    agent.signal("-TERM");
    let (code, said) = agent.wait();
    assert_eq!(code, Some(0), "{said}");
    until(|| node(&server, "far").is_none().then_some(()));
    let _again = Agent::start(&data, &url, &[]);
    let back = wait_for_node(&server, "far", "ACTIVE");
    assert_ne!(back["worker_id"], seen["worker_id"]);
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    ledger.answer(&run, 0, "");
    wait_for(&server, &run, "COMPLETED");

    // The contents of the store do not authenticate a client.
    let mut kept = Vec::new();
    for file in std::fs::read_dir(folder.path().join("server")).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("punctual.db")) {
            kept.extend(std::fs::read(path).unwrap());
        }
    }
    let key = std::fs::read_to_string(data.join("agent.key")).unwrap();
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    for secret in [&ticket, key["key"].as_str().unwrap()] {
        let secret = secret.split('_').nth(2).unwrap().as_bytes();
        assert!(!kept.windows(secret.len()).any(|bytes| bytes == secret));
    }
}

#[test]
fn an_agent_whose_key_was_taken_away_ends_and_its_run_goes_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), super::SHORT, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let first = joined(folder.path(), &server, &url, "first");
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);

    let (status, said) = server.call("DELETE", "/v1/nodes/first", None);
    assert_eq!(status, 204, "{said}");
    let (code, said) = first.wait();
    assert_eq!(code, Some(5), "{said}");
    let _second = joined(folder.path(), &server, &url, "second");
    ledger.wait(&run, 2);
    ledger.answer(&run, 1, "");
    wait_for(&server, &run, "COMPLETED");
    let ends: Vec<String> = super::attempts(&server, &run).into_iter().map(|it| it.0).collect();
    assert_eq!(ends, ["LOST", "COMPLETED"]);
    // It is in the cluster's audit who did what.
    let (status, audit) = server.call("GET", "/v1/audit?scope=cluster&limit=200", None);
    assert_eq!(status, 200, "{audit}");
    let rows: Vec<String> =
        audit["data"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let is_told =
        |words: [&str; 3]| rows.iter().any(|row| words.iter().all(|word| row.contains(word)));
    for words in [
        ["JOIN_TOKEN", "DONE", "admin"],
        ["AGENT", "DONE", "agent first"],
        ["AGENT", "DELETED", "admin"],
    ] {
        assert!(is_told(words), "{words:?} in {rows:#?}");
    }
}

/// The data folder of an agent was copied, with its key.
#[test]
fn of_two_agents_with_one_key_the_earlier_one_ends_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), super::SHORT, &[]);
    let url = format!("http://{}", server.address);
    let ledger = Ledger::open();
    let first = joined(folder.path(), &server, &url, "first");
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let key = folder.path().join("first").join("agent.key");
    std::fs::copy(key, copy.join("agent.key")).unwrap();
    let _second = Agent::start(&copy, &url, &[]);
    let (code, said) = first.wait();
    assert_eq!(code, Some(4), "{said}");
    for words in [
        "another process uses the key of this agent",
        "has the key of the agent \"first\", too",
        "remove its data folder and join with a new token",
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    // The later one works.
    job(&server, &ledger, "calls", &json!({}));
    let run = trigger(&server, "calls");
    ledger.wait(&run, 1);
    ledger.answer(&run, 0, "");
    wait_for(&server, &run, "COMPLETED");
}

#[test]
fn a_server_elsewhere_is_not_spoken_to_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("far");
    let agent = Agent::launch(&data, "http://192.0.2.1:8630", &["--join", "jt_x"]);
    let (code, said) = agent.wait();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not https") && said.contains("--insecure"), "{said}");
    assert!(!data.exists(), "nothing was made");
}

#[test]
fn an_agent_speaks_tls_with_a_server_that_it_can_trust() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("server");
    let ticket = token(&serve(&data, LONG, &[]), &json!({}));
    let _certificate = crate::serve::tls::certificate(folder.path());
    let args = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--http", "0.0.0.0:0"];
    let server = serve(&data, LONG, &args);
    let port = server.address.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let far = folder.path().join("far");
    // The certificate is not trusted, so the agent does not send the token.
    let wary = Agent::launch(&far, &url, &["--join", &ticket, "--name", "far"]);
    wary.line_with("no server reachable");
    wary.kill();
    let vouched = folder.path().join("cert.pem");
    let ca = ["--join", &ticket, "--name", "far", "--ca", vouched.to_str().unwrap()];
    let agent = Agent::start(&far, &url, &ca);
    agent.signal("-TERM");
    let (code, said) = agent.wait();
    assert_eq!(code, Some(0), "{said}");
}

/// A slot that an agent's run has left is filled at once, also while slots of the other kind have
/// been free all the time.
#[test]
fn a_slot_that_is_free_again_is_filled_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("server"), LONG, &[]);
    let ticket = token(&server, &json!({"labels": {"place": "far"}}));
    let url = format!("http://{}", server.address);
    let args = ["--join", &ticket, "--name", "far", "--max-concurrent-jobs", "1"];
    let _agent = Agent::start(&folder.path().join("far"), &url, &args);
    let seen = wait_for_node(&server, "far", "ACTIVE");
    assert_eq!((&seen["capacity"], &seen["http_capacity"]), (&json!(1), &json!(4096)), "{seen}");
    let noop = json!({
        "name": "short", "job_type": "MANUAL", "run_on": {"place": "far"}, "overlap": "ALLOW",
        "payload": {"type": "NOOP"},
    });
    let (status, made) = server.call("POST", "/v1/jobs", Some(&noop));
    assert_eq!(status, 201, "{made}");
    // If each of them waited for the end of a poll, all together would take longer than a test.
    let runs: Vec<String> = (0..12).map(|_| trigger(&server, "short")).collect();
    until(|| runs.iter().all(|run| super::status(&server, run) == "COMPLETED").then_some(()));
}
