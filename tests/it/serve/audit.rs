//! The audit of a real server: every event is recorded, and tampering with the file is detected.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::process::{Server, until};
use crate::binary::{Ended, run};

fn punctual(data: &Path, args: &[&str]) -> Ended {
    let args: Vec<&str> = args.iter().copied().chain(["--data", data.to_str().unwrap()]).collect();
    run(args, b"a value of a secret")
}

/// The actor who creates the first user of a new server.
const BOOTSTRAP_ADMIN: &str = "punctual";

/// The chain of the tenant; the cluster has one of its own.
const MINE: &str = "tenant_id = x'00000000000000000000000000000001'";

/// All events, newest first, when so many have come since the founding and everything is sealed.
fn sealed_events(server: &Server, count: usize) -> Vec<Value> {
    until(|| {
        let (status, page) = server.call("GET", "/v1/audit?limit=500", None);
        assert_eq!(status, 200, "{page}");
        let events = page["data"].as_array().unwrap();
        let ours = events.iter().filter(|event| event["actor"] != BOOTSTRAP_ADMIN).count();
        let done = ours >= count && events.iter().all(|event| !event["number"].is_null());
        done.then(|| events.clone())
    })
}

#[test]
fn what_was_done_is_listed_and_a_touched_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let job = json!({
        "name": "job", "job_type": "MANUAL", "payload": {"type": "NOOP"},
        "retry_config": {"max_attempts": 1},
    });
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    for _ in 0..3 {
        assert_eq!(server.call("POST", "/v1/jobs/job/trigger", None).0, 202);
    }
    assert_eq!(punctual(&data, &["secret", "set", "KEY"]).code, Some(0));
    assert_eq!(server.call("POST", "/v1/jobs/job/pause", None).0, 200);
    let events = sealed_events(&server, 6);
    let count = |kind: &str| events.iter().filter(|event| event["event_type"] == kind).count();
    let counts = ["JOB_CREATED", "JOB_MODIFIED", "JOB_EXECUTED", "SECRET_CHANGED"].map(count);
    assert_eq!(counts, [1, 1, 3, 1], "{events:#?}");
    for event in events.iter().filter(|event| event["actor"] != BOOTSTRAP_ADMIN) {
        let actor = if event["event_type"] == "JOB_EXECUTED" { "" } else { "admin" };
        assert_eq!(event["actor"], actor, "{event}");
    }
    // Page after page, each once.
    let list =
        punctual(&data, &["audit", "list", "--type", "job_executed", "--job", "job", "--json"]);
    let listed: Value = serde_json::from_str(&list.stdout).unwrap_or_else(|_| panic!("{list:?}"));
    assert_eq!(listed.as_array().unwrap().len(), 3, "{list:?}");
    let mut path = "/v1/audit?limit=1".to_owned();
    let mut paged = Vec::new();
    loop {
        let (_, page) = server.call("GET", &path, None);
        paged.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/audit?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(paged, events);

    let good = punctual(&data, &["audit", "verify", "--json"]);
    assert_eq!(good.code, Some(0), "{good:?}");
    let found: Value = serde_json::from_str(&good.stdout).unwrap();
    let head = head_of(&found);
    server.terminate();
    assert_eq!(server.wait(), Some(0));

    // Each field of each row, the order, the end: every change is found and named.
    let file = data.join("punctual.db");
    let numbers = found["head"].as_u64().unwrap();
    assert!(numbers >= 4, "{found}");
    let mut touches: Vec<(String, u64)> = [
        "actor = actor || 'x'",
        "kind = 'JOB_DELETED'",
        "at = at + 1",
        "tenant_id = x'00000000000000000000000000000009'",
        "job_id = x'00000000000000000000000000000009'",
        "run_id = x'00000000000000000000000000000009'",
        "node_id = x'00000000000000000000000000000009'",
        "outcome = outcome || 'x'",
        "details = details || ' '",
        "runs = CAST(runs || x'00' AS BLOB)",
        "hash = zeroblob(32)",
        // These cannot even be read.
        "at = 9223372036854775807",
        "run_id = x'00'",
    ]
    .iter()
    .map(|change| (format!("UPDATE audit SET {change} WHERE number = 2 AND {MINE}"), 2))
    .collect();
    touches.push((format!("DELETE FROM audit WHERE number = 3 AND {MINE}"), 3));
    touches.push((format!("DELETE FROM audit WHERE number = {numbers} AND {MINE}"), numbers));
    touches.push((
        format!(
            "UPDATE audit SET number = -number WHERE number IN (1, 2) AND {MINE};
             UPDATE audit SET number = 3 + number WHERE number IN (-1, -2) AND {MINE}"
        ),
        1,
    ));
    // Cut off at the end, with a head that fits: only who remembers the old head can tell.
    let cut = format!(
        "DELETE FROM audit WHERE number = {numbers} AND {MINE};
         UPDATE audit_chains SET head_number = {numbers} - 1, head_hash = (
             SELECT hash FROM audit a WHERE a.tenant_id = audit_chains.tenant_id AND number = {numbers} - 1
         ) WHERE head_number = {numbers} AND {MINE}"
    );
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    Connection::open(&file).unwrap().query_row(checkpoint, [], |_| Ok(())).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for (touch, number) in touches {
        Connection::open(&file).unwrap().execute_batch(&touch).unwrap();
        let server = Server::start(&data, &[]);
        let bad = punctual(&data, &["audit", "verify"]);
        assert_eq!(bad.code, Some(1), "{touch}: {bad:?}");
        assert!(bad.stderr.contains(&format!("row {number}:")), "{touch}: {bad:?}");
        server.kill();
        restore(&data, &whole);
    }
    Connection::open(&file).unwrap().execute_batch(&cut).unwrap();
    let server = Server::start(&data, &[]);
    assert_eq!(punctual(&data, &["audit", "verify"]).code, Some(0));
    let bad = punctual(&data, &["audit", "verify", "--head", &head]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.stderr.contains(&format!("row {numbers}:")), "{bad:?}");
    server.kill();
    restore(&data, &whole);
    // Everything is deleted, and the anchor claims that it was old.
    let wipe = format!(
        "UPDATE audit_chains SET anchor_number = head_number, anchor_hash = head_hash,
             anchor_at = OLD WHERE {MINE};
         DELETE FROM audit WHERE {MINE}"
    );
    // The beginning is deleted, and the anchor claims that it was old: the row behind it is not.
    let forged = format!(
        "UPDATE audit_chains SET anchor_number = 3, anchor_at = 1,
             anchor_hash = (SELECT hash FROM audit WHERE number = 3 AND {MINE}) WHERE {MINE};
         DELETE FROM audit WHERE number <= 3 AND {MINE}"
    );
    Connection::open(&file).unwrap().execute_batch(&forged).unwrap();
    let server = Server::start(&data, &[]);
    for known in ["", "all"] {
        wiped(&data, &head, known, "rows 1 to 3: removed");
    }
    server.kill();
    restore(&data, &whole);
    for (old, known, lost) in WIPED {
        let whole_chain = wipe.replace("OLD", old);
        Connection::open(&file).unwrap().execute_batch(&whole_chain).unwrap();
        let server = Server::start(&data, &[]);
        wiped(&data, &head, known, &lost.replace("HEAD", &numbers.to_string()));
        server.kill();
        restore(&data, &whole);
    }
    let server = Server::start(&data, &[]);
    assert_eq!(punctual(&data, &["audit", "verify", "--head", &head]).code, Some(0));
    // The body is read as well.
    for (said, valid) in [(&head, true), (&format!("{numbers}:{}", "0".repeat(64)), false)] {
        let (status, found) = server.call("POST", "/v1/audit:verify", Some(&json!({"head": said})));
        assert_eq!((status, &found["valid"]), (200, &json!(valid)), "{found}");
    }
    let unread = json!({"heads": head});
    assert_eq!(server.call("POST", "/v1/audit:verify", Some(&unread)).0, 422);
    server.terminate();
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn heads_are_in_the_log_and_can_be_verified() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let environment = [("PUNCTUAL_ENGINE__AUDIT_HEAD_EVERY", "1s")];
    let server = Server::start_with(&data, &["--log-format", "json"], &environment);
    let mine = "00000000-0000-0000-0000-000000000001";
    let head = || loop {
        let line: Value = serde_json::from_str(&server.line_with("audit head")).unwrap();
        if line["tenant"] == mine {
            return line["head"].as_str().unwrap().to_owned();
        }
    };
    let first = head();
    let job = json!({"name": "job", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
    // Only what has changed is written again.
    let second = head();
    assert_ne!(first, second);
    for head in [&first, &second] {
        let good = punctual(&data, &["audit", "verify", "--head", head]);
        assert_eq!(good.code, Some(0), "{head}: {good:?}");
    }
}

/// The file as it was.
fn restore(data: &Path, whole: &[u8]) {
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(data.join(format!("punctual.db{end}")));
    }
    std::fs::write(data.join("punctual.db"), whole).unwrap();
}

/// Statements for a database, one after the other.
fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        connection.abort();
    });
}

