//! A run becomes a trace at a collector, and a collector that is away holds nothing up.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::process::{Server, until};
use super::sink::{header, received, sink};

/// The spans of a request, after a look at everything around them.
fn spans(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap();
    let resource = &body["resourceSpans"][0];
    let about = attributes(&resource["resource"]);
    assert_eq!(about["service.name"], "punctual");
    assert!(about["service.instance.id"].contains('#'), "the host and the process");
    resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

/// Attributes by name, numbers as text.
fn attributes(of: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| {
        let value = value.get("stringValue").or(value.get("intValue")).unwrap();
        value.as_str().unwrap().to_owned()
    };
    let all = of["attributes"].as_array().unwrap().iter();
    all.map(|one| (one["key"].as_str().unwrap().to_owned(), text(&one["value"]))).collect()
}

fn nanoseconds(span: &Value, field: &str) -> u64 {
    span[field].as_str().unwrap().parse().unwrap()
}

fn start(folder: &tempfile::TempDir, endpoint: &str) -> Server {
    let environment = [
        ("PUNCTUAL_OTLP__ENDPOINT", endpoint),
        ("PUNCTUAL_OTLP__HEADERS", "x-key=secret, x-team=ours"),
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
    ];
    Server::start_with(&folder.path().join("data"), &[], &environment)
}

fn sql(text: &str) -> Value {
    json!({"type": "SQL", "sql": text})
}

/// A new job with this payload, and a run of it.
fn trigger(server: &Server, payload: Value) -> (Value, String) {
    let job = json!({
        "name": "traced", "job_type": "MANUAL",
        "retry_config": {"max_attempts": 2, "backoff_seconds": 1},
        "payload": payload,
    });
    let (status, made) = server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(status, 201, "{made}");
    let (status, run) = server.call("POST", "/v1/jobs/traced/trigger", None);
    assert_eq!(status, 202, "{run}");
    (made["job_id"].clone(), run["execution_id"].as_str().unwrap().to_owned())
}

#[test]
fn a_run_is_a_trace_with_a_span_for_each_step_of_each_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = sink();
    let server = start(&folder, &format!("http://{address}/otlp/"));
    // An overflow, every time, of a kind that is worth another try.
    let (job, run) = trigger(&server, sql("SELECT abs(-9223372036854775808)"));

    // Spans that a busy collector refuses are sent again.
    let (first, body) = received(&collector, "503 Service Unavailable");
    assert!(first.starts_with("POST /otlp/v1/traces HTTP/1.1"), "{first}");
    assert_eq!(header(&first, "content-type"), "application/json");
    assert_eq!((header(&first, "x-key"), header(&first, "x-team")), ("secret", "ours"));
    let (_, again) = received(&collector, "200 OK");
    assert_eq!(body, again);

    let mut all = spans(&again);
    while !all.iter().any(|span| span["name"] == "run") {
        all.extend(spans(&received(&collector, "200 OK").1));
    }
    let mut names: Vec<&str> = all.iter().map(|span| span["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected = ["claim", "claim", "execute", "execute", "plan", "run", "settle", "settle"];
    assert_eq!(names, expected, "{all:#?}");

    let root = all.iter().find(|span| span["name"] == "run").unwrap();
    assert!(root.get("parentSpanId").is_none(), "{root}");
    let about = attributes(root);
    assert_eq!(about["punctual.outcome"], "FAILED");
    assert_eq!(root["status"]["code"], 2, "{root}");
    let mut ids = Vec::new();
    for span in &all {
        assert_eq!(span["traceId"], run.replace('-', ""), "{span}");
        assert!(nanoseconds(span, "startTimeUnixNano") <= nanoseconds(span, "endTimeUnixNano"));
        let about = attributes(span);
        assert_eq!(about["punctual.run.id"], run);
        assert_eq!(json!(about["punctual.job.id"]), job);
        assert_eq!(about["punctual.job.name"], "traced");
        assert!(about.contains_key("punctual.node.id"), "{span}");
        if span["name"] != "run" {
            assert_eq!(span["parentSpanId"], root["spanId"], "{span}");
        }
        ids.push(span["spanId"].as_str().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "every span has an id of its own");
    let executed = all.iter().filter(|span| span["name"] == "execute");
    let mut attempts: Vec<(String, String)> = executed
        .map(|span| {
            let about = attributes(span);
            (about["punctual.attempt"].clone(), about["punctual.attempt.end"].clone())
        })
        .collect();
    attempts.sort();
    let failed = |number: &str| (number.to_owned(), "FAILED".to_owned());
    assert_eq!(attempts, [failed("1"), failed("2")]);
}

#[test]
fn what_waits_is_sent_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = sink();
    let server = start(&folder, &format!("http://{address}"));
    let (called, endpoint) = sink();
    let own = trigger(&server, json!({"endpoint": format!("http://{endpoint}/")})).1;
    let (own_head, _) = received(&called, "200 OK");
    // Another run, triggered by a client that has a trace already.
    let (trace, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let body = json!({"parameters": {"traceparent": format!("00-{trace}-{caller}-01")}});
    let (status, joined) = server.call("POST", "/v1/jobs/traced/trigger", Some(&body));
    assert_eq!(status, 202, "{joined}");
    let joined = joined["execution_id"].as_str().unwrap().to_owned();
    let (joined_head, _) = received(&called, "200 OK");
    for run in [&own, &joined] {
        until(|| {
            let (_, seen) = server.call("GET", &format!("/v1/executions/{run}"), None);
            (seen["status"] == "COMPLETED").then_some(())
        });
    }
    server.terminate();
    let mut all = Vec::new();
    while all.iter().filter(|span: &&Value| span["name"] == "run").count() < 2 {
        all.extend(spans(&received(&collector, "200 OK").1));
    }
    assert_eq!(server.wait(), Some(0));

    let of_own = (own.replace('-', ""), Value::Null, own_head);
    let of_joined = (trace.to_owned(), json!(caller), joined_head);
    for (run, (trace, caller, head)) in [(own, of_own), (joined, of_joined)] {
        let of_run = |span: &&Value| attributes(span)["punctual.run.id"] == run;
        let mine: Vec<&Value> = all.iter().filter(of_run).collect();
        let named = |name: &str| *mine.iter().find(|span| span["name"] == name).unwrap();
        assert_eq!(mine.len(), 5, "{mine:#?}");
        for span in &mine {
            assert_eq!(span["traceId"], trace, "{span}");
        }
        assert_eq!(named("run")["parentSpanId"], caller);
        assert_eq!(named("plan")["parentSpanId"], named("run")["spanId"]);
        // The endpoint of the job gets the context of the trace.
        let span = named("execute")["spanId"].as_str().unwrap();
        assert_eq!(header(&head, "traceparent"), format!("00-{trace}-{span}-01"));
    }
}

#[test]
fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let closed = testbed::postgres::free_port().unwrap();
    let server = start(&folder, &format!("http://127.0.0.1:{closed}"));
    let (_, run) = trigger(&server, sql("SELECT 1"));
    until(|| {
        let (_, seen) = server.call("GET", &format!("/v1/executions/{run}"), None);
        (seen["status"] == "COMPLETED").then_some(())
    });
    until(|| {
        let (_, text) = server.call("GET", "/metrics", None);
        let text = text.as_str().unwrap().to_owned();
        let dropped =
            text.lines().find(|line| line.starts_with("punctual_otlp_spans_dropped_total "));
        (dropped?.rsplit(' ').next()?.parse::<u64>().ok()? >= 5).then_some(())
    });
    let line = server.line_with("OTLP collector rejected traces");
    assert!(line.contains("\"level\":\"WARN\"") && !line.contains("secret"), "{line}");
}
