//! How a server is set up, and what it refuses.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use super::process::Server;
use crate::binary::punctual;

/// The exit code and stderr of a command that ends by itself.
fn refused(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = punctual(args)
        .current_dir(folder)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_data_folder_is_private_and_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("admin.key")), 0o600);
    assert_eq!(mode(&data.join("master.key")), 0o600);
    assert!(server.key.starts_with("pk_") && server.key.len() > 80, "{}", server.key);
    let database = std::fs::read(data.join("punctual.db")).unwrap();
    let key = server.key.as_bytes();
    assert!(!database.windows(key.len()).any(|bytes| bytes == key));

    let args = ["serve", "--data", "data", "--http", "127.0.0.1:0"];
    let (code, text) = refused(folder.path(), &args, &[]);
    let pid = server.child.id().to_string();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is in use by process") && text.contains(&pid), "{text}");
    server.kill();

    std::fs::set_permissions(data.join("admin.key"), PermissionsExt::from_mode(0o644)).unwrap();
    let (code, text) = refused(folder.path(), &args, &[]);
    assert!(code == Some(1) && text.contains("can be read by others"), "{text}");
    std::fs::set_permissions(data.join("admin.key"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(data.join("admin.key"), "admin\n").unwrap();
    let (code, text) = refused(folder.path(), &args, &[]);
    assert!(code == Some(1) && text.contains("does not hold a key"), "{text}");
}

#[test]
fn a_folder_that_was_there_is_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("notes"), "old").unwrap();
    for (path, mode) in [(data.clone(), 0o755), (data.join("notes"), 0o664)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let server = Server::start(&data, &[]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
            files.push(entry.file_name().into_string().unwrap());
        }
    }
    for name in ["notes", "punctual.db", "server.url", "admin.key"] {
        assert!(files.iter().any(|file| file == name), "{name} {files:?}");
    }
    drop(server);
}

#[test]
fn a_master_key_of_one_digit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["serve", "--data", "data", "--http", "127.0.0.1:0", "--pg", "none"];
    let zeros = "0".repeat(64);
    let (code, text) = refused(folder.path(), &args, &[("PUNCTUAL_MASTER_KEY", &zeros)]);
    assert!(code == Some(2) && text.contains("master_key"), "{text}");
}

#[test]
fn keys_beside_another_database_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Server::start(&data, &[]).kill();
    let args = ["serve", "--data", "data", "--http", "127.0.0.1:0", "--pg", "none"];
    let database = data.join("punctual.db");
    for file in ["punctual.db", "punctual.db-wal", "punctual.db-shm"] {
        let _ = std::fs::rename(data.join(file), folder.path().join(file));
    }
    let said = |(code, text): (Option<i32>, String), problem: &str| {
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(problem) && text.contains("punctual restore"), "{text}");
        assert!(text.contains("move admin.key, master.key and store.id"), "{text}");
    };
    said(refused(folder.path(), &args, &[]), "punctual.db is missing");
    assert!(!database.exists(), "no new one is made");
    std::fs::write(&database, "").unwrap();
    said(refused(folder.path(), &args, &[]), "punctual.db is empty");
    // The database of another server is not this one's either.
    let other = folder.path().join("other");
    Server::start(&other, &[]).kill();
    for file in ["punctual.db", "punctual.db-wal", "punctual.db-shm"] {
        let _ = std::fs::rename(other.join(file), data.join(file));
    }
    said(refused(folder.path(), &args, &[]), "belong to another database");
    // Its own is, and new keys may begin anew.
    for file in ["punctual.db", "punctual.db-wal", "punctual.db-shm"] {
        let _ = std::fs::remove_file(data.join(file));
        let _ = std::fs::rename(folder.path().join(file), data.join(file));
    }
    Server::start(&data, &[]).kill();
    for file in
        ["admin.key", "master.key", "store.id", "punctual.db", "punctual.db-wal", "punctual.db-shm"]
    {
        let _ = std::fs::remove_file(data.join(file));
    }
    Server::start(&data, &[]).kill();
}

#[test]
fn keys_beside_another_postgres_database_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let postgres = testbed::postgres::Server::shared();
    let [one, two] = ["keys_one", "keys_two"].map(|name| {
        crate::cluster::member::create_database(&postgres.url("postgres"), name);
        postgres.url(name)
    });
    let data = folder.path().join("data");
    Server::start(&data, &["--store", &one]).kill();
    let args =
        ["serve", "--data", "data", "--http", "127.0.0.1:0", "--pg", "none", "--store", &two];
    let (code, text) = refused(folder.path(), &args, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("belong to another database than the store"), "{text}");
    Server::start(&data, &["--store", &one]).kill();
    // Another node of the same database needs the same master key.
    let second = folder.path().join("second");
    std::fs::create_dir(&second).unwrap();
    std::fs::copy(data.join("master.key"), second.join("master.key")).unwrap();
    Server::start(&second, &["--store", &one]).kill();
}

