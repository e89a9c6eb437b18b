//! Answers that send us elsewhere.

use serde_json::json;

use super::server::{Server, answer, finish};
use super::{agent, allowing, assignment, execute, run};

/// Redirects every request to a place.
async fn to(status: u16, location: impl AsRef<str>) -> Server {
    Server::answering(answer(status, &[("location", location.as_ref())], "elsewhere")).await
}

#[tokio::test]
async fn a_redirect_is_followed_with_everything_on_the_same_host() {
    let server = Server::start(|request, mut socket| async move {
        let bytes = match request.path.as_str() {
            "/a" => answer(307, &[("location", "b?x=1#part")], ""),
            _ => answer(200, &[], "[\"there\"]"),
        };
        finish(&mut socket, &bytes).await;
    })
    .await;
    let ended = run(json!({
        "endpoint": server.url("/a"),
        "headers": { "Authorization": "Bearer ${secrets.PLAIN}", "X-Key": "k" },
        "body": { "secret": "${secrets.PLAIN}" },
    }))
    .await;
    ended.assert_completed();
    assert_eq!(ended.result.result.as_deref(), Some("[\"there\"]"));
    assert_eq!(ended.details()["redirects"], 1);
    assert_eq!(ended.details()["bytes_out"], 2 * 19);
    let [first, second] = &server.received()[..] else { panic!("{:?}", server.received()) };
    assert_eq!((second.method.as_str(), second.path.as_str()), ("POST", "/b?x=1"));
    assert_eq!(first.body, second.body);
    for name in ["authorization", "x-key", "content-type", "idempotency-key", "punctual-run"] {
        assert!(second.header(name).is_some(), "{name}");
        assert_eq!(first.header(name), second.header(name), "{name}");
    }
}

#[tokio::test]
async fn another_host_gets_nothing_that_was_meant_for_the_first() {
    for (status, method) in [(307, "POST"), (308, "POST"), (302, "GET"), (303, "GET")] {
        // Back to the first host: removed headers stay removed.
        let last = Server::answering(answer(200, &[], "")).await;
        let other = Server::answering_on(
            "127.0.0.2:0",
            answer(307, &[("location", &last.url("/last"))], ""),
        )
        .await;
        let first = to(status, other.url("/other")).await;
        let ended = run(json!({
            "endpoint": first.url("/"),
            "headers": {
                "Authorization": "Bearer ${secrets.PLAIN}",
                "Cookie": "session=1",
                "X-Api-Key": "k",
                "User-Agent": "mine",
                "Content-Type": "text/csv",
            },
            "body": "a,b",
        }))
        .await;
        ended.assert_completed();
        assert_eq!(first.only().header("x-api-key"), Some("k"));
        for request in [other.only(), last.only()] {
            assert_eq!(request.method, method, "{status}");
            for name in ["authorization", "cookie", "x-api-key", "referer"] {
                assert_eq!(request.header(name), None, "{status} {name}");
            }
            let kept = method == "POST";
            assert_eq!(request.header("content-type"), kept.then_some("text/csv"), "{status}");
            assert_eq!(request.body, if kept { &b"a,b"[..] } else { b"" }, "{status}");
            assert!(request.header("user-agent").unwrap().starts_with("punctual/"), "{status}");
            assert!(request.header("punctual-run").is_some(), "{status}");
        }
        let turned = format!("the redirect of http://{} turned POST into GET", first.address);
        assert_eq!(ended.result.message, if method == "GET" { turned } else { String::new() });
        assert_eq!(ended.details()["redirects"], 2);
    }
}

#[tokio::test]
async fn a_secret_in_the_body_does_not_travel() {
    let other = Server::answering_on("127.0.0.2:0", answer(200, &[], "")).await;
    let first = to(307, other.url("/")).await;
    for body in [json!("key=${secrets.PLAIN}"), json!({ "key": ["${secrets.PLAIN}"] })] {
        let ended = run(json!({ "endpoint": first.url("/"), "body": body })).await;
        ended.assert_failed("REDIRECT_NOT_ALLOWED", "the body holds a secret");
        assert!(!ended.result.message.contains("abc123"));
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn circles_and_long_ways_end() {
    let circle = to(302, "/again").await;
    let ended = run(json!({ "endpoint": circle.url("/"), "method": "GET" })).await;
    ended.assert_failed("REDIRECT", "redirects in a circle");
    assert_eq!(circle.connections(), 2);

    let longer = Server::start(|request, mut socket| async move {
        let location = format!("{}x", request.path);
        finish(&mut socket, &answer(302, &[("location", &location)], "")).await;
    })
    .await;
    let ended = run(json!({ "endpoint": longer.url("/"), "method": "GET" })).await;
    ended.assert_failed("REDIRECT", "more than 5 redirects");
    assert_eq!(longer.connections(), 6);
}

#[tokio::test]
async fn a_redirect_to_what_is_not_allowed_reaches_nobody() {
    let sink = Server::accept("127.0.0.1:0", |_| async {}).await;
    let port = sink.address.port();
    for location in [
        format!("http://127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://user@127.0.0.2:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://metadata.google.internal/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
        "data:text/plain,hello".to_owned(),
    ] {
        let first =
            Server::answering_on("127.0.0.2:0", answer(302, &[("location", &location)], "")).await;
        let agent = agent(allowing(&["127.0.0.2"]));
        let action = json!({ "endpoint": first.url("/"), "method": "GET" });
        let ended = execute(&agent, &assignment(action)).await;
        ended.assert_failed("TARGET_NOT_ALLOWED", "not allowed");
        assert_eq!(ended.details()["redirects"], 1);
        assert_eq!(ended.details()["status"], json!(null), "no response from {location}");
        assert!(ended.result.error.as_ref().unwrap().is_refusal());
        assert_eq!(first.connections(), 1, "{location}");
    }
    assert_eq!(sink.connections(), 0);
}

#[tokio::test]
async fn what_is_no_redirect_or_is_expected_is_an_answer() {
    let server = to(302, "/again").await;
    let expected = json!({ "endpoint": server.url("/"), "expected_status": [302] });
    run(expected).await.assert_completed();
    assert_eq!(server.connections(), 1);
    for (status, headers) in [(302, vec![]), (304, vec![("location", "/x")]), (300, vec![])] {
        let server = Server::answering(answer(status, &headers, "")).await;
        let ended = run(json!({ "endpoint": server.url("/") })).await;
        assert_eq!(ended.code(), format!("HTTP_{status}"));
        assert_eq!(server.connections(), 1);
    }
    let broken = to(302, "http://[broken").await;
    let ended = run(json!({ "endpoint": broken.url("/") })).await;
    ended.assert_failed("REDIRECT", "redirects to something that is no URL");
}
