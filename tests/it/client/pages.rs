//! Lists that are longer than a page.

use serde_json::{Value, json};

use super::bench::Server;

#[test]
fn a_list_is_followed_to_its_end() {
    let server = Server::start();
    let count = 1_003;
    let jobs: Vec<Value> = (0..count)
        .map(|n| json!({"name": format!("job-{n:04}"), "job_type": "MANUAL", "payload": {"type": "NOOP"}}))
        .collect();
    let answer = reqwest::blocking::Client::new()
        .post(format!("{}/v1/jobs:bulk", server.url()))
        .bearer_auth(server.key())
        .json(&jobs)
        .send()
        .unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let names = server.ok(&["job", "list", "-o", "name"]);
    assert_eq!(names.lines().count(), count);
    assert_eq!(names.lines().last(), Some("job-1002"));
    let some = server.run(&["job", "list", "-o", "name", "--limit", "501"]);
    assert_eq!(some.stdout.lines().count(), 501);
    assert!(some.stderr.contains("there are more jobs"), "{some:?}");
    let prefix = server.ok(&["job", "list", "-o", "name", "--prefix", "job-09"]);
    assert_eq!(prefix.lines().count(), 100);
}
