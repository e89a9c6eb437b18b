//! First steps of a new user: warnings, tables, names instead of ids, familiar verbs.

use std::io::{BufRead, BufReader};

use super::bench::Server;
use crate::serve::process::until;

#[test]
fn a_job_that_cannot_run_is_created_with_a_warning_that_names_the_setting() {
    let server = Server::start();
    let rows: &[(&[&str], &str)] = &[
        (&["ext", "--command", "/bin/true"], "external.enabled"),
        (&["local", "--http", "http://localhost:3000/hook"], "jobs.http_allow_private"),
        (&["db", "--sql", "SELECT 1", "--database", "sales"], "no database named \"sales\""),
        (
            &["hidden", "--http", "https://example.com/", "--header", "A: ${secrets.API_KEY}"],
            "punctual secret set API_KEY",
        ),
        (&["placed", "--noop", "--run-on", "zone=mars"], "no node has the labels zone=mars"),
        (&["line", "--command", "echo hi | wc -l"], "looks like a shell line"),
    ];
    for (args, part) in rows {
        let made = server.run(&[&["job", "create"], *args].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
        assert!(made.stderr.contains("warning: ") && made.stderr.contains(part), "{made:?}");
        let shown = server.ok(&["job", "show", args[0]]);
        assert!(shown.contains("\nwarnings ") && shown.contains(part), "{shown}");
        let doctor = server.run(&["doctor"]);
        assert!(doctor.stdout.contains(part), "{doctor:?}");
    }
    let made = server.run(&["job", "create", "fine", "--sql", "SELECT 1"]);
    assert_eq!(made.stderr, "created fine\n", "{made:?}");
    let edited = server.run(&["job", "edit", "fine", "--database", "nowhere", "--sql", "SELECT 1"]);
    assert!(edited.stderr.contains("warning: a run fails: "), "{edited:?}");
}

#[test]
fn the_tables_tell_how_jobs_and_runs_are_doing() {
    let server = Server::start();
    server.ok(&["job", "create", "good", "--every", "1h", "--noop", "--tag", "x"]);
    let http = ["--http", "http://127.0.0.1:1/", "--retries", "0"];
    server.ok(&[&["job", "create", "bad"], &http[..]].concat());
    server.run(&["job", "run", "bad", "--wait", "--timeout", "60s"]);
    until(|| {
        let jobs = server.ok(&["job", "list"]);
        jobs.contains("COMPLETED").then_some(())
    });
    let jobs = server.ok(&["job", "list"]);
    let header = jobs.lines().next().unwrap();
    for title in ["NAME", "STATUS", "SCHEDULE", "LAST STATUS", "LAST RUN", "NEXT RUN"] {
        assert!(header.contains(title), "{jobs}");
    }
    let row = |name: &str| jobs.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("good").contains(" in ") && row("good").contains("COMPLETED"), "{jobs}");
    let is_past = row("bad").contains(" ago") || row("bad").contains(" now ");
    assert!(row("bad").contains("FAILED") && is_past, "{jobs}");
    assert!(!header.contains("TAGS"), "{jobs}");
    let wide = server.ok(&["job", "list", "-o", "wide"]);
    assert!(wide.lines().next().unwrap().contains("TAGS"), "{wide}");

    let runs = server.ok(&["run", "list", "bad"]);
    let header = runs.lines().next().unwrap();
    for title in ["ID", "JOB", "STATUS", "SCHEDULED", "DURATION", "ATTEMPTS", "NODE", "REASON"] {
        assert!(header.contains(title), "{runs}");
    }
    assert!(runs.contains("is not allowed"), "{runs}");
    let run = &server.json(&["run", "list", "bad"])[0];
    let node = run["node"].as_str().unwrap();
    assert_eq!(server.json(&["node", "list"])[0]["name"], node);
    assert!(runs.contains(node), "{runs}");
    let audit = server.ok(&["audit", "list", "--since", "1h", "--job", "bad"]);
    assert!(audit.contains(" bad "), "{audit}");
}

