//! Outputs of executions.

use axum::body::Body;
use axum::http::Request;
use domain::run::AttemptResult;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_parts_and_events() {
    let world = World::now().await;
    world.job("j", "http://talk").await;
    let id = world.trigger("j").await;
    world.ended(&id).await;
    let path = format!("/v1/executions/{id}/logs");
    let all = world.get(&path).await;
    assert_eq!((all.status, all.text.as_str()), (200, "one\ntwo\noops\n"));
    assert_eq!(all.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(all.header("x-content-type-options"), "nosniff");
    assert_eq!(all.header("punctual-log-total"), "13");
    assert_eq!(world.get(&format!("{path}?stream=stdout")).await.text, "one\ntwo\n");
    assert_eq!(world.get(&format!("{path}?stream=stderr")).await.text, "oops\n");
    assert_eq!(world.get(&format!("{path}?attempt=2")).await.text, "");
    assert_eq!(world.get(&format!("{path}?follow=true")).await.text, "one\ntwo\noops\n");
    for (range, status, text, place) in [
        ("bytes=0-2", 206, "one", "bytes 0-2/13"),
        ("bytes=4-", 206, "two\noops\n", "bytes 4-12/13"),
        ("bytes=-5", 206, "oops\n", "bytes 8-12/13"),
        ("bytes=4-100", 206, "two\noops\n", "bytes 4-12/13"),
    ] {
        let reply = world.call("GET", &path, &[("range", range)], None).await;
        assert_eq!((reply.status, reply.text.as_str()), (status, text), "{range}");
        assert_eq!(reply.header("content-range"), place, "{range}");
    }
    let beyond = world.call("GET", &path, &[("range", "bytes=13-")], None).await;
    assert_eq!(beyond.error().1, "RANGE_NOT_SATISFIABLE");
    assert_eq!(beyond.header("content-range"), "bytes */13");
    let wrong = world.call("GET", &path, &[("range", "bytes=x")], None).await;
    assert_eq!(wrong.error().2, "Range");
    let sse = [("accept", "text/event-stream")];
    let events = world.call("GET", &path, &sse, None).await;
    assert_eq!(
        events.text,
        "event: output\nid: 13\ndata: one\ndata: two\ndata: oops\ndata: \n\nevent: end\ndata: end\n\n"
    );
    let seen = [("accept", "text/event-stream"), ("last-event-id", "8")];
    let events = world.call("GET", &path, &seen, None).await;
    assert!(events.text.starts_with("event: output\nid: 13\ndata: oops\n"), "{}", events.text);
}

/// Output on one node is read on another: from the record if it is short; otherwise the error names
/// the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_reads_short_outputs_and_names_who_has_long_ones() {
    let (world, other) = World::with_another().await;
    world.job("j", "http://talk").await;
    let short = world.trigger("j").await;
    world.ended(&short).await;
    world.job("long", "http://flood").await;
    let long = world.trigger("long").await;
    world.ended(&long).await;
    world.job("held", "http://held").await;
    let running = world.trigger("held").await;
    world.begun("held").await;
    let path = |id: &str| format!("/v1/executions/{id}/logs");
    let here = world.get(&path(&short)).await;
    let there = other.get(&path(&short)).await;
    assert_eq!((there.status, &there.text), (200, &here.text));
    assert_eq!(there.text, "one\ntwo\noops\n");
    let part = other.call("GET", &path(&short), &[("range", "bytes=4-6")], None).await;
    assert_eq!((part.status, part.text.as_str()), (206, "two"));
    assert_eq!(other.get(&format!("{}?follow=true", path(&short))).await.text, here.text);
    assert_eq!(world.get(&path(&long)).await.text.len(), 1 << 20);
    for (id, words) in [
        (&long, "the output of attempt 1 is on node"),
        (&running, "the output of attempt 1 is still on"),
    ] {
        let refused = other.get(&path(id)).await;
        assert_eq!(refused.error().1, "OUTPUT_ELSEWHERE", "{}", refused.text);
        assert_eq!(refused.status, 421);
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(words) && message.ends_with("ask that node"), "{message}");
    }
    // An attempt without output is no error.
    world.job("quiet", "http://ok").await;
    let quiet = world.trigger("quiet").await;
    world.ended(&quiet).await;
    let silent = other.get(&path(&quiet)).await;
    assert_eq!((silent.status, silent.text.as_str()), (200, ""));
    world.finish("held", AttemptResult::completed()).await;
    world.ended(&running).await;
    assert_eq!(other.get(&path(&running)).await.text, "begun\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_the_beginning_before_the_end() {
    let world = World::now().await;
    world.job("held", "http://held").await;
    let id = world.trigger("held").await;
    let request = Request::get(format!("/v1/executions/{id}/logs?follow=true"))
        .header("authorization", format!("Bearer {}", world.key))
        .body(Body::empty())
        .unwrap();
    let response = world.router.clone().oneshot(request).await.unwrap();
    let mut body = response.into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.data_ref().unwrap().as_ref(), b"begun\n");
    world.finish("held", AttemptResult::completed()).await;
    while let Some(frame) = body.frame().await {
        assert!(frame.unwrap().data_ref().is_none_or(|data| data.is_empty()));
    }
}
