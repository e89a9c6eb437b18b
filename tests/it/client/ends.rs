//! How commands end when something is not right.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use super::bench::Server;
use crate::binary::{Ended, ended};

/// The exit code, and the first line of the message.
fn end(ended: &Ended) -> (Option<i32>, &str) {
    (ended.code, ended.stderr.lines().next().unwrap_or(""))
}

#[test]
fn the_codes_mean_what_the_help_says() {
    let server = Server::start();
    server.ok(&["job", "create", "a", "--noop"]);
    let none = "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11";
    let rows: &[(&[&str], i32, &str)] = &[
        (&["job", "create", "b", "--cron", "61 * * * *", "--noop"], 2, "61 is out of range"),
        (
            &["job", "create", "b", "--cron", "0 0 * * *", "--tz", "Mars/Base", "--noop"],
            2,
            "Mars/Base",
        ),
        (&["job", "create", "b", "--http", "ftp://x"], 2, "payload.endpoint"),
        (&["job", "create", "b"], 2, "no action given"),
        (&["job", "show", "nobody"], 3, "nobody"),
        (&["job", "run", "nobody", "--wait"], 3, "nobody"),
        (&["job", "delete", "a", "nobody", "--yes"], 3, "nobody"),
        (&["run", "show", none], 3, none),
        (&["run", "logs", none], 3, ""),
        (&["run", "show", "--job", "a"], 3, "a has not run yet"),
        (&["job", "create", "a", "--noop"], 4, "a"),
        (&["job", "list", "--token", "wrong"], 5, ""),
        (&["job", "list", "--token", "w\nrong"], 5, "invalid API key"),
        (
            &["job", "list", "--server", "http://127.0.0.1:1"],
            5,
            "there is no key for the server at http://127.0.0.1:1/",
        ),
        (
            &["job", "list", "--server", "http://127.0.0.1:1", "--token", "pk_x"],
            6,
            "cannot reach the server at http://127.0.0.1:1/",
        ),
        (&["job", "list", "--server", "nonsense"], 2, "is not the address of a server"),
        (&["job", "list", "--context", "none"], 2, "there is no context \"none\""),
    ];
    for (args, code, part) in rows {
        let ended = server.run(args);
        let (got, line) = end(&ended);
        assert_eq!(got, Some(*code), "{args:?} {ended:?}");
        assert!(line.starts_with("error: ") && line.contains(part), "{args:?} {ended:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_explained() {
    let server = Server::start();
    let ended = server.run(&["status", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(6));
    assert!(ended.stderr.contains("\nhint: start one with `punctual serve`"), "{ended:?}");
}

#[test]
fn waiting_ends_with_the_outcome_of_the_run() {
    let server = Server::start();
    // No server listens there, and the address may not be called anyway.
    let failing = ["job", "create", "f", "--http", "http://127.0.0.1:1/", "--retries", "0"];
    server.ok(&failing);
    let failed = server.run(&["job", "run", "f", "--wait", "--timeout", "60s"]);
    assert_eq!(failed.code, Some(7), "{failed:?}");
    assert!(failed.stderr.contains("error: the run ended FAILED: "), "{failed:?}");

    server.ok(&["job", "create", "a", "--noop"]);
    let later = ["job", "run", "a", "--at", "2100-01-01T00:00:00Z", "--wait", "--timeout", "50ms"];
    let waited = server.run(&later);
    assert_eq!(waited.code, Some(124), "{waited:?}");
    assert!(waited.stderr.contains("error: run "), "{waited:?}");
    let pending = server.json(&["run", "list", "a", "--planned"]);
    let id = pending[0]["execution_id"].as_str().unwrap();
    let cancelled = server.run(&["run", "cancel", id, "--yes", "--reason", "not needed"]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(server.json(&["run", "show", id])["status"], "CANCELLED");
    let again = server.run(&["run", "retry", id]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_ne!(again.stdout.trim(), id);
}

#[test]
fn a_change_that_somebody_overtook_is_a_conflict() {
    let server = Server::start();
    server.write("a.yaml", "name: a\njob_type: MANUAL\nversion: 1\npayload: {type: NOOP}\n");
    let apply = ["apply", "-f", "a.yaml"];
    server.ok(&apply);
    server.ok(&["job", "edit", "a", "--priority", "7"]);
    let late = server.run(&apply);
    assert_eq!(late.code, Some(4), "{late:?}");
}

#[test]
fn keys_come_from_where_they_are_named() {
    let server = Server::start();
    let url = server.url();
    let with = |variables: &[(&str, &str)]| {
        let mut command = server.command(["job", "list"]);
        command.env_remove("PUNCTUAL_DATA").envs(variables.iter().copied());
        ended(&command.output().unwrap()).code
    };
    assert_eq!(with(&[("PUNCTUAL_SERVER", &url)]), Some(5));
    assert_eq!(with(&[("PUNCTUAL_SERVER", &url), ("PUNCTUAL_TOKEN", &server.key())]), Some(0));
    let file = server.path("data/admin.key");
    let file = file.to_str().unwrap();
    assert_eq!(with(&[("PUNCTUAL_SERVER", &url), ("PUNCTUAL_TOKEN_FILE", file)]), Some(0));
    let contexts = format!("[contexts.here]\nurl = '{url}'\ntoken_file = '{file}'\n");
    server.write(".config/punctual/config.toml", &contexts);
    assert_eq!(with(&[("PUNCTUAL_CONTEXT", "here")]), Some(0));
}

/// A listener that takes every request for its own and answers 204: its address, and the heads of
/// the requests that it got.
fn stranger() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (send, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut part = [0; 16_384];
            let count = stream.read(&mut part).unwrap_or(0);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            if send.send(String::from_utf8_lossy(&part[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    (address, heads)
}

#[test]
fn a_key_stays_with_the_server_that_it_belongs_to() {
    let server = Server::start();
    let (address, heads) = stranger();
    let contexts = format!(
        "current = 'here'\n[contexts.here]\nurl = '{}'\ntoken = '{}'\n",
        server.url(),
        server.key()
    );
    server.write(".config/punctual/config.toml", &contexts);
    let delete = ["job", "delete", "a", "--yes", "--server", &address];
    for context in [None, Some("here")] {
        let mut args = delete.to_vec();
        args.extend(context.iter().flat_map(|name| ["--context", name]));
        let refused = server.run(&args);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("there is no key for the server at"), "{refused:?}");
        assert!(refused.stderr.contains("--token"), "{refused:?}");
    }
    // Nothing at all was sent there.
    assert!(heads.try_recv().is_err());
}

#[test]
fn an_answer_of_another_program_is_an_error() {
    let server = Server::start();
    let (address, heads) = stranger();
    let to = ["--server", &address, "--token", "pk_given"];
    let delete = ["job", "delete", "a", "--yes"];
    let rows: [&[&str]; 4] =
        [&delete, &["job", "pause", "a"], &["status"], &["secret", "delete", "s", "--yes"]];
    for args in rows {
        let ended = server.run(&[args, &to].concat());
        assert_eq!(ended.code, Some(1), "{args:?} {ended:?}");
        assert!(ended.stderr.contains("does not come from a Punctual server"), "{ended:?}");
        assert!(heads.recv().unwrap().contains("pk_given"));
    }
}
