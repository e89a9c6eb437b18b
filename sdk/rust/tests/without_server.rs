//! Handlers are tried without a server.

use std::time::Duration;

use punctual_sdk::{Client, Fail, Retry, Worker};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Welcome {
    to: String,
}

#[test]
fn handlers_are_tried_without_a_server() {
    let client = Client::new("http://127.0.0.1:1", None).unwrap();
    let mut worker = Worker::new(client, ["tasks"]);
    worker.action("welcome", |message| {
        let welcome: Welcome = message.payload_as()?;
        message.log(format!("to {}", welcome.to));
        Ok(json!({"sent": welcome.to, "attempt": message.attempt}))
    });
    worker.handler(|message| match message.payload.as_str() {
        Some("retry") => Err(Retry("later", Duration::from_secs(5)).into()),
        Some("fail") => Err(Fail("no").into()),
        Some("panic") => panic!("x"),
        _ => Err(std::io::Error::other("x").into()),
    });
    let done = worker.deliver(json!({"action": "welcome", "to": "ann"}), 2);
    assert_eq!(done.kind, "done");
    assert_eq!(done.fields["result"], json!({"sent": "ann", "attempt": 2}));
    assert_eq!(done.fields["output"], "INFO to ann\n");
    let unfit = worker.deliver(json!({"action": "welcome"}), 1);
    assert_eq!(unfit.fields["is_permanent"], true);
    for (payload, fields) in [
        ("retry", json!({"error": "later", "delay_seconds": 5.0})),
        ("fail", json!({"error": "no", "is_permanent": true})),
        ("panic", json!({"error": "panic: x"})),
        ("?", json!({"error": "x"})),
    ] {
        let outcome = worker.deliver(json!(payload), 1);
        assert_eq!((outcome.kind, json!(outcome.fields)), ("failed", fields), "{payload}");
    }
}
