//! `/metrics` is well-formed, bounded, and matches docs/metrics.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::exposition::{MetricFamily, parse};
use super::process::{Server, until};

/// The metrics of a server on which a run has completed and another has failed.
pub fn metrics() -> BTreeMap<String, MetricFamily> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    for (name, sql) in [("good", "SELECT 1"), ("bad", "SELECT nonsense")] {
        let job = json!({
            "name": name, "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
            "payload": {"type": "SQL", "sql": sql},
        });
        assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
        assert_eq!(server.call("POST", &format!("/v1/jobs/{name}/trigger"), None).0, 202);
    }
    until(|| {
        let (status, text) = server.call("GET", "/metrics", None);
        assert_eq!(status, 200, "{text}");
        let metrics = parse(text.as_str().unwrap());
        let ended = |outcome| value(&metrics, "punctual_runs", &[("outcome", outcome)]);
        (ended("COMPLETED") == 1.0 && ended("FAILED") == 1.0).then_some(metrics)
    })
}

fn value(metrics: &BTreeMap<String, MetricFamily>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let labels: BTreeMap<String, String> = labels.iter().map(fits).collect();
    let samples = &metrics.get(name).unwrap_or_else(|| panic!("there is no {name}")).samples;
    let found = samples.iter().find(|sample| {
        sample.labels == labels
            && !sample.name.ends_with("_sum")
            && !sample.name.ends_with("_bucket")
    });
    found.unwrap_or_else(|| panic!("{name} has no {labels:?}: {samples:?}")).value
}

#[test]
fn metrics_are_well_formed_and_add_up() {
    let metrics = metrics();
    let plain = |name| value(&metrics, name, &[]);
    assert_eq!(plain("punctual_jobs"), 2.0);
    assert_eq!(plain("punctual_nodes"), 1.0);
    assert_eq!(plain("punctual_scheduler_jobs_dispatched"), 2.0);
    assert_eq!(plain("punctual_jobs_failed"), 1.0);
    assert_eq!(plain("punctual_dead_letters"), 1.0);
    assert_eq!(plain("punctual_job_run_latency_seconds"), 2.0);
    assert_eq!(plain("punctual_schedule_delay_seconds"), 2.0);
    assert!(plain("punctual_clock_offset_seconds").abs() < 2.0);
    let operation =
        |name| value(&metrics, "punctual_store_operation_duration_seconds", &[("operation", name)]);
    assert_eq!(operation("define"), 2.0);
    assert_eq!(operation("submit"), 2.0);
    assert!(operation("complete_and_claim") >= 1.0);
    assert_eq!(
        value(&metrics, "punctual_store_errors", &[("operation", "complete_and_claim")]),
        0.0
    );

    // Names say their unit, and what a caller makes up is nowhere.
    for (name, family) in &metrics {
        assert!(name.starts_with("punctual_"), "{name}");
        assert!(!name.ends_with("_ms") && !name.ends_with("_total"), "{name}");
        assert!(family.kind != "histogram" || name.ends_with("_seconds"), "{name}");
        let made_up = |value: &String| value == "good" || value == "bad";
        assert!(!family.samples.iter().any(|sample| sample.labels.values().any(made_up)), "{name}");
    }
}

#[test]
fn documented_metrics_are_the_ones_of_the_server() {
    let mut table = String::from("| name | kind | labels | what it is |\n|---|---|---|---|\n");
    for (name, family) in metrics() {
        let suffix = match family.kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<String> =
            family.labels().into_iter().map(|label| format!("`{label}`")).collect();
        let (labels, help) = (labels.join(", "), family.help.trim_end_matches('.'));
        writeln!(table, "| `{name}{suffix}` | {} | {labels} | {help} |", family.kind).unwrap();
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/metrics.md must contain:\n\n{table}");
}

#[test]
fn a_job_that_the_settings_select_has_metrics_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("PUNCTUAL_METRICS__JOBS", "by-name"),
        ("PUNCTUAL_METRICS__JOB_TAGS", "critical"),
        ("PUNCTUAL_METRICS__STORE", "false"),
    ];
    let server = Server::start_with(&folder.path().join("data"), &[], &environment);
    let jobs = [("by-name", json!([])), ("by-tag", json!(["critical"])), ("other", json!(["x"]))];
    for (name, tags) in jobs {
        let job = json!({
            "name": name, "job_type": "MANUAL", "tags": tags, "payload": {"type": "NOOP"},
        });
        assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
        assert_eq!(server.call("POST", &format!("/v1/jobs/{name}/trigger"), None).0, 202);
    }
    let metrics = until(|| {
        let (_, text) = server.call("GET", "/metrics", None);
        let metrics = parse(text.as_str().unwrap());
        let ended = value(&metrics, "punctual_runs", &[("outcome", "COMPLETED")]);
        (ended == 3.0).then_some(metrics)
    });
    for job in ["by-name", "by-tag"] {
        let labels = [("job", job), ("end", "COMPLETED")];
        assert_eq!(value(&metrics, "punctual_job_attempts", &labels), 1.0);
        let at = value(&metrics, "punctual_job_last_success_timestamp_seconds", &[("job", job)]);
        assert!(at > 1.7e9, "{at}");
    }
    let is_other = |value: &String| value == "other";
    for (name, family) in &metrics {
        assert!(!family.samples.iter().any(|it| it.labels.values().any(is_other)), "{name}");
    }
    assert!(!metrics.contains_key("punctual_store_errors"));
}
