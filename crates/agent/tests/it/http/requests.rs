//! The requests that are sent.

use std::collections::BTreeMap;

use serde_json::json;

use super::server::{Server, answer};
use super::{TOKEN, agent, allowing, assignment, execute, run};

#[tokio::test]
async fn a_request_says_what_it_is_for() {
    let server = Server::answering(answer(200, &[], "")).await;
    let mut assignment = assignment(json!({ "endpoint": server.url("/a?b=c") }));
    assignment.job_name = "Tägliche 100% Prüfung\n🕑".into();
    assignment.shard = "eu-1".into();
    execute(&agent(allowing(&["127.0.0.1"])), &assignment).await.assert_completed();
    let request = server.only();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/a?b=c"));
    for (name, value) in [
        ("punctual-job", "00000000-0000-0000-0000-000000005678"),
        ("punctual-job-name", "T%C3%A4gliche 100%25 Pr%C3%BCfung%0A%F0%9F%95%91"),
        ("punctual-run", "00000000-0000-0000-0000-000000001234"),
        ("punctual-attempt", "2"),
        ("punctual-fence", "77"),
        ("punctual-scheduled-for", "2026-03-01T02:00:00Z"),
        ("punctual-deadline", "2026-03-01T03:00:00Z"),
        ("punctual-shard", "eu-1"),
        ("idempotency-key", "00000000-0000-0000-0000-000000001234"),
        ("traceparent", "00-00000000000000000000000000001234-000000000000004d-01"),
        ("user-agent", concat!("punctual/", env!("CARGO_PKG_VERSION"))),
        ("host", &server.address.to_string()),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    let page = include_str!("../../../../../docs/http-jobs.md");
    for fact in agent::context::FACTS {
        let name = fact.header.to_ascii_lowercase();
        assert!(request.header(&name).is_some(), "{name}");
        assert!(page.contains(&format!("`{}`", fact.header)), "docs/http-jobs.md lacks {name}");
    }
    assert_eq!(request.header("content-type"), None);
}

#[tokio::test]
async fn a_request_is_a_child_of_the_trace_that_asked_for_the_run() {
    let server = Server::answering(answer(200, &[], "")).await;
    let mut assignment = assignment(json!({ "endpoint": server.url("/") }));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-00");
    assignment.parameters.insert("traceparent".into(), parent.into());
    execute(&agent(allowing(&["127.0.0.1"])), &assignment).await.assert_completed();
    let child = format!("00-{trace}-000000000000004d-00");
    assert_eq!(server.only().header("traceparent"), Some(child.as_str()));
}

#[tokio::test]
async fn the_job_has_the_last_word_on_headers_but_not_on_facts() {
    let server = Server::answering(answer(200, &[], "")).await;
    run(json!({
        "endpoint": server.url("/"),
        "headers": {
            "User-Agent": "mine",
            "idempotency-key": "mine",
            "Traceparent": "mine",
            "Content-Type": "text/csv",
            "X-Groesse": "größe",
            "Punctual-Fence": "1",
            "PUNCTUAL-ANYTHING": "1",
        },
        "body": { "a": 1 },
    }))
    .await
    .assert_completed();
    let request = server.only();
    for (name, value) in [
        ("user-agent", Some("mine")),
        ("idempotency-key", Some("mine")),
        ("traceparent", Some("mine")),
        ("content-type", Some("text/csv")),
        ("x-groesse", Some("größe")),
        ("punctual-fence", Some("77")),
        ("punctual-anything", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn bodies_are_text_json_or_the_parameters() {
    let parameters = BTreeMap::from([("day".to_owned(), json!("${secrets.PLAIN} :day"))]);
    let none = BTreeMap::new();
    let json = Some("application/json");
    let as_body = r#"{"day":"${secrets.PLAIN} :day"}"#;
    let long = r#"{"n":123456789012345678901234567890}"#;
    let with_long = domain::exact_number::parse(long).unwrap();
    for (method, body, parameters, sent, content_type) in [
        ("POST", json!("as it is: :day"), &parameters, "as it is: :day", None),
        ("POST", json!({"b": [1, null], "a": ":day"}), &none, r#"{"a":":day","b":[1,null]}"#, json),
        ("PUT", json!(17), &none, "17", json),
        ("PUT", with_long, &none, long, json),
        ("POST", json!(null), &none, "", None),
        ("POST", json!(null), &parameters, as_body, json),
        ("DELETE", json!(null), &parameters, as_body, json),
        ("GET", json!(null), &parameters, "", None),
        ("GET", json!([1]), &parameters, "[1]", json),
    ] {
        let server = Server::answering(answer(200, &[], "")).await;
        let mut assignment =
            assignment(json!({ "endpoint": server.url("/"), "method": method, "body": body }));
        assignment.parameters = parameters.clone();
        let ended = execute(&agent(allowing(&["127.0.0.1"])), &assignment).await;
        ended.assert_completed();
        let request = server.only();
        assert_eq!(request.method, method);
        assert_eq!(String::from_utf8_lossy(&request.body), sent, "{method} {body}");
        assert_eq!(request.header("content-type"), content_type, "{method} {body}");
        assert_eq!(ended.details()["bytes_out"], sent.len());
        let ignored = method == "GET" && sent.is_empty();
        let told = ended.result.message == "the run's parameters are not sent with GET";
        assert_eq!(told, ignored, "{:?}", ended.result);
    }
}

#[tokio::test]
async fn secrets_are_put_in_where_they_are_used() {
    let server = Server::answering(answer(200, &[], "")).await;
    let ended = run(json!({
        "endpoint": server.url("/hook/${secrets.TOKEN}?key=${secrets.TOKEN}&x=1"),
        "headers": { "Authorization": "Bearer ${secrets.PLAIN}" },
        "body": { "list": ["${secrets.TOKEN}", { "${secrets.PLAIN}": "a ${secrets.PLAIN} b" }] },
    }))
    .await;
    ended.assert_completed();
    let request = server.only();
    let encoded = "s3cr/t%20%26%23%3F%22%C3%A9";
    assert_eq!(request.path, format!("/hook/{encoded}?key={encoded}&x=1"));
    assert_eq!(request.header("authorization"), Some("Bearer abc123"));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body, json!({ "list": [TOKEN, { "${secrets.PLAIN}": "a abc123 b" }] }));
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_without_a_connection_and_without_a_secret() {
    let server = Server::answering(answer(200, &[], "")).await;
    let url = server.url("/");
    let port = server.address.port();
    for (action, code, message) in [
        (
            json!({ "endpoint": format!("{url}${{secrets.NONE}}") }),
            "SECRET_NOT_FOUND",
            "endpoint: there is no secret named \"NONE\"",
        ),
        (
            json!({ "endpoint": url, "headers": { "A": "${secrets.NONE}" } }),
            "SECRET_NOT_FOUND",
            "headers: A: there is no secret named \"NONE\"",
        ),
        (
            json!({ "endpoint": url, "body": [{ "a": "${secrets.NONE}" }] }),
            "SECRET_NOT_FOUND",
            "body: there is no secret named \"NONE\"",
        ),
        (
            json!({ "endpoint": url, "body": "${secrets.NONE" }),
            "SECRET_MALFORMED",
            "body: \"${secrets.NONE\" is not a reference",
        ),
        (
            json!({ "endpoint": format!("http://${{secrets.HOST}}:{port}/") }),
            "INVALID_URL",
            "a secret must not decide where the request goes",
        ),
        (
            json!({ "endpoint": format!("http://127.0.0.1:{port}${{secrets.TOKEN}}/") }),
            "INVALID_URL",
            "endpoint: it is no URL (invalid port number); write https://host/path",
        ),
        (
            json!({ "endpoint": format!("http://a${{secrets.PLAIN}}@127.0.0.1:{port}/") }),
            "INVALID_URL",
            "a secret must not decide where the request goes",
        ),
        (
            json!({ "endpoint": format!("{url}{}?${{secrets.PLAIN}}", "x".repeat(70_000)) }),
            "INVALID_REQUEST",
            "it cannot be sent: ",
        ),
        (json!({ "endpoint": "ftp://127.0.0.1/" }), "TARGET_NOT_ALLOWED", "only http and https"),
        (json!({ "endpoint": "http://" }), "INVALID_URL", "endpoint: it is no URL (empty host)"),
        (
            json!({ "endpoint": url, "headers": { "A": "${secrets.LINES}" } }),
            "INVALID_HEADER",
            "headers: A has a value with control characters",
        ),
        (
            json!({ "endpoint": url, "headers": { "Transfer-Encoding": "chunked" } }),
            "HEADER_NOT_ALLOWED",
            "headers: transfer-encoding cannot be set",
        ),
        (
            json!({ "endpoint": url, "headers": { "Host": "other" } }),
            "HEADER_NOT_ALLOWED",
            "headers: host cannot be set",
        ),
    ] {
        let ended = run(action).await;
        ended.assert_failed(code, message);
        let is_refusal = ended.result.error.as_ref().unwrap().is_refusal();
        assert_eq!(is_refusal, code.ends_with("_NOT_ALLOWED"), "{code}");
        let told = format!("{:?}", ended.result);
        for value in [TOKEN, "abc123", "evil", "b: c"] {
            assert!(!told.contains(value), "{told} holds {value}");
        }
    }
    assert_eq!(server.connections(), 0);
}
