//! A wish to stop is obeyed at once, wherever the request is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::Stop;
use agent::output::{Limits, Output, Outputs};
use domain::run::AttemptEnd;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::server::{Server, flood};
use super::{agent, allowing, assignment};

/// Only a broken agent takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops an attempt when the server has sent these bytes and waits for its connection to end.
/// Returns how long the agent took to stop.
async fn stop_after(bytes: &'static str, end: AttemptEnd) -> Duration {
    let reached = Arc::new(Semaphore::new(0));
    let closed = Arc::new(Semaphore::new(0));
    let (at, gone) = (reached.clone(), closed.clone());
    let server = Server::start(move |_, mut socket| {
        let (at, gone) = (at.clone(), gone.clone());
        async move {
            socket.write_all(bytes.as_bytes()).await.unwrap();
            at.add_permits(1);
            while matches!(socket.read(&mut [0; 64]).await, Ok(1..)) {}
            gone.add_permits(1);
        }
    })
    .await;
    let (ask, requests) = watch::channel(None);
    let agent = agent(allowing(&["127.0.0.1"]));
    let assignment = assignment(json!({ "endpoint": server.url("/") }));
    let folder = tempfile::tempdir().unwrap();
    let outputs = Outputs::new(folder.path(), Limits::default()).unwrap();
    let output = outputs.open(assignment.run, assignment.attempt);
    let written = output.clone();
    let attempt =
        tokio::spawn(async move { agent.execute(&assignment, output, Stop::new(requests)).await });
    reached.acquire().await.unwrap().forget();
    let begun = bytes.ends_with("\r\n\r\nslow");
    let arrived = async {
        while begun && written.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, arrived).await.unwrap();
    let asked = Instant::now();
    ask.send(Some(end)).unwrap();
    let result = timeout(PATIENCE, attempt).await.unwrap().unwrap();
    let took = asked.elapsed();
    assert_eq!(result.end, end);
    let host = format!("http://{}", server.address);
    let phase = if begun {
        format!("while {host} was answering")
    } else {
        format!("before {host} answered")
    };
    let why = if end == AttemptEnd::Timeout { "took too long and was" } else { "was" };
    assert_eq!(result.message, format!("the request {why} dropped {phase}"));
    assert_eq!(result.error, None);
    timeout(PATIENCE, closed.acquire()).await.unwrap().unwrap().forget();
    took
}

/// How soon the agent obeys.
const PROMISED: Duration = Duration::from_millis(100);

#[tokio::test]
async fn slow_heads_and_slow_bodies_are_dropped_within_a_tenth_of_a_second() {
    for end in [AttemptEnd::Cancelled, AttemptEnd::Timeout, AttemptEnd::Lost] {
        for bytes in ["", "HTTP/1.1 200 OK\r\nx-head: slow", "HTTP/1.1 200 OK\r\n\r\nslow"] {
            // The machine may be busy with other things; that it is busy ten times is not luck.
            let mut took = Vec::new();
            while took.len() < 10 && took.iter().all(|took| *took >= PROMISED) {
                took.push(stop_after(bytes, end).await);
            }
            assert!(took.iter().any(|took| *took < PROMISED), "{end:?} {bytes:?}: {took:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_keeps_us_busy_cannot_keep_us() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let server = Server::start(move |_, mut socket| {
        let counter = counter.clone();
        async move {
            flood(&mut socket, &b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000), &counter).await;
        }
    })
    .await;
    let (ask, requests) = watch::channel(None);
    let agent = agent(allowing(&["127.0.0.1"]));
    let assignment = assignment(json!({ "endpoint": server.url("/") }));
    let attempt = agent.execute(&assignment, Output::default(), Stop::new(requests));
    let stopper = async {
        while sent.load(Ordering::SeqCst) < 1 << 20 {
            tokio::task::yield_now().await;
        }
        ask.send(Some(AttemptEnd::Cancelled)).unwrap();
    };
    let both = async { tokio::join!(attempt, stopper).0 };
    let result = timeout(PATIENCE, both).await.unwrap();
    assert_eq!(result.end, AttemptEnd::Cancelled);
}

#[tokio::test]
async fn an_attempt_that_is_stopped_before_it_begins_connects_to_nothing() {
    let server = Server::answering("").await;
    let (_ask, requests) = watch::channel(Some(AttemptEnd::Cancelled));
    let agent = agent(allowing(&["127.0.0.1"]));
    let assignment = assignment(json!({ "endpoint": server.url("/") }));
    let result = agent.execute(&assignment, Output::default(), Stop::new(requests)).await;
    assert_eq!(result.end, AttemptEnd::Cancelled);
    assert_eq!(server.connections(), 0);
}
