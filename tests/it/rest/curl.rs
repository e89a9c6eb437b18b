//! The way of a job with nothing but curl.

use serde_json::{Value, json};

use super::{Bed, program, run};
use crate::serve::process::until;

#[test]
fn curl_creates_triggers_waits_reads_and_deletes() {
    let bed = Bed::new();
    let key = format!("Authorization: Bearer {}", bed.server.key);
    let curl = |args: &[&str], path: &str| {
        let mut command = program("curl");
        command.args(["--silent", "--show-error", "--fail-with-body", "--header", &key]);
        run(command.args(args).arg(bed.url() + path))
    };
    let read = |text: String| serde_json::from_str::<Value>(&text).expect("an answer in JSON");
    let job = json!({
        "name": "greeter", "job_type": "MANUAL",
        "payload": {"command": "/bin/echo", "arguments": ["hello"]},
    });
    let made = read(curl(&["--json", &job.to_string()], "/v1/jobs"));
    assert_eq!(made["status"], "ACTIVE");
    let run = read(curl(&["--request", "POST"], "/v1/jobs/greeter/trigger"));
    let execution = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    until(|| (read(curl(&[], &execution))["status"] == "COMPLETED").then_some(()));
    assert_eq!(curl(&[], &format!("{execution}/logs")), "hello\n");
    curl(&["--request", "DELETE"], "/v1/jobs/greeter");
    let gone = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let mut command = program("curl");
    command.args(["--silent", "--header", &key]).args(gone).arg(bed.url() + "/v1/jobs/greeter");
    assert_eq!(super::run(&mut command), "404");
}
