//! Secrets in a real server: planted values are searched wherever anything is kept or said.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::process::{Server, until};
use crate::binary::run;

/// Canaries with every character that an encoding changes. The first ones are secrets of the
/// tenant; the others are secrets of the cluster.
const CANARIES: [&str; 18] = [
    "canary-plain-0123456789",
    "canary \"quoted\" \\ and/slashed é",
    "canary?a=b&c=d%41+~*'",
    "-----BEGIN CANARY-----\nYmFzZTY0IGlzIG5vdCBhIHNlY3JldA\nsecond-canary-line==",
    "<canary attribute=\"x\">&amp;</canary>",
    "{\"canary\": [1, 2, {\"deep\": null}]}",
    "canary\ttab and  two spaces, trailing.",
    "Käse-Canary-ÄÖÜ-ß-日本語",
    "canary🐤emoji🐤and more",
    "CANARY_UPPER_CASE_AND_DIGITS_42",
    "canary'; DROP TABLE jobs; --",
    "$(canary) `canary` ${canary:-x}",
    "canary%s%n%x %20 %2F %%",
    "postgres://canary:canary-pass-word@db.example.com/x",
    "AKIACANARYACCESSKEY0/+wJalrXUtnFEMI/K7MDENG",
    "Y2FuYXJ5LXRoYXQtaXMtYmFzZTY0LWFscmVhZHk=",
    "canary\u{301}combining\u{200b}zero-width",
    "eyJhbGciOiJub25lIn0.eyJjYW5hcnkiOjF9.c2lnbmF0dXJl",
];

/// How many of them are secrets of the tenant.
const OF_TENANT: usize = 14;

/// Canaries in other places: passwords of users, one of whom is refused, of a database and of a
/// channel.
const PASSWORDS: [&str; 4] = [
    "canary-of-a-person-1",
    "canary-of-a-person-2",
    "canary-of-a-database",
    "whsec_Y2FuYXJ5LW9mLWEtY2hhbm5lbC0xMjM0NTY3",
];

/// Every form in which a value might be found.
pub fn forms(value: &str) -> Vec<Vec<u8>> {
    let quoted = Value::from(value).to_string();
    let json = quoted[1..quoted.len() - 1].to_owned();
    let percent = |keep: &str| -> String {
        let byte = |byte: u8| match byte {
            b if b.is_ascii_alphanumeric() || keep.as_bytes().contains(&b) => (b as char).into(),
            b => format!("%{b:02X}"),
        };
        value.bytes().map(byte).collect()
    };
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        json,
        percent("-._~"),
        percent("-._~/"),
        percent("-._~").to_lowercase(),
        hex,
    ];
    for before in ["", "u", "us"] {
        let padded = format!("{before}{value}");
        for engine in [&STANDARD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            // The part of the encoding that does not depend on the neighbours.
            let encoded = engine.encode(&padded);
            let begin = (before.len() * 8).div_ceil(6);
            forms.push(encoded[begin..padded.len() * 8 / 6].to_owned());
        }
    }
    // A part of it is too much as well.
    forms.extend(value.lines().filter(|line| line.len() > 12).map(str::to_owned));
    forms.into_iter().map(String::into_bytes).collect()
}

/// Every form of everything, by its first eight bytes: what is searched is long.
fn needles() -> &'static HashMap<[u8; 8], Vec<Vec<u8>>> {
    static NEEDLES: OnceLock<HashMap<[u8; 8], Vec<Vec<u8>>>> = OnceLock::new();
    NEEDLES.get_or_init(|| {
        let mut needles: HashMap<_, Vec<_>> = HashMap::new();
        for form in CANARIES.into_iter().chain(PASSWORDS).flat_map(forms) {
            let start = *form.first_chunk().expect("a form is long");
            needles.entry(start).or_default().push(form);
        }
        needles
    })
}

/// The first form that is in there.
fn found(bytes: &[u8]) -> Option<String> {
    let needles = needles();
    let mut starts = bytes.windows(8).enumerate();
    starts.find_map(|(at, window)| {
        let start: &[u8; 8] = window.first_chunk()?;
        let form = needles.get(start)?.iter().find(|form| bytes[at..].starts_with(form))?;
        Some(String::from_utf8_lossy(form).into_owned())
    })
}

