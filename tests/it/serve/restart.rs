//! A stop is graceful.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use super::process::{Server, until};

/// A job that calls this test, and the call when it comes.
fn call_from_job(server: &Server, listener: &TcpListener) -> (String, TcpStream) {
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let job = json!({"name": "caller", "job_type": "MANUAL", "payload": {"endpoint": endpoint}});
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (_, run) = server.call("POST", "/v1/jobs/caller/trigger", None);
    let (call, _) = listener.accept().unwrap();
    // HTTP permits no response before the request was read.
    let asked = BufReader::new(&call).lines().map(Result::unwrap).find(String::is_empty);
    assert_eq!(asked.as_deref(), Some(""));
    (run["execution_id"].as_str().unwrap().to_owned(), call)
}

const ALLOW: [(&str, &str); 1] = [("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1")];

#[test]
fn a_stop_waits_for_work_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &[], &ALLOW);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (run, mut call) = call_from_job(&server, &listener);
    server.terminate();
    server.line_with("stopping");
    call.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    assert_eq!(server.wait(), Some(0));
    let server = Server::start(&data, &[]);
    let (_, run) = server.call("GET", &format!("/v1/executions/{run}"), None);
    assert_eq!((&run["status"], &run["attempt_number"]), (&json!("COMPLETED"), &json!(1)), "{run}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["--shutdown-grace", "1h"], &ALLOW);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (run, _call) = call_from_job(&server, &listener);
    server.terminate();
    server.line_with("stopping");
    server.terminate();
    server.line_with("asked a second time");
    assert_eq!(server.wait(), Some(0));
    // Its node is gone without a word; the next one knows that the run had begun, and tries it
    // again at once.
    let server = Server::start_with(&data, &[], &ALLOW);
    let path = format!("/v1/executions/{run}/attempts");
    let attempts = until(|| {
        let (_, page) = server.call("GET", &path, None);
        let attempts = page["data"].as_array()?.clone();
        (!attempts.is_empty()).then_some(attempts)
    });
    assert_eq!(attempts[0]["status"], "LOST", "{attempts:?}");
}

#[test]
fn a_server_with_nothing_to_do_stops_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--shutdown-grace", "5s"]);
    let (status, answer) = server.call("GET", "/readyz?verbose", None);
    assert_eq!((status, answer["status"].as_str()), (200, Some("ready")));
    server.terminate();
    server.line_with("stopping");
    server.line_with("\"stopped\"");
    assert_eq!(server.wait(), Some(0));
}
