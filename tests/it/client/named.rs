//! Databases and alert channels: from the command line to a server and back, with what they name
//! really asked.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use serde_json::{Value, json};

use super::bench::Server;
use crate::serve::process::until;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn a_database_is_made_used_and_removed_without_a_restart() {
    let server = Server::start();
    // The default one.
    assert_eq!(server.ok(&["database", "list", "-o", "name"]), "main\n");
    let tried = server.run(&["database", "test", "main"]);
    assert!(tried.code == Some(0) && tried.stderr.contains("main: SQLite"), "{}", tried.stderr);
    let made = server.feed(
        &["database", "create", "sales", "--address-file", "-"],
        "postgres://u:geheim@127.0.0.1:1/d\n",
    );
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let shown = server.ok(&["database", "show", "sales"]);
    assert!(shown.contains("postgres://u:***@127.0.0.1:1/d"), "{shown}");
    // No server listens there: the job finds the database and reports the failed connection.
    let ended = server.run(&["database", "test", "sales"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot be reached"), "{}", ended.stderr);
    let select =
        ["job", "create", "q", "--sql", "SELECT 1", "--database", "sales", "--retries", "0"];
    server.ok(&select);
    let ended = server.run(&["job", "run", "q", "--wait"]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    let runs = server.ok(&["run", "list", "q", "-o", "json"]);
    assert!(runs.contains("CONNECTION_FAILED") && !runs.contains("geheim"), "{runs}");
    server.ok(&["database", "edit", "sales", "--rename", "old", "--description", "gone soon"]);
    let ended = server.run(&["job", "run", "q", "--wait"]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert!(server.ok(&["run", "list", "q", "-o", "json"]).contains("UNKNOWN_DATABASE"));
    assert_eq!(server.run(&["database", "delete", "main", "--yes"]).code, Some(4));
    server.ok(&["database", "delete", "old", "--yes"]);
    assert_eq!(server.run(&["database", "show", "old"]).code, Some(3));
    assert_eq!(server.run(&["database", "edit", "main"]).code, Some(2));
}

/// Answers so many requests, and sends their texts to the receiver.
fn sink(count: usize) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(count) {
            let mut stream = stream.unwrap();
            let mut said = String::new();
            while !said.ends_with('}') {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).unwrap();
                said.push_str(std::str::from_utf8(&part[..read]).unwrap());
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
            send.send(said).unwrap();
        }
    });
    (url, receive)
}

#[test]
fn alerts_reach_a_channel_that_was_made_while_the_server_runs() {
    let server = Server::with(&[("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1")]);
    let (url, heard) = sink(2);
    let create = ["channel", "create", "ops", "--address", &url, "--secret-file", "-"];
    let made = server.feed(&create, SECRET);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let wait = std::time::Duration::from_secs(60);
    server.ok(&["channel", "test", "ops"]);
    let test = heard.recv_timeout(wait).unwrap();
    assert!(test.contains("\"type\":\"TEST\""), "{test}");
    assert!(test.contains("webhook-signature: v1,"), "{test}");
    // A job fails for the last time.
    let edit = ["channel", "edit", "ops", "--kind", "JOB_MAX_RETRIES_EXCEEDED"];
    server.ok(&edit);
    let doomed = ["job", "create", "doomed", "--http", "http://127.0.0.1:1/", "--retries", "0"];
    server.ok(&doomed);
    assert_eq!(server.run(&["job", "run", "doomed", "--wait"]).code, Some(7));
    let alert = heard.recv_timeout(wait).unwrap();
    assert!(alert.contains("\"type\":\"JOB_MAX_RETRIES_EXCEEDED\""), "{alert}");
    // It is recorded after it arrived.
    let listed = until(|| {
        let listed = server.ok(&["channel", "deliveries", "ops", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed.as_array().is_some_and(|all| !all.is_empty()).then_some(listed)
    });
    assert_eq!(listed[0]["status"], json!("DELIVERED"));
    let shown = server.ok(&["channel", "show", "ops", "-o", "json"]);
    assert!(!shown.contains("whsec"), "{shown}");
    server.ok(&["channel", "delete", "ops", "--yes"]);
}

#[test]
fn a_channel_goes_to_public_addresses_only() {
    let server = Server::start();
    let create =
        ["channel", "create", "in", "--address", "http://127.0.0.1:1/", "--secret-file", "-"];
    assert_eq!(server.feed(&create, SECRET).code, Some(0));
    let ended = server.run(&["channel", "test", "in"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("127.0.0.1"), "{}", ended.stderr);
}