fn assert_absent(place: &str, bytes: &[u8]) {
    if let Some(form) = found(bytes) {
        panic!("{place} holds {form:?}");
    }
}

#[test]
fn what_is_planted_would_be_found() {
    assert!(CANARIES.len() + PASSWORDS.len() >= 20);
    for canary in CANARIES.into_iter().chain(PASSWORDS) {
        for form in forms(canary) {
            let text = [b"x".repeat(1_000), form, b"y".repeat(1_000)].concat();
            assert!(found(&text).is_some(), "{canary}");
        }
    }
    assert_eq!(found(&b"nothing of interest ".repeat(1_000)), None);
}

/// Answers every request with all that it was sent, in several encodings and small pieces.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut part = [0; 4_096];
            while !request.windows(7).any(|end| end == b"the-end") {
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "the request ends early");
                request.extend_from_slice(&part[..count]);
            }
            let text = String::from_utf8(request.clone()).unwrap();
            let body = text.split("\r\n\r\n").nth(1).unwrap();
            let said = json!({
                "head": text, "body": serde_json::from_str::<Value>(body).unwrap(),
                "base64": STANDARD.encode(&request), "url": URL_SAFE.encode(body),
            });
            let said = said.to_string();
            let status = if text.contains("/fail") { "500 No" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", said.len());
            stream.write_all(head.as_bytes()).unwrap();
            for piece in said.as_bytes().chunks(11) {
                stream.write_all(piece).unwrap();
            }
        }
    });
    format!("http://{address}")
}

pub fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Searches all files of a folder, one of which must be there.
fn search(folder: &Path, one: &str) {
    let mut found = Vec::new();
    files(folder, &mut found);
    assert!(found.iter().any(|path| path.ends_with(one)), "{found:?}");
    for path in found {
        assert_absent(&path.display().to_string(), &fs::read(&path).unwrap());
    }
}

/// Runs a job to its end; answers the execution.
pub fn executed(server: &Server, job: &Value) -> Value {
    let (status, made) = server.call("POST", "/v1/jobs", Some(job));
    assert_eq!(status, 201, "{made}");
    let name = job["name"].as_str().unwrap();
    let (status, run) = server.call("POST", &format!("/v1/jobs/{name}/trigger"), None);
    assert_eq!(status, 202, "{run}");
    let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    until(|| {
        let (_, run) = server.call("GET", &path, None);
        run.get("completed_at").is_some().then_some(run)
    })
}

/// Plants what people and other things have instead of secrets.
fn plant_passwords(server: &Server) {
    let [ann, bob, database, channel] = PASSWORDS;
    let database = format!("postgres://u:{database}@127.0.0.1:1/d");
    for (path, body) in [
        ("/v1/users", json!({"name": "ann", "password": ann})),
        ("/v1/databases", json!({"name": "kept", "url": database})),
        (
            "/v1/alert-channels",
            json!({"name": "kept", "url": "https://127.0.0.1:1/", "secret": channel}),
        ),
    ] {
        let (status, said) = server.call("POST", path, Some(&body));
        assert_eq!(status, 201, "{said}");
        assert_absent(path, said.to_string().as_bytes());
    }
    let login = |user: &str, password: &str| {
        let body = json!({"user": user, "password": password});
        let (status, said) = server.call("POST", "/v1/login", Some(&body));
        assert_absent("a login", said.to_string().as_bytes());
        status
    };
    // A user types a password where the name belongs.
    assert_eq!([login("ann", ann), login("ann", bob), login(bob, ann)], [200, 401, 401]);
    let wrong = json!({"name": "eve", "password": bob, "extra": bob});
    let (status, said) = server.call("POST", "/v1/users", Some(&wrong));
    assert_eq!(status, 422, "{said}");
    assert_absent("a refused user", said.to_string().as_bytes());
    for path in ["databases", "alert-channels"] {
        let (_, said) = server.call("POST", &format!("/v1/{path}/kept/test"), None);
        assert_absent("a trial", said.to_string().as_bytes());
    }
}

