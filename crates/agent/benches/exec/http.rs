//! HTTP jobs against a server on this machine that answers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use agent::output::Output;
use agent::{Agent, HttpOptions, Options, Stop};
use domain::action::{Action, Assignment};
use domain::id::{JobId, RunId, TenantId};
use domain::run::AttemptEnd;
use jiff::SignedDuration;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{Args, Rounds};

const BODY: &str = r#"{"hello":"world"}"#;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
    content-length: 11\r\n\r\n{\"ok\":true}";

/// Takes turns between the agent and the bare client.
pub async fn measure(args: &Args) -> Rounds {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    let rule = "127.0.0.1".parse().expect("a rule");
    let http = HttpOptions { allow_private: vec![rule], ..HttpOptions::default() };
    let agent = Arc::new(Agent::new(Options { http, ..Options::default() }));
    let assignment = Arc::new(assignment(&url));
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");

    let through_agent = move || through_agent(agent.clone(), assignment.clone());
    let directly = move || directly(client.clone(), url.clone());

    let mut rounds = Rounds::new();
    // The first round opens the connections and does not count.
    for round in 0..=args.rounds {
        let with_agent = rate(args, through_agent.clone()).await;
        let without = rate(args, directly.clone()).await;
        eprintln!("# round {round}: agent {with_agent:.0}/s, direct {without:.0}/s");
        if round > 0 {
            rounds.push((with_agent, without));
        }
    }
    server.abort();
    rounds
}

/// How many calls a second, with so many at a time.
async fn rate<F, R>(args: &Args, call: F) -> f64
where
    F: Fn() -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let left = Arc::new(AtomicUsize::new(args.runs));
    let started = Instant::now();
    let workers: Vec<_> = (0..args.concurrency)
        .map(|_| {
            let (left, call) = (left.clone(), call.clone());
            tokio::spawn(async move {
                let take = || {
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                };
                while take().is_ok() {
                    call().await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("every call succeeds");
    }
    args.runs as f64 / started.elapsed().as_secs_f64()
}

async fn through_agent(agent: Arc<Agent>, assignment: Arc<Assignment>) {
    let (_nobody, requests) = watch::channel(None);
    let result = agent.execute(&assignment, Output::default(), Stop::new(requests)).await;
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
}

async fn directly(client: reqwest::Client, url: String) {
    let request = client.post(url).header("content-type", "application/json").body(BODY);
    let response = request.send().await.expect("an answer");
    assert!(response.status().is_success());
    assert_eq!(response.bytes().await.expect("a body").len(), 11);
}

/// Answers every request on a connection. Requests come one after the other and end with their
/// body, which is all that needs to be known about them here.
async fn serve(mut socket: TcpStream) {
    let mut bytes = Vec::with_capacity(4_096);
    while matches!(socket.read_buf(&mut bytes).await, Ok(1..)) {
        if bytes.ends_with(BODY.as_bytes()) {
            bytes.clear();
            if socket.write_all(ANSWER).await.is_err() {
                return;
            }
        }
    }
}

fn assignment(url: &str) -> Assignment {
    let action = json!({
        "type": "HTTP",
        "endpoint": url,
        "body": serde_json::from_str::<serde_json::Value>(BODY).expect("JSON"),
    });
    let action: Action = serde_json::from_value(action).expect("an action");
    Assignment {
        effect: None,
        run: RunId(Uuid::from_u128(1)),
        job: JobId(Uuid::from_u128(2)),
        job_name: "bench".into(),
        tenant: TenantId::DEFAULT,
        attempt: 1,
        fence: 1,
        scheduled_for: "2026-01-01T00:00:00Z".parse().expect("an instant"),
        deadline: "2026-01-01T01:00:00Z".parse().expect("an instant"),
        grace_period: SignedDuration::from_secs(10),
        shard: String::new(),
        run_as: None,
        parameters: Default::default(),
        action,
    }
}
