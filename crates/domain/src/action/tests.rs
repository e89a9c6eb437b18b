//! Tests of actions.

use super::*;

fn check(json: &str) -> String {
    match serde_json::from_str::<Action>(json) {
        Ok(action) => action.check().err().map_or("ok".to_owned(), |error| error.to_string()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_interval_follows_a_metric_within_its_bounds() {
    let adaptive = |target| AdaptiveInterval {
        metric: QueueMetric::Depth,
        target,
        min_seconds: 10.0,
        max_seconds: 60.0,
    };
    for (seconds, value, expected) in [
        (20, 101.0, 40),
        (40, 101.0, 60),
        (20, 100.0, 20),
        (20, 50.0, 20),
        (20, 49.0, 10),
        (12, 0.0, 10),
        (5, 75.0, 10),
    ] {
        let next = adaptive(100.0).next(SignedDuration::from_secs(seconds), value);
        assert_eq!(next, SignedDuration::from_secs(expected), "{seconds} {value}");
    }
    assert!(adaptive(100.0).check().is_ok());
    assert!(adaptive(f64::NAN).check().is_err());
    assert!(AdaptiveInterval { max_seconds: 9.0, ..adaptive(1.0) }.check().is_err());
}

#[test]
fn actions_are_checked() {
    let long = format!(r#"{{"type":"SQL","sql":"{}"}}"#, "x".repeat(TEXT_BYTES_MAX + 1));
    for (json, answer) in [
        (r#"{"type":"NOOP"}"#, "ok"),
        (r#"{"type":"HTTP","endpoint":"https://example.org/x"}"#, "ok"),
        (r#"{"type":"ARTIFACT","artifact_id":"a@3","entrypoint":"main:run"}"#, "ok"),
        (r#"{"type":"ARTIFACT","artifact_id":"artifact-123","entrypoint":"bin/x"}"#, "ok"),
        (r#"{"type":"ARTIFACT","artifact_id":"a@latest","floating":true,"entrypoint":"x"}"#, "ok"),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@latest","entrypoint":"main:run"}"#,
            "artifact_id: a@latest changes without the job: name a version such as a@3, or say FLOATING",
        ),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@3","floating":true,"entrypoint":"main:run"}"#,
            "floating: needs a@latest instead of a@3",
        ),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@x","entrypoint":"main:run"}"#,
            "artifact_id: \"a@x\" does not name a version: write name@3, name, or name@latest with FLOATING",
        ),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@3","entrypoint":"/bin/sh"}"#,
            "entrypoint: \"/bin/sh\" is not a relative path: write module:function for Python, or the path of an executable file in the artifact",
        ),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@3","entrypoint":"main:run","arguments":["x"]}"#,
            "arguments: a function has none: it gets the context and its parameters",
        ),
        (
            r#"{"type":"ARTIFACT","artifact_id":"a@3","entrypoint":"x","environment":{"PUNCTUAL_RUN":"1"}}"#,
            "environment: PUNCTUAL_RUN is set by the agent",
        ),
        (r#"{"type":"HTTP","endpoint":"https://e.org","expected_status":[2,404]}"#, "ok"),
        (
            r#"{"type":"HTTP","endpoint":"ftp://example.org/x"}"#,
            "endpoint: must begin with http:// or https://",
        ),
        (
            r#"{"type":"HTTP","endpoint":"http://e.org","method":"post"}"#,
            "method: is \"post\", not one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
        ),
        (
            r#"{"type":"HTTP","endpoint":"http://e.org","headers":{"a b":"c"}}"#,
            "headers: \"a b\" is not a header name",
        ),
        (
            r#"{"type":"HTTP","endpoint":"http://e.org","headers":{"a":"c\r\nd: e"}}"#,
            "headers: the value of a contains a line break",
        ),
        (
            r#"{"type":"HTTP","endpoint":"http://e.org","expected_status":[600]}"#,
            "expected_status: 600 is neither a status (100 to 599) nor a class (1 to 5)",
        ),
        (r#"{"type":"SQL","sql":"SELECT 1"}"#, "ok"),
        (r#"{"type":"SQL","sql":" "}"#, "sql: must not be empty"),
        (&long, "sql: is longer than 1048576 bytes"),
        (r#"{"type":"PROCEDURE","procedure":"p","arguments":[1,":a"]}"#, "ok"),
        (r#"{"type":"EXTERNAL","command":"/bin/true"}"#, "ok"),
        (r#"{"type":"BACKUP","target":"nightly","keep":7,"outputs":false}"#, "ok"),
        (r#"{"type":"BACKUP","target":"nightly","artifacts":true}"#, "ok"),
        (r#"{"type":"BACKUP","target":""}"#, "target: must not be empty"),
        (
            r#"{"type":"BACKUP","target":"nightly","keep":0}"#,
            "keep: must be at least 1: the backup itself",
        ),
        (r#"{"type":"EXTERNAL","command":"a\u0000b"}"#, "command: must not contain a zero byte"),
        (
            r#"{"type":"EXTERNAL","command":"a","environment":{"A=B":"c"}}"#,
            "environment: \"A=B\" is not a variable name",
        ),
    ] {
        assert_eq!(check(json), answer, "{}", &json[..json.len().min(100)]);
    }
}

#[test]
fn unknown_fields_are_refused() {
    for (json, word) in [
        (r#"{"type":"HTTP","endpoint":"http://e.org","verb":"GET"}"#, "verb"),
        (r#"{"type":"SQL","sql":"SELECT 1","db":"main"}"#, "db"),
        (r#"{"type":"BACKUP","target":"a","folder":"/x"}"#, "folder"),
        (r#"{"type":"SHELL","command":"x"}"#, "SHELL"),
    ] {
        assert!(check(json).contains(word), "{json}: {}", check(json));
    }
}

#[test]
fn what_is_written_is_read_back() {
    let action = Action::Http(HttpAction {
        endpoint: "https://example.org".into(),
        method: "PUT".into(),
        headers: BTreeMap::from([("A".into(), "b".into())]),
        body: Some(serde_json::json!({"x": [1, null]})),
        expected_status: vec![2],
    });
    let text = serde_json::to_string(&action).unwrap();
    assert_eq!(serde_json::from_str::<Action>(&text).unwrap(), action);
}
