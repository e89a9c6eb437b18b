//! Rate limits of requests, and timeouts of silent connections.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use server::{Caller, ListenerLimits, Options, Rate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::world::{Reply, World, until};

const START: &str = "2024-01-15T10:30:00Z";

async fn limited() -> World {
    let options = Options {
        rate: Rate { per_second: 2, burst: 4 },
        failure_rate: Rate { per_second: 1, burst: 3 },
        ..Options::default()
    };
    World::with(START.parse().unwrap(), options).await
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_to_wait() {
    let world = limited().await;
    let states: Vec<String> = {
        let mut states = Vec::new();
        for _ in 0..4 {
            let reply = world.get("/v1/jobs").await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert_eq!(reply.header("ratelimit-policy"), "\"default\";q=4;w=2");
            states.push(reply.header("ratelimit").to_owned());
        }
        states
    };
    assert_eq!(
        states,
        [
            "\"default\";r=3;t=1",
            "\"default\";r=2;t=1",
            "\"default\";r=1;t=2",
            "\"default\";r=0;t=2",
        ]
    );
    let reply = world.get("/v1/jobs").await;
    assert_eq!(reply.error(), (429, "RATE_LIMITED".into(), String::new()));
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(reply.header("ratelimit"), "\"default\";r=0;t=2");
    assert_eq!(reply.header("ratelimit-policy"), "\"default\";q=4;w=2");
    // An address that does not exist counts like one that does.
    assert_eq!(world.get("/v1/nothing").await.status, 429);
    // Health checks and the API description are never rate limited.
    for path in ["/healthz", "/readyz", "/version", "/openapi.json"] {
        let reply = world.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("ratelimit"), "", "{path}");
    }
    world.go_to("2024-01-15T10:30:00.500Z");
    assert_eq!(world.get("/v1/jobs").await.status, 200);
    assert_eq!(world.get("/v1/jobs").await.status, 429);
    world.go_to("2024-01-15T11:00:00Z");
    assert_eq!(world.get("/v1/jobs").await.header("ratelimit"), "\"default\";r=3;t=1");
}

#[tokio::test]
async fn nobody_is_limited_unless_somebody_says_so() {
    let world = World::at(START).await;
    for _ in 0..200 {
        let reply = world.get("/v1/jobs").await;
        assert_eq!((reply.status, reply.header("ratelimit")), (200, ""));
    }
}

async fn knock(world: &World, address: &str, key: &str, path: &str) -> Reply {
    let request = Request::get(path)
        .extension(Caller(address.parse().unwrap()))
        .header("authorization", format!("Bearer {key}"));
    world.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn wrong_keys_are_throttled_by_address_and_right_ones_are_not() {
    let world = limited().await;
    for path in ["/v1/jobs", "/metrics", "/v1/nothing"] {
        assert_eq!(knock(&world, "192.0.2.1", "wrong", path).await.status, 401, "{path}");
    }
    for path in ["/v1/jobs", "/metrics", "/v1/nothing"] {
        let reply = knock(&world, "192.0.2.1", "wrong", path).await;
        assert_eq!(reply.error(), (429, "RATE_LIMITED".into(), String::new()), "{path}");
        assert_eq!(reply.header("retry-after"), "1");
    }
    // A client with a valid key is not throttled by wrong keys from the same address, behind a
    // proxy say.
    assert_eq!(knock(&world, "192.0.2.1", &world.key, "/v1/jobs").await.status, 200);
    assert_eq!(knock(&world, "192.0.2.2", "wrong", "/v1/jobs").await.status, 401);
    world.go_to("2024-01-15T10:30:01Z");
    assert_eq!(knock(&world, "192.0.2.1", "wrong", "/v1/jobs").await.status, 401);
    assert_eq!(knock(&world, "192.0.2.1", "wrong", "/v1/jobs").await.status, 429);
}

/// A server on a real port.
struct OpenListener {
    world: World,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

async fn listener(patience: ListenerLimits) -> OpenListener {
    let world = World::now().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async {
        let _ = stopped.await;
    };
    let served = tokio::spawn(server::serve(listener, world.router.clone(), patience, stopped));
    OpenListener { world, address, stop, served }
}

/// The response to a client that sends this and then nothing more.
async fn hear(address: SocketAddr, words: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let read = stream.read_to_end(&mut heard);
    let _ = tokio::time::timeout(Duration::from_secs(60), read).await.expect("it never ended");
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test]
async fn callers_who_dawdle_lose_their_place() {
    let short = Duration::from_millis(300);
    // Two connections: slow clients take both.
    let patience = ListenerLimits {
        head: short,
        body: short,
        connections_max: 2,
        ..ListenerLimits::default()
    };
    let listener = listener(patience).await;
    let slow: Vec<_> =
        ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n"]
            .map(|words| tokio::spawn(hear(listener.address, words)))
            .into();
    let healthy =
        hear(listener.address, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(healthy.await.starts_with("HTTP/1.1 200 OK"));
    for caller in slow {
        let heard = caller.await.unwrap();
        assert!(!heard.contains("200 OK"), "{heard}");
    }
    // A connection that was used goes when nothing more comes.
    let heard = hear(listener.address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 200 OK"), "{heard}");
    // A body that stops half-way.
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"name\":",
        listener.world.key
    );
    let heard = hear(listener.address, &head).await;
    assert!(heard.starts_with("HTTP/1.1 408") && heard.contains("REQUEST_TIMEOUT"), "{heard}");
    listener.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), listener.served).await.unwrap().unwrap();
}

/// A connection whose client has sent this and has received the beginning of a response.
async fn begin(address: SocketAddr, words: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    let mut heard = [0; 12];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn a_user_who_takes_all_places_makes_way() {
    let long = Duration::from_secs(600);
    let limits =
        ListenerLimits { head: long, body: long, connections_max: 8, ..ListenerLimits::default() };
    let listener = listener(limits).await;
    let user = listener.world.person("default", "eve", &["VIEW JOB HISTORY"]).await;
    let ask = |path: &str, key: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{more}\r\n")
    };
    let key = listener.world.key.clone();
    // Connections that wait for their next request, and those with an answer that does not end.
    for path in ["/v1/whoami", "/v1/events"] {
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(begin(listener.address, &ask(path, &user.key, "")).await);
        }
        let heard = hear(listener.address, &ask("/v1/jobs", &key, "Connection: close\r\n")).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{path}: {heard}");
    }
    // An administrator keeps what they have.
    let mut own = begin(listener.address, &ask("/v1/events", &key, "")).await;
    for _ in 0..20 {
        begin(listener.address, &ask("/v1/events", &user.key, "")).await;
    }
    listener.world.job("seen", "http://seen").await;
    let mut heard = String::new();
    while !heard.contains("seen") {
        let mut more = [0; 4096];
        let count = own.read(&mut more).await.unwrap();
        assert!(count > 0, "the stream of the administrator has ended: {heard}");
        heard.push_str(&String::from_utf8_lossy(&more[..count]));
    }
}

