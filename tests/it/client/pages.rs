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
    let jobs = serde_json::to_string(&jobs).unwrap();
    let made = server.feed(&["job", "create", "-f", "-", "-o", "name"], &jobs);
    assert_eq!((made.code, made.stdout.lines().count()), (Some(0), count), "{:?}", made.stderr);
    let names = server.ok(&["job", "list", "-o", "name"]);
    assert_eq!(names.lines().count(), count);
    assert_eq!(names.lines().last(), Some("job-1002"));
    let some = server.run(&["job", "list", "-o", "name", "--limit", "501"]);
    assert_eq!(some.stdout.lines().count(), 501);
    assert!(some.stderr.contains("there are more jobs"), "{some:?}");
    let prefix = server.ok(&["job", "list", "-o", "name", "--prefix", "job-09"]);
    assert_eq!(prefix.lines().count(), 100);
}

#[test]
fn one_of_many_that_is_wrong_does_not_keep_the_others() {
    let server = Server::start();
    let job = |name: &str, cron: &str| {
        json!({"name": name, "cron_expression": cron, "payload": {"type": "NOOP"}}).to_string()
    };
    let jobs = [job("a", "0 0 * * *"), job("b", "61 * * * *"), job("c", "0 0 * * *")].join("\n");
    let made = server.feed(&["job", "create", "-f", "-", "-o", "name"], &jobs);
    assert_eq!((made.code, made.stdout.as_str()), (Some(2), "a\nc\n"), "{made:?}");
    assert!(made.stderr.starts_with("error: b: ") && made.stderr.contains("61"), "{made:?}");
}
