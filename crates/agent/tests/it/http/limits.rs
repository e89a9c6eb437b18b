//! Endless responses of every kind: the bytes that are read are bounded, and so are those that an
//! endpoint can send.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::HttpOptions;
use agent::guard::Addresses;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::server::{Server, answer, flood};
use super::{agent, allowing, assignment, execute, run};

/// Bytes that the buffers of two sockets may hold besides those that were read.
const BUFFERS: usize = 16 << 20;

/// A server that begins a response and never stops; the counter has the bytes that it could send.
async fn flooding(head: impl Into<Vec<u8>>, part: Vec<u8>) -> (Server, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let (counter, head, part) = (sent.clone(), Arc::new(head.into()), Arc::new(part));
    let server = Server::start(move |_, mut socket| {
        let (counter, head, part) = (counter.clone(), head.clone(), part.clone());
        async move {
            if socket.write_all(&head).await.is_ok() {
                flood(&mut socket, &part, &counter).await;
            }
        }
    })
    .await;
    (server, sent)
}

#[tokio::test]
async fn ten_gigabytes_are_cut_after_one_megabyte() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n";
    let (server, sent) = flooding(head, vec![b'x'; 64 << 10]).await;
    let ended = run(json!({ "endpoint": server.url("/") })).await;
    ended.assert_completed();
    assert_eq!(ended.result.message, "the answer was cut after 1048576 bytes");
    assert_eq!(ended.result.result, None);
    assert_eq!(ended.stdout.len(), 1 << 20);
    assert_eq!(ended.details()["body_cut"], true);
    assert_eq!(ended.details()["bytes_in"], 1 << 20);
    assert!(sent.load(Ordering::SeqCst) < BUFFERS, "{sent:?}");
}

#[tokio::test]
async fn an_endless_failure_is_a_failure() {
    let (server, sent) = flooding("HTTP/1.1 500 X\r\n\r\n", vec![b'x'; 64 << 10]).await;
    let ended = run(json!({ "endpoint": server.url("/") })).await;
    ended.assert_failed("HTTP_500", "answered 500; the answer was cut after 1048576 bytes");
    assert!(sent.load(Ordering::SeqCst) < BUFFERS, "{sent:?}");
}

#[tokio::test]
async fn a_bomb_is_cut_while_it_unpacks() {
    // Every part unpacks to a megabyte, so what fits into the buffers of the sockets alone would
    // be many gigabytes. Parts that are flushed can follow each other for ever.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let mut part = || {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
        encoder.flush().unwrap();
        std::mem::take(encoder.get_mut())
    };
    let (first, next) = (part(), part());
    assert!(next.len() < 2_000, "{}", next.len());
    let mut head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n".to_vec();
    head.extend_from_slice(&first[..]);
    let (server, sent) = flooding(head, next).await;
    let ended = run(json!({ "endpoint": server.url("/") })).await;
    ended.assert_completed();
    assert_eq!(ended.details()["bytes_in"], 1 << 20);
    assert_eq!(ended.details()["body_cut"], true);
    assert!(sent.load(Ordering::SeqCst) < BUFFERS, "{sent:?}");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    for (size, cut) in [(99, false), (100, false), (101, true)] {
        let server = Server::answering(answer(200, &[], "7".repeat(size))).await;
        let options = HttpOptions { body_bytes_max: 100, ..allowing(&["127.0.0.1"]) };
        let assignment = assignment(json!({ "endpoint": server.url("/") }));
        let ended = execute(&agent(options), &assignment).await;
        ended.assert_completed();
        assert_eq!(ended.details()["body_cut"], cut, "{size}");
        assert_eq!(ended.result.result.is_some(), !cut, "{size}");
        assert_eq!(ended.stdout.len(), size.min(100), "{size}");
    }
}

#[tokio::test]
async fn endless_headers_end() {
    for head in ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nx: "] {
        let part = if head.ends_with(' ') { "x".repeat(4_096) } else { "a: b\r\n".repeat(500) };
        let (server, sent) = flooding(head, part.into_bytes()).await;
        let ended = run(json!({ "endpoint": server.url("/") })).await;
        ended.assert_failed("PROTOCOL", "does not keep to HTTP");
        assert!(sent.load(Ordering::SeqCst) < BUFFERS, "{sent:?}");
    }
}

#[tokio::test]
async fn an_answer_that_pauses_for_too_long_is_given_up() {
    for (head, code, message) in [
        ("HTTP/1.1 200 OK\r\n\r\nsome", "TIMEOUT", "sent nothing for 0.2 s"),
        ("HTTP/1.1 404 X\r\n\r\nsome", "HTTP_404", "sent nothing for 0.2 s"),
    ] {
        let server = Server::start(move |_, mut socket| async move {
            socket.write_all(head.as_bytes()).await.unwrap();
            // Until the other side has had enough.
            let _ = socket.read(&mut [0]).await;
        })
        .await;
        let idle_timeout = Duration::from_millis(200);
        let options = HttpOptions { idle_timeout, ..allowing(&["127.0.0.1"]) };
        let assignment = assignment(json!({ "endpoint": server.url("/") }));
        let ended = execute(&agent(options), &assignment).await;
        ended.assert_failed(code, message);
        assert_eq!(ended.stdout, b"some");
    }
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_given_up() {
    let server = Server::accept("127.0.0.1:0", |mut socket| async move {
        let mut sink = Vec::new();
        let _ = socket.read_to_end(&mut sink).await;
    })
    .await;
    let connect_timeout = Duration::from_millis(200);
    let options = HttpOptions { connect_timeout, ..allowing(&["127.0.0.1"]) };
    let url = format!("https://{}/", server.address);
    let ended = execute(&agent(options), &assignment(json!({ "endpoint": url }))).await;
    ended.assert_failed("TIMEOUT", "no connection to https://127.0.0.1");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_lookup_that_never_ends_is_given_up() {
    struct Never;
    impl agent::guard::Lookup for Never {
        fn addresses<'a>(&'a self, _name: &'a str) -> Addresses<'a> {
            Box::pin(std::future::pending())
        }
    }
    let connect_timeout = Duration::from_millis(200);
    let options = HttpOptions { connect_timeout, lookup: Arc::new(Never), ..allowing(&[]) };
    let assignment = assignment(json!({ "endpoint": "http://slow.example/" }));
    let ended = execute(&agent(options), &assignment).await;
    ended.assert_failed("TIMEOUT", "no connection to http://slow.example within 0.2 s");
}
