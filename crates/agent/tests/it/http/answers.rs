//! The interpretation of responses.

use std::io::Write as _;

use domain::run::ErrorCode;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::run;
use super::server::{Server, answer, finish, read_request};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_answer_becomes_result_output_and_details() {
    let body = "{\"rows\": [1, 2]}\n";
    let server =
        Server::answering(answer(201, &[("content-type", "application/json")], body)).await;
    let ended = run(json!({ "endpoint": server.url("/"), "body": "hello" })).await;
    ended.assert_completed();
    assert_eq!(ended.result.message, "");
    assert_eq!(ended.result.result.as_deref(), Some("{\"rows\": [1, 2]}"));
    assert_eq!(ended.stdout, body.as_bytes());
    let details = ended.details();
    for (name, value) in [
        ("status", json!(201)),
        ("http_version", json!("HTTP/1.1")),
        ("remote_address", json!(server.address.to_string())),
        ("redirects", json!(0)),
        ("bytes_in", json!(17)),
        ("bytes_out", json!(5)),
        ("body_cut", json!(false)),
    ] {
        assert_eq!(details[name], value, "{name}");
    }
    assert!(details["duration_ms"].is_u64());
    assert_eq!(details["limits"]["body_bytes"], 1 << 20);
}

#[tokio::test]
async fn statuses_decide() {
    for (status, expected, code) in [
        (200, json!([]), None),
        (204, json!([]), None),
        (404, json!([]), Some(404)),
        (500, json!([]), Some(500)),
        (304, json!([]), Some(304)),
        (302, json!([]), Some(302)),
        (404, json!([2, 404]), None),
        (200, json!([204]), Some(200)),
        (503, json!([5]), None),
    ] {
        let body = if matches!(status, 204 | 304) { "" } else { "[true]" };
        let server = Server::answering(answer(status, &[], body)).await;
        let ended = run(json!({ "endpoint": server.url("/"), "expected_status": expected })).await;
        assert_eq!(ended.result.error, code.map(ErrorCode::Http), "{status} {expected}");
        // The body of the response is kept either way.
        let result = (!body.is_empty()).then_some(body);
        assert_eq!(ended.result.result.as_deref(), result, "{status} {expected}");
        assert_eq!(ended.details()["status"], status);
        if code.is_some() {
            let message = format!("http://{} answered {status}", server.address);
            assert_eq!(ended.result.message, message);
        }
    }
}

#[tokio::test]
async fn results_are_json_text_or_a_description() {
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let described = json!({ "bytes": 100_000, "content_type": "image/png" });
    let text = "x".repeat(70_000);
    let large = "the answer exceeds 64 KB and is in the output only";
    for (content_type, body, result, message) in [
        ("application/json", &b"[1]"[..], json!([1]), ""),
        ("text/plain", b"done\n", json!("done\n"), ""),
        ("application/json", b"{broken", json!("{broken"), ""),
        ("image/png", &binary, described, ""),
        ("text/plain", text.as_bytes(), Value::Null, large),
        ("text/plain", b"", Value::Null, ""),
    ] {
        let server = Server::answering(answer(200, &[("content-type", content_type)], body)).await;
        let ended = run(json!({ "endpoint": server.url("/"), "method": "GET" })).await;
        ended.assert_completed();
        let found = ended.result.result.as_deref().unwrap_or("null");
        assert_eq!(serde_json::from_str::<Value>(found).unwrap(), result, "{content_type}");
        assert_eq!(ended.result.message, message, "{content_type}");
        assert_eq!(ended.stdout, body, "{content_type}");
    }
}

#[tokio::test]
async fn packed_answers_are_unpacked() {
    let packed = gzip(b"{\"a\":1}");
    let server = Server::answering(answer(200, &[("content-encoding", "gzip")], &packed)).await;
    let ended = run(json!({ "endpoint": server.url("/") })).await;
    ended.assert_completed();
    assert_eq!(ended.result.result.as_deref(), Some("{\"a\":1}"));
    assert!(server.only().header("accept-encoding").unwrap().contains("gzip"));

    let mut broken = packed;
    broken[12] ^= 0xff;
    for (body, what) in [(broken, "broken"), (b"not packed".to_vec(), "plain")] {
        let server = Server::answering(answer(200, &[("content-encoding", "gzip")], body)).await;
        let ended = run(json!({ "endpoint": server.url("/") })).await;
        assert_eq!(ended.code(), "BODY", "{what}: {:?}", ended.result);
        assert!(ended.result.message.contains("cannot be unpacked"), "{:?}", ended.result);
    }
}