#[test]
fn planted_values_are_found_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let database = testbed::postgres::Server::shared().url("postgres");
    let environment = [
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
        ("PUNCTUAL_DATABASES__PG", database.as_str()),
        ("PUNCTUAL_EXTERNAL__ENABLED", "true"),
        ("PUNCTUAL_EXTERNAL__ALLOW", "/bin"),
        ("PUNCTUAL_EXTERNAL__VARIABLES", "SECRET*"),
        ("PUNCTUAL_EXTERNAL__SANDBOX", "best-effort"),
        ("PUNCTUAL_ALERTS__WEBHOOK_URL", "http://127.0.0.1:1/"),
        ("PUNCTUAL_ALERTS__WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("RUST_LOG", "trace"),
    ];
    let server = Server::start_with(&data, &[], &environment);
    for (n, canary) in CANARIES.iter().enumerate() {
        let scope = if n < OF_TENANT { "tenant" } else { "cluster" };
        let path = format!("/v1/secrets/C{n}?scope={scope}");
        let (status, said) = server.call("PUT", &path, Some(&json!({"value": canary})));
        assert_eq!(status, 201, "{said}");
        assert_absent("the answer to a change", said.to_string().as_bytes());
    }
    plant_passwords(&server);
    let url = echo();
    let all: Vec<String> = (0..CANARIES.len()).map(|n| format!("${{secrets.C{n}}}")).collect();
    let mut executions = Vec::new();
    for path in ["ok", "fail"] {
        executions.push(executed(
            &server,
            &json!({
                "name": format!("http-{path}"), "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
                "payload": {
                    "type": "HTTP", "method": "POST",
                    "endpoint": format!("{url}/{path}/${{secrets.C2}}?key=${{secrets.C1}}"),
                    "headers": {"Authorization": "Bearer ${secrets.C0}", "X-Odd": "${secrets.C2}"},
                    "body": {"all": all, "end": "the-end"},
                },
            }),
        ));
    }
    let values = (0..CANARIES.len()).map(|n| {
        format!(
            "(${{secrets.C{n}}}::text, encode(convert_to(${{secrets.C{n}}}, 'UTF8'), 'base64'), \
             encode(convert_to(${{secrets.C{n}}}, 'UTF8'), 'hex'))"
        )
    });
    let select = format!("VALUES {}", values.collect::<Vec<_>>().join(", "));
    for (name, sql) in [
        ("sql-select", select.as_str()),
        ("sql-error", "SELECT ${secrets.C1}::int"),
        ("sql-raise", "SELECT (${secrets.C2} || '!')::uuid"),
    ] {
        executions.push(executed(
            &server,
            &json!({
                "name": name, "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
                "payload": {"type": "SQL", "database": "pg", "sql": sql},
            }),
        ));
    }
    let variables: serde_json::Map<String, Value> =
        all.iter().enumerate().map(|(n, text)| (format!("SECRET_{n}"), json!(text))).collect();
    let numbers: String = (0..CANARIES.len()).map(|n| format!(" {n}")).collect();
    let script = format!(
        "for n in{numbers}; do eval v=\\$SECRET_$n; echo \"$v\"; printf 'user:%s' \"$v\" | base64 -w0; \
                  echo; printf %s \"$v\" | base64 -w0 >&2; printf 'cut:'; printf %s \"$v\" | head -c 9; \
                  sleep 0.02; printf %s \"$v\" | tail -c +10; echo; done; echo \"$SECRET_1\" >&2; exit 3"
    );
    executions.push(executed(
        &server,
        &json!({
            "name": "external", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
            "payload": {"type": "EXTERNAL", "command": "/bin/sh", "arguments": ["-c", script], "environment": variables},
        }),
    ));

    // The jobs did see the values: there are stars in their place.
    let mut starred = 0;
    for execution in &executions {
        let id = execution["execution_id"].as_str().unwrap();
        for path in ["", "/logs", "/attempts"] {
            let (status, said) = server.call("GET", &format!("/v1/executions/{id}{path}"), None);
            assert_eq!(status, 200, "{said}");
            let said = said.to_string();
            assert_absent(&format!("{} {path}", execution["job_id"]), said.as_bytes());
            starred += usize::from(said.contains("***"));
        }
    }
    assert!(starred >= 2 * executions.len(), "{starred} {executions:#?}");
    for path in [
        "/v1/jobs",
        "/v1/executions",
        "/v1/dead-letters",
        "/v1/secrets",
        "/v1/audit",
        "/v1/audit?scope=cluster",
        "/v1/settings",
        "/v1/users",
        "/v1/keys",
        "/v1/databases",
        "/v1/databases/kept",
        "/v1/alert-channels",
        "/v1/alert-channels/kept",
        "/v1/alert-channels/kept/deliveries",
        "/v1/jobs/http-fail/stats",
        "/v1/jobs/http-fail/explain?at=2026-01-01T00:00:00Z",
        "/v1/nodes",
        "/docs",
        "/v1/stats",
        "/v1/workers",
        "/metrics",
        "/openapi.json",
        "/readyz?verbose",
    ] {
        let (_, said) = server.call("GET", path, None);
        assert_absent(path, said.to_string().as_bytes());
    }
    // A backup has everything that is kept, and the names of secrets, but no value.
    let backup = folder.path().join("all.backup");
    let made =
        run(["backup", "--to", backup.to_str().unwrap(), "--data", data.to_str().unwrap()], b"");
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut unpacked = Vec::new();
    zstd::Decoder::new(fs::File::open(&backup).unwrap())
        .unwrap()
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_absent("the backup", &unpacked);
    // The last writes are in the write-ahead log while the server runs.
    search(&data, "punctual.db-wal");
    server.terminate();
    let log = server.rest_of_log();
    assert!(log.contains("tokio_postgres") && log.contains("TRACE"), "the log says everything");
    assert_absent("the log", log.as_bytes());
    search(&data, "punctual.db");
}

