//! Files and jobs: apply, export, and nothing that changes twice.

use super::bench::Server;

const JOBS: &str = "\
name: load
job_type: DEPENDENT
depends_on: [extract]
payload: {type: NOOP}
---
name: extract
cron_expression: 0 2 * * *
timezone: Europe/Berlin
payload: {type: NOOP}
timeout_seconds: 30m
tags: [etl]
";

#[test]
fn applying_twice_is_applying_once() {
    let server = Server::start();
    server.write("jobs/etl.yaml", JOBS);
    server.write(
        "jobs/more/poll.json",
        r#"{"name": "poll", "interval_seconds": 60, "payload": {"type": "NOOP"}}"#,
    );
    server.write("jobs/README.md", "not a job");

    let tried = server.run(&["apply", "-f", "jobs", "--dry-run"]);
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert_eq!(tried.stdout, "created    extract\ncreated    poll\ncreated    load\n");
    assert!(tried.stderr.ends_with("nothing was written\n"), "{tried:?}");
    assert_eq!(server.ok(&["job", "list", "-o", "name"]), "");

    let applied = server.run(&["apply", "-f", "jobs"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(applied.stderr, "3 created, 0 changed, 0 unchanged, 0 pruned\n");
    let again = server.run(&["job", "apply", "-f", "jobs"]);
    assert_eq!(again.stdout, "unchanged  extract\nunchanged  poll\nunchanged  load\n");

    let export = server.ok(&["export"]);
    assert!(export.contains("job: extract\n"), "{export}");
    let back = server.feed(&["apply", "-f", "-"], &export);
    assert_eq!(back.stderr, "0 created, 0 changed, 3 unchanged, 0 pruned\n", "{back:?}\n{export}");
    let json = server.ok(&["export", "-o", "json"]);
    let back = server.feed(&["apply", "-f", "-"], &json);
    assert_eq!(back.stderr, "0 created, 0 changed, 3 unchanged, 0 pruned\n", "{back:?}");

    let exports = server.json(&["audit", "list", "--type", "JOBS_EXPORTED"]);
    assert_eq!(exports.as_array().map(Vec::len), Some(2), "{exports}");
    assert_eq!(exports[0]["actor"], "admin");

    // To another server, as it is.
    let other = Server::start();
    let moved = other.feed(&["apply", "-f", "-"], &export);
    assert_eq!(moved.stderr, "3 created, 0 changed, 0 unchanged, 0 pruned\n", "{moved:?}");
    assert_eq!(other.ok(&["export"]), export);
}

#[test]
fn changes_are_shown_field_by_field() {
    let server = Server::start();
    server.write("etl.yaml", JOBS);
    server.ok(&["apply", "-f", "etl.yaml"]);
    // A job that is held stays so.
    server.ok(&["job", "pause", "extract"]);
    let changed = JOBS.replace("0 2 * * *", "0 3 * * *").replace("timeout_seconds: 30m\n", "");
    server.write("etl.yaml", &changed);
    let diff = "\
changed    extract
  cron_expression: \"0 2 * * *\" -> \"0 3 * * *\"
  timeout_seconds: 1800 -> 3600
unchanged  load
";
    assert_eq!(server.ok(&["apply", "-f", "etl.yaml", "--dry-run"]), diff);
    assert_eq!(server.ok(&["apply", "-f", "etl.yaml"]), diff);
    let job = server.json(&["job", "show", "extract"]);
    assert_eq!((&job["status"], &job["timeout_seconds"]), (&"PAUSED".into(), &3600.into()));
    let told = server.json(&["apply", "-f", "etl.yaml"]);
    assert_eq!(told[0], serde_json::json!({"name": "extract", "action": "unchanged"}));
}

#[test]
fn what_no_file_describes_is_pruned_if_it_is_the_owners() {
    let server = Server::start();
    server.ok(&["job", "create", "mine-by-hand", "--noop"]);
    server.write("etl.yaml", JOBS);
    let apply = ["apply", "-f", "etl.yaml", "--owner", "data", "--prune", "--yes"];
    server.ok(&apply);
    assert_eq!(server.ok(&["job", "list", "--tag", "owner:data", "-o", "name"]), "extract\nload\n");
    let (_, extract) = JOBS.split_once("---\n").unwrap();
    server.write("etl.yaml", extract);
    let asked = server.run(&apply[..apply.len() - 1]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert_eq!(server.ok(&apply), "unchanged  extract\npruned     load\n");
    assert_eq!(server.ok(&["job", "list", "-o", "name"]), "extract\nmine-by-hand\n");
}

#[test]
fn a_wrong_document_changes_nothing() {
    let server = Server::start();
    let rows = [
        (
            "name: b\ncron_expression: '61 * * * *'\npayload: {type: NOOP}\n",
            2,
            "jobs.yaml, document 2: ",
        ),
        (
            "name: b\njob_type: MANUAL\npayload: {type: NOOP}\ntimout_seconds: 5\n",
            2,
            "timout_seconds",
        ),
        ("name: a\npayload: {type: NOOP}\n", 2, "described twice"),
        ("name: [\n", 2, "jobs.yaml: "),
    ];
    for (wrong, code, part) in rows {
        let text = format!("name: a\njob_type: MANUAL\npayload: {{type: NOOP}}\n---\n{wrong}");
        server.write("jobs.yaml", &text);
        let ended = server.run(&["apply", "-f", "jobs.yaml"]);
        assert_eq!(ended.code, Some(code), "{wrong} {ended:?}");
        assert!(ended.stderr.contains(part), "{wrong} {ended:?}");
        assert_eq!(server.ok(&["job", "list", "-o", "name"]), "", "{wrong}");
    }
    server.write("one.yaml", "name: a\njob_type: MANUAL\npayload: {type: NOOP}\n");
    let twice = server.run(&["apply", "-f", "one.yaml", "-f", "./one.yaml"]);
    assert_eq!(twice.code, Some(2), "{twice:?}");
    assert_eq!(server.run(&["apply", "-f", "nowhere.yaml"]).code, Some(1));
}

#[test]
fn runs_and_versions_make_no_difference_to_documents() {
    let server = Server::start();
    server.write("jobs.yaml", JOBS);
    server.ok(&["apply", "-f", "jobs.yaml"]);
    server.ok(&["job", "run", "extract", "--wait"]);
    let shown = server.json(&["job", "show", "extract"]);
    assert_eq!(shown["last_status"], "COMPLETED", "{shown}");
    for form in ["yaml", "json"] {
        let export = server.ok(&["export", "-o", form]);
        for _ in 0..2 {
            let back = server.feed(&["apply", "-f", "-"], &export);
            let unchanged = "0 created, 0 changed, 2 unchanged, 0 pruned\n";
            assert_eq!(back.stderr, unchanged, "{back:?}\n{export}");
        }
    }
    // The shown document can be applied as it is.
    let back = server.feed(&["apply", "-f", "-"], &shown.to_string());
    assert_eq!(back.stderr, "0 created, 0 changed, 1 unchanged, 0 pruned\n", "{back:?}");

    let edited = server.run(&["job", "edit", "extract", "--priority", "7"]);
    assert!(edited.stderr.starts_with("  priority: 5 -> 7\nchanged extract\n"), "{edited:?}");
    let versions = server.json(&["job", "versions", "extract"]);
    let told: Vec<_> = versions.as_array().unwrap().iter().map(|it| &it["changed"]).collect();
    assert_eq!(told, [&serde_json::json!(["priority"]), &serde_json::json!([])]);
    assert_eq!(server.ok(&["job", "diff", "extract"]), "priority: 5 -> 7\n");
    let old = server.json(&["job", "show", "extract", "--version", "1"]);
    assert_eq!((&old["priority"], &old["version"]), (&5.into(), &1.into()), "{old}");
    let restored = server.run(&["job", "restore", "extract", "1"]);
    assert_eq!(restored.stderr, "restored version 1 of extract as version 3\n", "{restored:?}");
    let back = server.run(&["apply", "-f", "jobs.yaml"]);
    assert_eq!(back.stderr, "0 created, 0 changed, 2 unchanged, 0 pruned\n", "{back:?}");

    server.ok(&["job", "delete", "load", "--yes"]);
    let deleted = server.ok(&["job", "list", "--status", "deleted", "-o", "name"]);
    assert_eq!(deleted, "load\n");
}
