//! A tenant from its making to its end, and what its people may do.

use super::bench::Server;

#[test]
fn a_tenant_gets_people_who_may_do_what_they_were_given() {
    let server = Server::start();
    let me = server.json(&["whoami"]);
    assert_eq!((&me["user"], &me["read_only"]), (&"admin".into(), &false.into()));
    let made = server.run(&["tenant", "create", "acme", "--max-jobs", "1", "--tier", "premium"]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), "created acme\n"), "{made:?}");
    let there = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--tenant", "acme"]).collect();
        server.run(&args)
    };
    let fed = server.feed(
        &["user", "create", "ann", "--password-stdin", "--tenant", "acme"],
        "correct horse\n",
    );
    assert_eq!(fed.code, Some(0), "{fed:?}");
    assert_eq!(there(&["role", "create", "developers"]).code, Some(0));
    for privilege in ["CREATE JOB", "execute-job"] {
        let args = ["grant", "create", "--privilege", privilege, "--to-role", "developers"];
        assert_eq!(there(&args).code, Some(0));
    }
    let given = there(&["grant", "create", "--role", "developers", "--to-user", "ann"]);
    assert_eq!(given.stderr, "ann has role developers\n");
    let grants = there(&["grant", "list"]).stdout;
    assert!(grants.contains("role developers  CREATE JOB"), "{grants}");

    let key = there(&["key", "create", "--user", "ann", "--label", "laptop"]);
    assert_eq!(key.stderr, "note: this is the only time that the key is shown\n", "{key:?}");
    let key = key.stdout.trim();
    assert!(key.starts_with("pk_"), "{key}");
    let ann = |args: &[&str]| {
        let mut command = server.command(args);
        command.env("PUNCTUAL_TOKEN", key);
        crate::binary::ended(&command.output().expect("the binary runs"))
    };
    let me = ann(&["whoami"]).stdout;
    assert!(me.contains("privileges  CREATE JOB\n            EXECUTE JOB\n"), "{me}");
    assert_eq!(ann(&["job", "create", "report", "--noop"]).code, Some(0));
    let second = ann(&["job", "create", "second", "--noop"]);
    assert_eq!(second.code, Some(4), "{second:?}");
    assert!(second.stderr.contains("max_jobs"), "{second:?}");
    let refused = ann(&["job", "pause", "report"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("this needs the privilege ALTER JOB"), "{refused:?}");
    assert_eq!(ann(&["user", "list"]).code, Some(5));
    assert_eq!(ann(&["job", "list", "--tenant", "default"]).code, Some(3));
    assert_eq!(server.ok(&["job", "list", "-o", "name"]), "");
    assert_eq!(there(&["job", "list", "-o", "name"]).stdout, "report\n");

    let id = key.split('_').nth(1).unwrap();
    let keys = there(&["key", "list", "--all"]).stdout;
    assert!(keys.contains(id) && keys.contains("laptop"), "{keys}");
    assert_eq!(there(&["key", "revoke", id, "--yes"]).code, Some(0));
    assert_eq!(ann(&["whoami"]).code, Some(5));
    let edited = there(&["user", "edit", "ann", "--disable", "--rename", "anna"]);
    assert_eq!(edited.stderr, "changed anna\n", "{edited:?}");
    assert_eq!(server.run(&["tenant", "delete", "acme", "--yes"]).code, Some(4));
    for args in [
        &["job", "delete", "report", "--yes"][..],
        &["user", "delete", "anna", "--yes"],
        &["role", "delete", "developers", "--yes"],
    ] {
        assert_eq!(there(args).code, Some(0), "{args:?}");
    }
    assert_eq!(server.run(&["tenant", "delete", "acme", "--yes"]).code, Some(0));
    assert_eq!(server.run(&["tenant", "show", "acme"]).code, Some(3));
}

#[test]
fn who_may_execute_a_job_follows_and_cancels_their_own_runs() {
    let server = Server::start();
    server.ok(&["job", "create", "report", "--noop"]);
    server.ok(&["user", "create", "ann"]);
    server.ok(&["grant", "create", "--privilege", "EXECUTE JOB", "--to-user", "ann"]);
    let key = server.ok(&["key", "create", "--user", "ann"]);
    let ann = |args: &[&str]| {
        let mut command = server.command(args);
        command.env("PUNCTUAL_TOKEN", key.trim());
        crate::binary::ended(&command.output().expect("the binary runs"))
    };
    server.ok(&["job", "run", "report", "--wait", "--timeout", "60s"]);
    let other = server.json(&["run", "list", "report"]);
    let other = other[0]["execution_id"].as_str().unwrap();
    let waited = ann(&["job", "run", "report", "--wait", "--timeout", "60s"]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    let own = ann(&["run", "list", "report", "-o", "name"]).stdout;
    assert_eq!(own.lines().count(), 1, "{own}");
    assert_ne!(own.trim(), other);
    let shown = ann(&["run", "show", own.trim()]).stdout;
    assert!(shown.contains("requested by  ann\n"), "{shown}");
    assert_eq!(ann(&["run", "logs", own.trim()]).code, Some(0));
    for args in
        [&["run", "show", other][..], &["run", "cancel", other, "--yes"], &["run", "logs", other]]
    {
        assert_eq!(ann(args).code, Some(3), "{args:?}");
    }
    let later = ann(&["job", "run", "report", "--at", "2099-01-01T00:00:00Z", "-o", "name"]).stdout;
    let cancelled = ann(&["run", "cancel", later.trim(), "--yes"]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(server.json(&["run", "show", later.trim()])["status"], "CANCELLED");
}