#[tokio::test]
async fn a_head_has_no_body_whatever_its_headers_say() {
    let headers = [("content-encoding", "gzip"), ("content-type", "application/json")];
    let mut head = answer(200, &headers, "x".repeat(500));
    head.truncate(head.len() - 500);
    let server = Server::answering(head).await;
    let ended = run(json!({ "endpoint": server.url("/"), "method": "HEAD" })).await;
    ended.assert_completed();
    assert_eq!((ended.result.result.as_deref(), ended.stdout.len()), (None, 0));
}

#[tokio::test]
async fn an_endpoint_may_ask_to_be_left_alone() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (status, expected, headers, seconds) in [
        (503, json!([]), vec![("retry-after", "120")], Some(120)),
        (429, json!([]), vec![("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT"), date], Some(60)),
        (429, json!([]), vec![("retry-after", "whenever"), date], None),
        (500, json!([]), vec![("retry-after", "120")], None),
        (503, json!([5]), vec![("retry-after", "120")], None),
    ] {
        let server = Server::answering(answer(status, &headers, "")).await;
        let ended = run(json!({ "endpoint": server.url("/"), "expected_status": expected })).await;
        let after = seconds.map(SignedDuration::from_secs);
        assert_eq!(ended.result.retry_after, after, "{status} {headers:?}");
    }
}

#[tokio::test]
async fn what_breaks_has_a_name() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf".to_vec();
    let half_of_500 = b"HTTP/1.1 500 X\r\ncontent-length: 1000\r\n\r\nhalf".to_vec();
    for (bytes, code, message) in [
        (b"".to_vec(), "RESET", "broke the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent".to_vec(), "RESET", "broke the connection"),
        (half, "RESET", "broke the connection"),
        (half_of_500, "HTTP_500", "answered 500; http://"),
        (b"220 mail.example.org ESMTP\r\n\r\n".to_vec(), "PROTOCOL", "does not keep to HTTP"),
        (b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n".to_vec(), "PROTOCOL", "does not keep"),
    ] {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let server = Server::answering(bytes).await;
        let ended = run(json!({ "endpoint": server.url("/path?secret") })).await;
        assert_eq!(ended.code(), code, "{shown:?}: {:?}", ended.result);
        assert!(ended.result.message.contains(message), "{shown:?}: {:?}", ended.result);
        assert!(!ended.result.message.contains("secret"), "{:?}", ended.result);
        assert!(!ended.result.error.unwrap().is_refusal());
    }
    // The bytes before the break are in the output.
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    assert_eq!(run(json!({ "endpoint": server.url("/") })).await.stdout, b"half");
}

#[tokio::test]
async fn a_reset_a_refusal_and_a_missing_name_are_told_apart() {
    let reset = Server::accept("127.0.0.1:0", |mut socket| async move {
        read_request(&mut socket).await;
        socket.set_zero_linger().unwrap();
    })
    .await;
    let ended = run(json!({ "endpoint": reset.url("/") })).await;
    ended.assert_failed("RESET", "broke the connection");

    let gone = Server::answering("").await;
    let url = gone.url("/");
    drop(gone);
    // The listener goes away with its task, a moment later.
    for _ in 0..1_000 {
        if run(json!({ "endpoint": url })).await.code() == "CONNECT" {
            break;
        }
    }
    run(json!({ "endpoint": url })).await.assert_failed("CONNECT", "no connection to http://127");

    let missing = run(json!({ "endpoint": "http://no-such-host.invalid/" })).await;
    missing.assert_failed("DNS", "the address of http://no-such-host.invalid was not found");
}

#[tokio::test]
async fn an_answer_before_the_request_is_read_is_an_answer() {
    let server = Server::accept("127.0.0.1:0", |mut socket| async move {
        finish(&mut socket, &answer(413, &[], "")).await;
    })
    .await;
    let ended = run(json!({ "endpoint": server.url("/"), "body": "x".repeat(1 << 20) })).await;
    assert!(["HTTP_413", "RESET"].contains(&ended.code().as_str()), "{:?}", ended.result);
}
