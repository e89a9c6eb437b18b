//! One job from its making to its end.

use super::bench::Server;
use crate::serve::process::until;

#[test]
fn a_job_is_made_run_held_changed_and_deleted() {
    let server = Server::start();
    let made = server.run(&[
        "job",
        "create",
        "report",
        "--cron",
        "0 9 * * *",
        "--tz",
        "America/New_York",
        "--noop",
        "--tag",
        "reports,daily",
        "--retries",
        "0",
        "--timeout",
        "10m",
    ]);
    assert_eq!((made.code, made.stdout.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.stderr.starts_with("created report, next run "), "{made:?}");

    let job = server.json(&["job", "show", "report"]);
    assert_eq!(job["cron_expression"], "0 9 * * *");
    assert_eq!(job["timeout_seconds"], 600);
    assert_eq!(job["retry_config"]["max_attempts"], 1);
    assert_eq!(job["tags"], serde_json::json!(["reports", "daily"]));
    assert_eq!(server.ok(&["job", "list", "-o", "name"]), "report\n");
    assert_eq!(server.ok(&["job", "list", "--tag", "other", "-o", "name"]), "");
    let table = server.ok(&["job", "show", "report"]);
    assert!(table.contains("schedule      0 9 * * * America/New_York\n"), "{table}");

    let waited = server.run(&["job", "run", "report", "--wait", "--timeout", "60s"]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    assert!(waited.stderr.contains(" ended COMPLETED after "), "{waited:?}");
    let runs = server.json(&["run", "list", "report"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
    assert_eq!((&runs[0]["status"], &runs[0]["origin"]), (&"COMPLETED".into(), &"MANUAL".into()));
    server.run(&["job", "create", "soon", "--in", "1m", "--noop"]);
    assert_eq!(server.json(&["run", "list", "soon"]), serde_json::json!([]));
    until(|| {
        let planned = server.json(&["run", "list", "soon", "--planned"]);
        (planned[0]["status"] == "PENDING").then_some(())
    });
    let id = runs[0]["execution_id"].as_str().unwrap();
    let shown = server.ok(&["run", "show", id]);
    assert!(shown.contains("status        COMPLETED\n"), "{shown}");
    assert!(shown.contains("requested by  admin\n"), "{shown}");
    assert!(shown.contains("\nATTEMPT  STATUS"), "{shown}");
    assert_eq!(server.json(&["run", "show", "--job", "report"])["execution_id"], id);
    server.ok(&["run", "logs", "-f", id]);

    assert_eq!(server.run(&["job", "pause", "report"]).stderr, "paused report\n");
    assert_eq!(server.ok(&["job", "list", "--status", "paused", "-o", "name"]), "report\n");
    assert!(server.run(&["job", "resume", "report"]).stderr.starts_with("resumed report, next"));

    let edited =
        server.run(&["job", "edit", "report", "--cron", "30 9 * * *", "--rename", "daily"]);
    assert_eq!(edited.code, Some(0), "{edited:?}");
    assert!(
        edited.stderr.contains("cron_expression: \"0 9 * * *\" -> \"30 9 * * *\"\n"),
        "{edited:?}"
    );
    assert!(edited.stderr.ends_with("changed daily\n"), "{edited:?}");
    let times =
        server.json(&["job", "next", "daily", "--count", "2", "--after", "2026-01-01T00:00:00Z"]);
    assert_eq!(times, serde_json::json!(["2026-01-01T14:30:00Z", "2026-01-02T14:30:00Z"]));

    let range = ["--from", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z"];
    let args = ["job", "backfill", "daily", "--dry-run", range[0], range[1], range[2], range[3]];
    assert_eq!(server.ok(&args), "2026-01-01T14:30:00Z\n");

    let explained = server.ok(&["job", "explain", "daily", "--at", "2100-01-01T14:30:00Z"]);
    assert!(
        explained.starts_with("time      2100-01-01T14:30:00Z\nverdict   PLANNED\n"),
        "{explained}"
    );
    assert!(
        explained.contains("\njob       daily is enabled; its name was report until "),
        "{explained}"
    );
    assert!(explained.contains("\nnext      Sat 2100-01-02 "), "{explained}");
    // The former name finds the job too.
    let renamed = server.ok(&["job", "explain", "report"]);
    assert!(
        renamed.starts_with("job       daily is enabled; its name was report until "),
        "{renamed}"
    );

    let kept = server.run(&["job", "delete", "daily"]);
    assert_eq!(kept.code, Some(2), "{kept:?}");
    assert!(kept.stderr.contains("hint: add --yes"), "{kept:?}");
    assert_eq!(server.run(&["job", "delete", "daily", "--yes"]).stderr, "deleted daily\n");
    assert_eq!(server.run(&["job", "show", "daily"]).code, Some(3));
}

#[test]
fn a_dry_run_makes_nothing() {
    let server = Server::start();
    let tried = server.run(&["job", "create", "a", "--every", "1h", "--noop", "--dry-run"]);
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert!(tried.stdout.contains("next runs"), "{tried:?}");
    assert_eq!(server.ok(&["job", "list", "-o", "name"]), "");
}

#[test]
fn a_server_is_looked_at() {
    let server = Server::start();
    server.ok(&["job", "create", "a", "--cron", "0 0 1 1 *", "--noop"]);
    let status = server.ok(&["status"]);
    for part in
        ["store         ok: ", "1 active, 0 paused", "running       0\n", "dead letters  0\n"]
    {
        assert!(status.contains(part), "{part}: {status}");
    }
    let checks = server.json(&["doctor"]);
    let checks = checks.as_array().unwrap();
    assert!(checks.iter().all(|check| check["health"] != "wrong"), "{checks:?}");
    assert!(checks.iter().any(|check| check["check"] == "store"), "{checks:?}");

    use std::os::unix::fs::PermissionsExt;
    let key = server.path("data/admin.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = server.run(&["doctor"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stdout.contains("can be read by others: chmod 600"), "{found:?}");
}

#[test]
fn the_log_of_a_run_is_printed_and_dead_letters_are_settled() {
    let server = Server::with(&[("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1")]);
    let endpoint = format!("{}/version", server.url());
    let http = ["--http", &endpoint, "--method", "GET", "--retries", "0"];
    server.ok(&[&["job", "create", "ask"], &http[..]].concat());
    let waited = server.run(&["job", "run", "ask", "--wait", "--timeout", "60s"]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    assert!(waited.stdout.contains("\"name\":\"punctual\""), "{waited:?}");
    let log = server.ok(&["run", "logs", "--job", "ask"]);
    assert_eq!(log, waited.stdout);
    assert_eq!(server.ok(&["run", "logs", "--job", "ask", "--follow"]), log);
    assert_eq!(server.ok(&["run", "logs", "--job", "ask", "--attempt", "1"]), log);

    let endpoint = format!("{}/nowhere", server.url());
    let http = ["--http", &endpoint, "--retries", "0"];
    server.ok(&[&["job", "create", "fail"], &http[..]].concat());
    assert_eq!(server.run(&["job", "run", "fail", "--wait"]).code, Some(7));
    let status = server.ok(&["status"]);
    assert!(status.contains("\nfailing       2") && status.contains(" fail: "), "{status}");
    let dead = server.json(&["dlq", "list", "--job", "fail"]);
    assert_eq!(dead.as_array().map(Vec::len), Some(1), "{dead}");
    assert_eq!(server.json(&["dlq", "list", "--job", "ask"]), serde_json::json!([]));
    let again = server.json(&["dlq", "redrive", "--all", "--yes"]);
    assert_eq!(
        (&again[0]["ok"], &again[0]["execution_id"]),
        (&true.into(), &dead[0]["execution_id"])
    );
    let id = dead[0]["execution_id"].as_str().unwrap();
    let left = server.ok(&["dlq", "list", "-o", "name"]);
    assert!(!left.contains(id), "{left}");
}

/// A server whose jobs may let a shell run, in whatever sandbox this machine offers.
fn with_shell() -> Server {
    Server::with(&[
        ("PUNCTUAL_EXTERNAL__ENABLED", "true"),
        ("PUNCTUAL_EXTERNAL__ALLOW", "/bin/sh"),
        ("PUNCTUAL_EXTERNAL__SANDBOX", "best-effort"),
    ])
}

#[test]
fn the_log_of_every_attempt_is_followed() {
    let server = with_shell();
    let script = "echo \"try $PUNCTUAL_ATTEMPT\"; printf '\\033[31mred\\n' >&2; exit 3";
    let retry = ["--retries", "1", "--backoff", "10ms"];
    server.ok(&[&["job", "create", "s", "--shell", script], &retry[..]].concat());
    let waited = server.run(&["job", "run", "s", "--wait", "--timeout", "60s"]);
    assert_eq!(waited.code, Some(7), "{waited:?}");
    for part in ["try 1\n", "try 2\n", "\u{1b}[31mred\n"] {
        assert!(waited.stdout.contains(part), "{part:?} {waited:?}");
    }
    let first = server.ok(&["run", "logs", "--job", "s", "--attempt", "1", "--stream", "stdout"]);
    assert_eq!(first, "try 1\n");
}

#[test]
fn a_line_of_a_crontab_does_what_cron_did() {
    let server = with_shell();
    let crontab = "\
        WHO='it is me'\n\
        0 2 * * * read first; echo \"$first $WHO\"; cat; date +\\%\\%%one%two\n";
    let args = ["import", "crontab", "-", "--tz", "UTC", "--apply", "--prefix", "old-"];
    let applied = server.feed(&args, crontab);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let waited = server.run(&["job", "run", "old-read", "--wait", "--timeout", "60s"]);
    assert_eq!(
        (waited.code, waited.stdout.as_str()),
        (Some(0), "one it is me\ntwo\n%\n"),
        "{waited:?}"
    );
}

#[test]
fn sql_works_without_any_configuration() {
    let server = Server::start();
    let table = "CREATE TABLE seen (at TEXT); INSERT INTO seen VALUES (punctual('scheduled_for'))";
    for (name, sql) in [("write", table), ("read", "SELECT count(*) AS n FROM seen")] {
        let made = server.run(&["job", "create", name, "--in", "1h", "--sql", sql]);
        assert_eq!(made.code, Some(0), "{made:?}");
        let ran = server.run(&["job", "run", name, "--wait", "--timeout", "60s"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        if name == "read" {
            assert_eq!(ran.stdout, "{\"n\":1}\n", "{ran:?}");
        }
    }
    let once = ["--in", "1h", "--retries", "0"];
    let made = server.run(&[&["job", "create", "typo", "--sql", "SELEC 1"], &once[..]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let ran = server.run(&["job", "run", "typo", "--wait", "--timeout", "60s"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stderr.contains("syntax error"), "{ran:?}");
}
