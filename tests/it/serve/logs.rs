//! Lines about a run say which run and which attempt.

use serde_json::{Value, json};

use super::process::Server;

#[test]
fn lines_about_a_run_carry_its_id_and_the_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--log-format", "json"];
    let environment = [("PUNCTUAL_LOG", "info,punctual_agent=debug,punctual_engine=debug")];
    let server = Server::start_with(&folder.path().join("data"), &more, &environment);
    let job = json!({
        "name": "talks", "job_type": "MANUAL",
        "retry_config": {"max_attempts": 2, "backoff_seconds": 1},
        "payload": {"type": "SQL", "sql": "SELECT abs(-9223372036854775808)"},
    });
    assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
    let (_, run) = server.call("POST", "/v1/jobs/talks/trigger", None);
    let run = &run["execution_id"];
    let line = |words: &str| -> Value { serde_json::from_str(&server.line_with(words)).unwrap() };
    for attempt in [1, 2] {
        // A line of the agent, which knows nothing of runs where it is written.
        let begins = line("an attempt begins");
        assert_eq!(begins["target"], "punctual_agent");
        let span = &begins["span"];
        assert_eq!((&span["run"], &span["attempt"]), (run, &json!(attempt)), "{begins}");
        assert_eq!(span["job"], "talks");
        let ended = line("attempt failed");
        assert_eq!((&ended["run"], &ended["attempt"]), (run, &json!(attempt)), "{ended}");
        assert_eq!((&ended["level"], &ended["end"]), (&json!("WARN"), &json!("FAILED")), "{ended}");
        assert_eq!(ended["job"], "talks", "{ended}");
        let reason = ended["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("overflow"), "{ended}");
        assert!(ended["took_ms"].is_i64() && ended["late_ms"].is_i64(), "{ended}");
    }
    // The alert of a run that failed for good names it as well.
    let alert = line("\"message\":\"alert\"");
    assert_eq!(&alert["run"], run, "{alert}");
}

#[test]
fn runs_that_completed_are_logged_where_the_settings_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("PUNCTUAL_JOBS__LOG_COMPLETED", "true")];
    let server =
        Server::start_with(&folder.path().join("data"), &["--log-format", "json"], &environment);
    let job = json!({"name": "quiet", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
    server.call("POST", "/v1/jobs/quiet/trigger", None);
    let line: Value = serde_json::from_str(&server.line_with("attempt completed")).unwrap();
    assert_eq!((&line["level"], &line["job"]), (&json!("INFO"), &json!("quiet")), "{line}");
}