#[test]
fn a_touched_row_is_named_on_postgres_too() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let postgres = testbed::postgres::Server::shared();
    execute(&postgres.url("postgres"), "CREATE DATABASE touched");
    let url = postgres.url("touched");
    let server = Server::start(&data, &["--store", &url]);
    let job = json!({"name": "job", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
    for _ in 0..3 {
        assert_eq!(server.call("POST", "/v1/jobs/job/trigger", None).0, 202);
    }
    assert_eq!(punctual(&data, &["secret", "set", "KEY"]).code, Some(0));
    assert_eq!(server.call("POST", "/v1/jobs/job/pause", None).0, 200);
    sealed_events(&server, 6);
    let good = punctual(&data, &["audit", "verify", "--json"]);
    assert_eq!(good.code, Some(0), "{good:?}");
    let found: Value = serde_json::from_str(&good.stdout).unwrap();
    let numbers = found["head"].as_u64().unwrap();
    assert!(numbers >= 4, "{found}");
    let head = head_of(&found);
    execute(
        &url,
        "CREATE TABLE rows_as_they_were AS TABLE punctual.audit;
         CREATE TABLE chains_as_they_were AS TABLE punctual.audit_chains",
    );
    let restore = "TRUNCATE punctual.audit, punctual.audit_chains;
         INSERT INTO punctual.audit OVERRIDING SYSTEM VALUE SELECT * FROM rows_as_they_were;
         INSERT INTO punctual.audit_chains SELECT * FROM chains_as_they_were";
    // The chain of the tenant whose rows are touched, not that of the cluster.
    let tenant = "(SELECT tenant_id FROM punctual.audit WHERE kind = 'JOB_CREATED')";
    let of = |number: u64| format!("tenant_id = {tenant} AND number = {number}");
    let nine = "'00000000-0000-0000-0000-000000000009'";
    let mut touches: Vec<(String, u64)> = [
        "actor = actor || 'x'".to_owned(),
        "kind = 'JOB_DELETED'".to_owned(),
        "at = at + 1".to_owned(),
        format!("tenant_id = {nine}"),
        format!("job_id = {nine}"),
        format!("run_id = {nine}"),
        format!("node_id = {nine}"),
        "outcome = outcome || 'x'".to_owned(),
        "details = details || ' '".to_owned(),
        "runs = runs || '\\x00'::bytea".to_owned(),
        "hash = decode(repeat('00', 32), 'hex')".to_owned(),
    ]
    .iter()
    .map(|change| (format!("UPDATE punctual.audit SET {change} WHERE {}", of(2)), 2))
    .collect();
    touches.push((format!("DELETE FROM punctual.audit WHERE {}", of(3)), 3));
    touches.push((format!("DELETE FROM punctual.audit WHERE {}", of(numbers)), numbers));
    touches.push((
        format!(
            "UPDATE punctual.audit SET number = -number WHERE tenant_id = {tenant} AND number < 3;
             UPDATE punctual.audit SET number = 3 + number WHERE tenant_id = {tenant} AND number < 0"
        ),
        1,
    ));
    for (touch, number) in touches {
        execute(&url, &touch);
        let bad = punctual(&data, &["audit", "verify"]);
        assert_eq!(bad.code, Some(1), "{touch}: {bad:?}");
        assert!(bad.stderr.contains(&format!("row {number}:")), "{touch}: {bad:?}");
        execute(&url, restore);
    }
    // Cut off at the end, with a head that fits: only who remembers the old head can tell.
    let last = numbers - 1;
    let cut = format!(
        "UPDATE punctual.audit_chains SET head_number = {last},
             head_hash = (SELECT hash FROM punctual.audit WHERE {})
         WHERE tenant_id = {tenant};
         DELETE FROM punctual.audit WHERE {}",
        of(last),
        of(numbers)
    );
    execute(&url, &cut);
    assert_eq!(punctual(&data, &["audit", "verify"]).code, Some(0));
    let bad = punctual(&data, &["audit", "verify", "--head", &head]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.stderr.contains(&format!("row {numbers}:")), "{bad:?}");
    execute(&url, restore);
    let forged = format!(
        "UPDATE punctual.audit_chains SET anchor_number = 3, anchor_at = 1,
             anchor_hash = (SELECT hash FROM punctual.audit WHERE {})
         WHERE tenant_id = {tenant};
         DELETE FROM punctual.audit WHERE tenant_id = {tenant} AND number <= 3",
        of(3)
    );
    execute(&url, &forged);
    for known in ["", "all"] {
        wiped(&data, &head, known, "rows 1 to 3: removed");
    }
    execute(&url, restore);
    for (old, known, lost) in WIPED {
        let wipe = format!(
            "UPDATE punctual.audit_chains SET anchor_number = head_number, anchor_hash = head_hash,
                 anchor_at = {old} WHERE tenant_id = {tenant};
             DELETE FROM punctual.audit WHERE tenant_id = {tenant}"
        );
        execute(&url, &wipe);
        wiped(&data, &head, known, &lost.replace("HEAD", &numbers.to_string()));
        execute(&url, restore);
    }
    assert_eq!(punctual(&data, &["audit", "verify", "--head", &head]).code, Some(0));
}

/// The end of a chain as the command line prints it.
fn head_of(found: &Value) -> String {
    let word = |field: &str| found[field].as_str().unwrap().to_owned();
    format!("{}:{}@{}", found["head"], word("head_hash"), word("head_at"))
}

/// A chain is wiped, and its anchor is moved to its head: the time that the anchor has, what of the
/// head was kept, and what is said to be lost.
const WIPED: [(&str, &str, &str); 5] = [
    ("NULL", "", "rows 1 to HEAD: removed"),
    ("1", "", "rows 1 to HEAD: removed"),
    ("9000000000000000", "", "rows 1 to HEAD: removed"),
    ("1", "number and hash", "row HEAD: removed"),
    ("1", "all", "row HEAD: removed, although younger than the audit retention"),
];

fn wiped(data: &Path, head: &str, known: &str, lost: &str) {
    let bare = head.split('@').next().unwrap();
    let more: &[&str] = match known {
        "all" => &["--head", head],
        "number and hash" => &["--head", bare],
        _ => &[],
    };
    let bad = punctual(data, &[&["audit", "verify"], more].concat());
    assert_eq!(bad.code, Some(1), "{known} {bad:?}");
    assert!(bad.stderr.contains(lost), "{known}: {lost:?} {bad:?}");
}