#[tokio::test]
async fn half_sent_bodies_without_a_key_make_way() {
    let long = Duration::from_secs(600);
    let limits = ListenerLimits {
        head: long,
        body: long,
        connections_max: 16,
        unauthenticated_per_address: 8,
    };
    let listener = listener(limits).await;
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let words = "POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                     Content-Length: 100\r\n\r\n{\"tenant\":";
        // It may have been rejected.
        let _ = stream.write_all(words.as_bytes()).await;
        held.push(stream);
    }
    let healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let address = listener.address;
    let is_healthy =
        || async move { hear(address, healthz).await.starts_with("HTTP/1.1 200").then_some(()) };
    until(is_healthy).await;
}

#[tokio::test]
async fn a_head_has_an_end() {
    let listener = listener(ListenerLimits::default()).await;
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nx: {}\r\n\r\n", "y".repeat(100 << 10));
    assert!(hear(listener.address, &long).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn a_server_that_stops_finishes_what_it_has_begun() {
    let listener = listener(ListenerLimits::default()).await;
    listener.world.job("held", "http://held").await;
    let run = listener.world.trigger("held").await;
    listener.world.begun("held").await;
    let follow = format!(
        "GET /v1/executions/{run}/logs?follow=true HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        listener.world.key
    );
    let mut stream = TcpStream::connect(listener.address).await.unwrap();
    stream.write_all(follow.as_bytes()).await.unwrap();
    let mut heard = vec![0; 12];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, b"HTTP/1.1 200");
    listener.stop.send(()).unwrap();
    listener.world.finish("held", domain::run::AttemptResult::completed()).await;
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("begun"), "{rest}");
    listener.served.await.unwrap();
    assert!(TcpStream::connect(listener.address).await.is_err());
}

#[tokio::test]
async fn those_who_watch_have_an_address_of_their_own() {
    let world = World::at(START).await;
    let router = server::watch_router(world.app.clone());
    let ask = async |path: &str, key: &str| {
        let request = Request::get(path).header("authorization", key);
        let request = request.body(Body::empty()).unwrap();
        tower::ServiceExt::oneshot(router.clone(), request).await.unwrap().status().as_u16()
    };
    let key = format!("Bearer {}", world.key);
    assert_eq!((ask("/healthz", "").await, ask("/readyz", "").await), (200, 200));
    assert_eq!((ask("/metrics", "").await, ask("/metrics", &key).await), (401, 200));
    // It is no way in.
    for path in ["/v1/jobs", "/docs", "/"] {
        assert_eq!(ask(path, &key).await, 404, "{path}");
    }
}