const HOOK_URL: (&str, &str) = ("PUNCTUAL_ALERTS__WEBHOOK_URL", "https://hooks.example.com/");
const HOOK_SECRET: (&str, &str) =
    ("PUNCTUAL_ALERTS__WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.toml"), "[engine]\nlaese = \"1s\"\n").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let taken_text = taken.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = listener.local_addr().unwrap().to_string();
    for (args, environment, code, words) in [
        (vec!["--http", "0.0.0.0:0"], vec![], 2, ["0.0.0.0:0", "--insecure"]),
        (vec!["--http", in_use.as_str()], vec![], 1, ["in use", "--http 127.0.0.1:PORT"]),
        (vec!["--pg", "0.0.0.0:0"], vec![], 2, ["0.0.0.0:0", "--insecure"]),
        (
            vec!["--pg", in_use.as_str(), "--http", "127.0.0.1:0"],
            vec![],
            1,
            ["in use", "--pg none"],
        ),
        (vec!["--pg", "nowhere"], vec![], 2, ["pg", "127.0.0.1:8632"]),
        (vec!["--http", "nowhere"], vec![], 2, ["http", "127.0.0.1:8630"]),
        (vec!["--store", "mysql://x"], vec![], 2, ["store", "postgres://"]),
        (
            vec!["--store", "postgres://u:canary@h/d?sslmode=full"],
            vec![],
            2,
            ["store: sslmode", "verify-full"],
        ),
        (
            vec!["--store", "postgres://u:canary@h/d?ssl_mode=require"],
            vec![],
            2,
            ["store: ssl_mode", "did you mean sslmode?"],
        ),
        (vec!["--store", "postgres://u:a@canary@h/d"], vec![], 2, ["store: host", "write %40"]),
        (
            vec!["--store", "postgres:///d?host=/nowhere&user=u&password=canary"],
            vec![("RUST_LOG", "trace")],
            1,
            ["store: the database at /nowhere/.s.PGSQL.5432", "check that PostgreSQL is running"],
        ),
        (
            vec![
                "--store",
                "postgres://u:canary@h/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem",
            ],
            vec![],
            1,
            ["store: sslrootcert: /nowhere/ca.pem", "cannot be read"],
        ),
        (vec!["--config", "wrong.toml"], vec![], 2, ["engine.laese", "engine.lease"]),
        (vec![], vec![("PUNCTUAL_HTPP", "x")], 2, ["PUNCTUAL_HTPP", "PUNCTUAL_HTTP"]),
        (vec![], vec![("PUNCTUAL_ADMIN_KEY", "admin")], 2, ["admin_key", "pk_"]),
        (vec![], vec![HOOK_URL], 2, ["alerts.webhook_secret", "set when alerts.webhook_url is"]),
        (vec![], vec![HOOK_SECRET], 2, ["alerts.webhook_url", "set when"]),
        (vec![], vec![HOOK_URL, (HOOK_SECRET.0, "secret")], 2, ["webhook_secret", "whsec_"]),
        (vec![], vec![(HOOK_URL.0, "ftp://x"), HOOK_SECRET], 2, ["webhook_url", "https://"]),
        (vec!["--shutdown-grace", "0s"], vec![], 2, ["shutdown_grace", "longer"]),
    ] {
        let mut all = vec!["serve", "--data", "data"];
        if !args.contains(&"--http") {
            all.extend(["--http", taken_text.as_str()]);
        }
        all.extend(args.iter().copied());
        let (got, text) = refused(folder.path(), &all, &environment);
        assert_eq!(got, Some(code), "{args:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
        assert!(!text.contains("canary"), "{args:?}: {text}");
    }
}

#[test]
fn settings_show_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("punctual.toml"), "store = \"postgres://u:Pa55word@h/d\"\n")
        .unwrap();
    let output = punctual(["config", "show", "--origin"])
        .current_dir(folder.path())
        .env("PUNCTUAL_ENGINE__LEASE", "20s")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("Pa55word"), "{text}");
    let line = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        found.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("store"), ["store", "********", "punctual.toml"]);
    assert_eq!(line("engine.lease"), ["engine.lease", "20s", "$PUNCTUAL_ENGINE__LEASE"]);
    assert_eq!(line("data"), ["data", "./punctual-data", "default"]);
}