#[test]
fn a_list_is_watched_until_it_is_stopped() {
    let server = Server::start();
    server.ok(&["job", "create", "a", "--noop"]);
    let mut child = server.command(["job", "list", "--watch=100ms"]).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rows = lines.map_while(Result::ok).filter(|line| line.starts_with("a "));
    assert_eq!(rows.take(2).count(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn times_are_relative_or_local_in_every_option() {
    let server = Server::start();
    server.ok(&["job", "create", "a", "--noop"]);
    server.ok(&["job", "run", "a", "--wait"]);
    let count = |args: &[&str]| {
        let args = [&["run", "list", "a"], args].concat();
        server.json(&args).as_array().map(Vec::len)
    };
    assert_eq!(count(&["--since", "1h"]), Some(1));
    assert_eq!(count(&["--since", "yesterday"]), Some(1));
    assert_eq!(count(&["--since", "2099-01-01 10:00"]), Some(0));
    assert_eq!(count(&["--until", "1h"]), Some(0));
    assert_eq!(count(&["--since", "2h ago", "--until", "in 1h"]), Some(1));
    let refused = server.run(&["run", "list", "--since", "soon"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("yesterday"), "{refused:?}");
    server.ok(&["job", "run", "a", "--at", "tomorrow"]);
    server.ok(&["job", "create", "c", "--cron", "0 9 * * *", "--noop"]);
    server.ok(&["job", "next", "c", "--after", "10d"]);
    server.ok(&["job", "explain", "c", "--at", "yesterday"]);
    server.ok(&["job", "backfill", "c", "--from", "3d", "--until", "today", "--dry-run"]);
    server.ok(&["key", "create", "--label", "short", "--expires", "90d"]);
}

#[test]
fn a_run_is_found_by_a_short_id_or_by_the_name_of_its_job() {
    let server = Server::with(&[("PUNCTUAL_PG", "127.0.0.1:0")]);
    server.ok(&["job", "create", "hello", "--sql", "SELECT 'hi' AS said"]);
    server.ok(&["job", "run", "hello", "--wait"]);
    let id = server.ok(&["run", "list", "hello", "-o", "name"]).trim().to_owned();
    let short = &id[..18];
    let table = server.ok(&["run", "list", "hello"]);
    assert!(table.contains(short) && !table.contains(&id), "{table}");
    for name in [short, "hello", &id] {
        assert_eq!(server.json(&["run", "show", name])["execution_id"], id.as_str(), "{name}");
        assert_eq!(server.ok(&["run", "logs", name]), "{\"said\":\"hi\"}\n", "{name}");
    }
    // One that completed is not retried, and the answer says which run was meant.
    let again = server.run(&["run", "retry", "hello"]);
    assert_eq!(again.code, Some(4), "{again:?}");
    assert!(again.stderr.contains(&id), "{again:?}");
    let wrong = server.run(&["run", "show", "helo"]);
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    assert!(wrong.stderr.contains("did you mean \"hello\"?"), "{wrong:?}");
    let wrong = server.run(&["job", "show", "helo"]);
    assert!(wrong.stderr.contains("did you mean \"hello\"?"), "{wrong:?}");
    let wrong = server.run(&["sql", "-c", "DROP JOB helo"]);
    assert!(wrong.stderr.contains("did you mean \"hello\"?"), "{wrong:?}");

    server.ok(&["job", "create", "quiet", "--noop"]);
    server.ok(&["job", "run", "quiet", "--wait"]);
    let silent = server.run(&["run", "logs", "quiet"]);
    assert_eq!((silent.code, silent.stdout.as_str()), (Some(0), ""), "{silent:?}");
    assert!(silent.stderr.contains("is COMPLETED and wrote no output"), "{silent:?}");
}

#[test]
fn familiar_verbs_work() {
    let server = Server::start();
    let schedule = ["--schedule", "0 9 * * *", "--timezone", "Europe/Berlin"];
    server
        .ok(&[&["job", "create", "a", "--sql", "SELECT 1 AS n", "--tag", "x"], &schedule[..]]
            .concat());
    server.ok(&["trigger", "a", "--wait"]);
    server.ok(&["run", "a", "--wait"]);
    assert_eq!(server.ok(&["logs", "a"]), "{\"n\":1}\n");
    assert!(server.ok(&["describe", "a"]).starts_with("name "));
    assert_eq!(server.ok(&["get", "jobs", "-o", "name"]), "a\n");
    assert_eq!(server.ok(&["--tenant", "default", "get", "jobs", "-o", "name"]), "a\n");
    server.ok(&["job", "pause", "--tag", "x"]);
    assert_eq!(server.json(&["job", "show", "a"])["status"], "PAUSED");
    server.ok(&["unpause", "a"]);
    assert_eq!(server.json(&["job", "show", "a"])["status"], "ACTIVE");
    assert_eq!(server.ok(&["job", "run", "--tag", "x"]).lines().count(), 1);
    let none = server.run(&["job", "pause", "--tag", "nothing"]);
    assert_eq!(none.code, Some(3), "{none:?}");

    server.write("b.yaml", "name: b\njob_type: MANUAL\npayload: {type: NOOP}\n");
    let diff = server.run(&["diff", "b.yaml"]);
    assert!(diff.stdout.contains("created    b"), "{diff:?}");
    server.ok(&["apply", "b.yaml"]);
    server.write("b.yaml", "name: b\njob_type: MANUAL\npriority: 7\npayload: {type: NOOP}\n");
    let diff = server.run(&["diff", "b.yaml"]);
    assert!(diff.stdout.contains("priority: 5 -> 7"), "{diff:?}");
    let renamed = server.run(&["job", "rename", "b", "c"]);
    assert_eq!(renamed.stderr, "renamed b to c\n", "{renamed:?}");
    server.ok(&["job", "edit", "a", "--tag", "+y", "--tag", "-x"]);
    assert_eq!(server.json(&["job", "show", "a"])["tags"], serde_json::json!(["y"]));

    let set = server.run(&["secret", "set", "KEY", "hunter22"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(set.stderr.starts_with("warning: a value on the command line is visible"), "{set:?}");
    assert_eq!(server.ok(&["complete-names", "jobs"]), "a\nc\n");
    assert!(server.ok(&["completions", "bash"]).contains("complete-names jobs"));
    server.ok(&["job", "delete", "--tag", "y", "--yes"]);
    assert_eq!(server.run(&["job", "show", "a"]).code, Some(3));
}

#[test]
fn a_login_is_remembered_as_a_context() {
    let server = Server::start();
    server.ok(&["job", "create", "a", "--noop"]);
    let (url, key) = (server.url(), server.key());
    let elsewhere = |args: &[&str]| {
        let mut command = server.command(args);
        command.env_remove("PUNCTUAL_DATA").env("HOME", server.path("home"));
        command
    };
    std::fs::create_dir_all(server.path("home")).unwrap();
    let run = |args: &[&str]| crate::binary::ended(&elsewhere(args).output().unwrap());
    assert_ne!(run(&["job", "list"]).code, Some(0));
    let wrong = run(&["login", &url, "--token", "pk_wrong"]);
    assert_eq!(wrong.code, Some(5), "{wrong:?}");
    let done = run(&["login", &url, "--token", &key, "--name", "home"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("as admin (tenant default)"), "{done:?}");
    assert_eq!(run(&["job", "list", "-o", "name"]).stdout, "a\n");
    let contexts = run(&["context", "list"]);
    assert!(contexts.stdout.contains("*        home"), "{contexts:?}");
    assert!(!contexts.stdout.contains(&key), "{contexts:?}");
    use std::os::unix::fs::PermissionsExt;
    let file = server.path("home/.config/punctual/home.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run(&["context", "use", "nowhere"]).code, Some(2));
    assert_eq!(run(&["logout"]).code, Some(0));
    assert!(!file.exists());
    assert_eq!(run(&["job", "list"]).code, Some(5));
    assert_eq!(run(&["context", "delete", "home"]).code, Some(0));
}

#[test]
fn tokens_of_agents_are_listed_and_revoked_and_settings_are_shown() {
    let server = Server::start();
    let made = server.json(&["agent", "token", "create", "--labels", "zone=eu"]);
    let id = made["token_id"].as_str().unwrap();
    let listed = server.json(&["agent", "token", "list"]);
    assert_eq!((&listed[0]["token_id"], &listed[0]["labels"]["zone"]), (&id.into(), &"eu".into()));
    assert!(!listed.to_string().contains(made["token"].as_str().unwrap()), "{listed}");
    server.ok(&["agent", "token", "revoke", id]);
    assert_eq!(server.json(&["agent", "token", "list"]), serde_json::json!([]));
    assert_eq!(server.run(&["agent", "token", "revoke", id]).code, Some(3));

    let settings = server.ok(&["config", "show", "--remote", "--origin"]);
    let line = settings.lines().find(|line| line.starts_with("http ")).unwrap();
    assert!(line.contains("127.0.0.1:0"), "{line}");
    assert!(!settings.contains(&server.key()), "{settings}");
}
