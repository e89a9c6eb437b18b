//! Requests that accept an answer of some age share it; others share only one that is begun after
//! they came.

use jiff::SignedDuration;
use serde_json::json;
use store::Operation;

use crate::world::{World, until};

const YOUNG: [(&str, &str); 1] = [("cache-control", "max-age=2")];
const PATH: &str = "/v1/executions?limit=5";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_user_share_an_answer_that_is_young_enough() {
    let world = World::now().await;
    let asked = || world.calls.of(Operation::ListRuns);
    let before = asked();
    let ask = || world.call("GET", PATH, &YOUNG, None);
    // Some come while the answer is being made, the others after it.
    let (first, second, third) = tokio::join!(ask(), ask(), ask());
    let mut replies = vec![first, second, third];
    while replies.len() < 50 {
        replies.push(ask().await);
    }
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.text == replies[0].text));
    assert_eq!(asked() - before, 1, "fifty tabs");
    assert!(replies[7].header("content-type").starts_with("application/json"));
    // Each request has an id of its own, also with a shared answer.
    assert_ne!(replies[0].header("x-request-id"), replies[1].header("x-request-id"));
    world.call("GET", "/v1/executions?limit=6", &YOUNG, None).await;
    assert_eq!(asked() - before, 2, "another question");
    world.get(PATH).await;
    assert_eq!(asked() - before, 3, "an answer of its own");
    world.go_on(SignedDuration::from_secs(3));
    world.call("GET", PATH, &YOUNG, None).await;
    assert_eq!(asked() - before, 4, "the answer is too old");
}

/// Requests that come while the list is read get the next reading together, and no request gets a
/// reading that began before it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_a_list_share_the_next_reading() {
    let world = World::now().await;
    let asked = || world.calls.of(Operation::ListRuns);
    let before = asked();
    let all = futures_util::future::join_all((0..50).map(|_| world.get(PATH))).await;
    assert!(all.iter().all(|reply| reply.status == 200 && reply.text == all[0].text));
    let readings = asked() - before;
    assert!((1..50).contains(&readings), "{readings} readings for fifty requests at once");
    // One after the other, each sees what was there when it came.
    for count in 1..=5 {
        let name = format!("job-{count}");
        world.job(&name, "https://example.com/").await;
        let jobs = world.get("/v1/jobs").await.json();
        assert_eq!(jobs["data"].as_array().unwrap().len(), count);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_shared_between_users() {
    let world = World::now().await;
    world.post("/v1/users", json!({"name": "bob"})).await;
    let key = world.post("/v1/keys", json!({"user": "bob", "label": "tab"})).await.json();
    let bob = format!("Bearer {}", key["key"].as_str().unwrap());
    world.job("hello", "https://example.com/").await;
    let mine = world.call("GET", "/v1/jobs", &YOUNG, None).await;
    assert_eq!(mine.json()["data"].as_array().unwrap().len(), 1);
    let request = axum::http::Request::get("/v1/jobs")
        .header("authorization", bob)
        .header("cache-control", "max-age=2")
        .body(axum::body::Body::empty());
    let theirs = world.send(request.unwrap()).await;
    assert_eq!(theirs.json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_before_an_event_is_not_given() {
    let world = World::now().await;
    // The list of jobs is kept up to date by a listener.
    until(async || world.get("/v1/jobs?facets=true").await.json()["facets"].as_object().cloned())
        .await;
    let path = "/v1/jobs";
    let empty = world.call("GET", path, &YOUNG, None).await;
    assert_eq!(empty.json()["data"], json!([]));
    world.job("hello", "https://example.com/").await;
    until(async || {
        let list = world.call("GET", path, &YOUNG, None).await.json();
        (list["data"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
}