#[test]
fn a_lost_key_is_reported_and_stops_no_other_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let environment = [("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1")];
    let server = Server::start_with(&data, &[], &environment);
    let (status, _) = server.call("PUT", "/v1/secrets/KEY", Some(&json!({"value": "abcdefgh"})));
    assert_eq!(status, 201);
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    fs::remove_file(data.join("master.key")).unwrap();
    let server = Server::start_with(&data, &[], &environment);
    let job = json!({
        "name": "needs", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
        "payload": {"endpoint": "http://127.0.0.1:9/", "headers": {"Authorization": "${secrets.KEY}"}},
    });
    let run = executed(&server, &job);
    assert_eq!(run["error_name"], "SECRET_UNREADABLE", "{run}");
    let other = json!({"name": "needs-none", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(executed(&server, &other)["status"], "COMPLETED");
    let (status, ready) = server.call("GET", "/readyz?verbose", None);
    assert_eq!((status, &ready["secrets"]["ok"]), (200, &json!(false)), "{ready}");
    assert!(ready["secrets"]["detail"].as_str().unwrap().starts_with("1 of 1 secrets"), "{ready}");
}

#[test]
fn a_secret_is_set_from_stdin_and_the_master_key_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let data_text = data.to_str().unwrap();
    let punctual = |args: &[&str], input: &[u8]| {
        let args: Vec<&str> = args.iter().copied().chain(["--data", data_text]).collect();
        run(args, input)
    };
    let set = punctual(&["secret", "set", "KEY"], b"a value of a secret\n");
    assert_eq!((set.code, set.stdout.as_str()), (Some(0), ""), "{set:?}");
    assert!(set.stderr.contains("KEY has version 1 now"), "{set:?}");
    let short = punctual(&["secret", "set", "KEY"], b"abc\n");
    assert_eq!(short.code, Some(2), "{short:?}");
    let list = punctual(&["secret", "list", "-o", "name"], b"");
    assert_eq!(list.stdout, "KEY\n", "{list:?}");
    let key = || fs::read_to_string(data.join("master.key")).unwrap();
    let before = key();
    let rotated = punctual(&["secret", "rotate-master", "--yes"], b"");
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert!(rotated.stderr.contains("1 secrets are under it"), "{rotated:?}");
    assert_ne!(key(), before);
    assert_eq!(key().lines().count(), 1);
    let mode = fs::metadata(data.join("master.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next start reads it.
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    let server = Server::start(&data, &[]);
    let (_, ready) = server.call("GET", "/readyz?verbose", None);
    assert_eq!(ready["secrets"]["detail"], "1 secrets can be read", "{ready}");
    let deleted = punctual(&["secret", "delete", "KEY", "--yes"], b"");
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    assert_eq!(punctual(&["secret", "delete", "KEY", "--yes"], b"").code, Some(3));
}
