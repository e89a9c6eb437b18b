//! The sample jobs, as bodies of `POST /v1/jobs`. Each shows one thing.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The job that fails and is tried again.
pub const FLAKY: &str = "flaky-endpoint";

/// The job that is skipped while it still runs.
pub const SLOW: &str = "slow-endpoint";

/// The job whose runs begin late.
pub const LATE: &str = "late-report";

/// The job that waits for another one.
pub const WAITING: &str = "waiting-release";

/// The job that starts a command.
pub const COMMAND_JOB: &str = "machine";

/// The command that it starts: on every Linux, and harmless.
pub const COMMAND: &str = "/usr/bin/uname";

/// The target of the backups.
pub const BACKUPS: &str = "snapshots";

/// The queue of the samples.
pub const QUEUE: &str = "letters";

/// A queue for workers, as a body of `POST /v1/queues`.
pub fn queue() -> Value {
    json!({
        "name": QUEUE, "tags": ["sample"], "max_depth": 1000, "weights": {"acme": 2},
        "description": "Messages for workers of your own: lease them with the commands of its page.",
    })
}

/// The first messages of the queue, as a body of `POST /v1/queues/{queue}/messages`.
pub fn messages() -> Value {
    let workspaces = ["acme", "acme", "acme", "initech", "umbrella"];
    let message = |(number, workspace): (usize, &str)| {
        json!({
            "workspace": workspace,
            "payload": {"to": format!("customer-{number}@example.com"), "template": "welcome"},
        })
    };
    let messages: Vec<Value> = workspaces.into_iter().enumerate().map(message).collect();
    json!({ "messages": messages })
}

/// The workflow of the samples.
pub const WORKFLOW: &str = "nightly-pipeline";

/// A step of it, which is not retried.
fn step(name: &str, after: &[&str], payload: &Value) -> Value {
    json!({"name": name, "dependencies": after, "payload": payload, "max_retries": 0})
}

/// A workflow as a body of `POST /v1/dags`: steps side by side, one for each of three files, one
/// that fails, one that is not chosen, and one that waits for an approval.
pub fn workflow(server: &str, service: &str) -> Value {
    let noop = json!({"type": "NOOP"});
    let get = |url: String| json!({"endpoint": url, "method": "GET"});
    let mut tasks = vec![
        step("extract", &[], &get(format!("{server}/healthz"))),
        step("customers", &[], &noop),
        step("transform", &["extract", "customers"], &noop),
        step("load", &["transform"], &noop),
        step("check", &["transform"], &get(format!("{service}/broken"))),
        step("report", &["check"], &noop),
        step("deep-check", &["transform"], &noop),
        step("publish", &["load"], &json!({"type": "APPROVAL", "timeout_seconds": 86_400})),
        step("clean", &["publish", "report"], &noop),
    ];
    let more = [
        ("load", "for_each", json!({"item": "file", "list": "config.files"})),
        ("deep-check", "when", json!("config.check = 'deep'")),
        ("clean", "trigger_rule", json!("ALL_DONE")),
    ];
    for (name, field, value) in more {
        tasks.iter_mut().filter(|task| task["name"] == name).for_each(|task| {
            task[field] = value.clone();
        });
    }
    json!({
        "name": WORKFLOW, "tags": ["sample"], "cron_expression": "0 2 * * *",
        "description": "A workflow: its step check fails, and publish waits for an approval.",
        "config": {"files": ["a.csv", "b.csv", "c.csv"], "check": "quick"},
        "tasks": tasks,
    })
}

/// A status page as a body of `POST /v1/status-pages`. It is not public.
pub fn status_page() -> Value {
    json!({"name": "samples", "title": "Sample jobs", "tags": ["sample"]})
}

/// A job that starts a command of the machine.
pub fn command(now: Timestamp) -> Value {
    let soon = Timestamp::from_second(now.as_second() + 2).unwrap_or(now);
    json!({
        "name": COMMAND_JOB, "tags": ["sample", "external"],
        "description": "A command: prints what kind of machine this is, without network access.",
        "interval_seconds": 20, "starts_at": soon,
        "payload": {"command": COMMAND, "arguments": ["-a"]},
    })
}

/// Jobs that call this server, and the service that is slow or broken. A job comes after those
/// that it depends on.
pub fn jobs(server: &str, service: &str, now: Timestamp) -> Vec<Value> {
    let after = |seconds| Timestamp::from_second(now.as_second() + seconds).unwrap_or(now);
    vec![
        json!({
            "name": "health-check", "tags": ["sample", "http"],
            "description": "A cron job: asks this server every minute how it is.",
            "cron_expression": "* * * * *",
            "payload": {"endpoint": format!("{server}/healthz"), "method": "GET"},
        }),
        json!({
            "name": "letters-feed", "tags": ["sample", "queue"],
            "description": "Sends a message to a queue every minute.",
            "cron_expression": "* * * * *",
            "payload": {"type": "QUEUE", "queue": QUEUE, "message": {"template": "digest"}, "workspace": "acme"},
        }),
        json!({
            "name": "heartbeat", "tags": ["sample", "sql"],
            "description": "An interval: adds a row to a table of the database main.",
            "interval_seconds": 5, "starts_at": after(2),
            "payload": {
                "database": "main",
                "sql": "CREATE TABLE IF NOT EXISTS beats (at TEXT NOT NULL);
                        INSERT INTO beats VALUES (punctual('scheduled_for'));
                        SELECT count(*) AS beats FROM beats",
            },
        }),
        json!({
            "name": "once", "tags": ["sample", "http"],
            "description": "A one-time job: asks for the version of this server.",
            "run_at": after(5),
            "payload": {"endpoint": format!("{server}/version"), "method": "GET"},
        }),
        json!({
            "name": "a-little-later", "tags": ["sample"],
            "description": "A delayed job: runs a little after it was made, and does nothing.",
            "delay_seconds": 10,
            "payload": {"type": "NOOP"},
        }),
        json!({
            "name": FLAKY, "tags": ["sample", "http"],
            "description": "Fails, is tried again after one and two seconds, and is given up.",
            "interval_seconds": 30, "starts_at": after(2),
            "retry_config": {"max_attempts": 3, "backoff_seconds": 1, "backoff_multiplier": 2},
            "payload": {"endpoint": format!("{service}/broken")},
        }),
        json!({
            "name": SLOW, "tags": ["sample", "http"],
            "description": "Takes longer than its interval: times that come meanwhile are skipped.",
            "interval_seconds": 2, "starts_at": after(2), "overlap": "SKIP",
            "payload": {"endpoint": format!("{service}/slow")},
        }),
        json!({
            "name": LATE, "tags": ["sample", "http"],
            "description": "Takes longer than its interval and waits in line: its runs begin late, and are missed after 12 seconds.",
            "interval_seconds": 4, "starts_at": after(2), "overlap": "QUEUE",
            "start_deadline_seconds": 12,
            "payload": {"endpoint": format!("{service}/slow")},
        }),
        json!({
            "name": "approval", "tags": ["sample", "chain"],
            "description": "Runs on request only: punctual job run approval.",
            "job_type": "MANUAL",
            "payload": {"type": "NOOP"},
        }),
        json!({
            "name": WAITING, "tags": ["sample", "chain"],
            "description": "Waits for approval, which runs on request only.",
            "interval_seconds": 3600, "starts_at": after(2), "depends_on": ["approval"],
            "payload": {"type": "NOOP"},
        }),
        json!({
            "name": "snapshot", "tags": ["sample", "backup"],
            "description": "A backup of this server every minute; the last three are kept.",
            "cron_expression": "* * * * *",
            "payload": {"type": "BACKUP", "target": BACKUPS, "keep": 3},
        }),
        json!({
            "name": "extract", "tags": ["sample", "chain"],
            "description": "The first of a chain.",
            "interval_seconds": 15, "starts_at": after(2),
            "payload": {"database": "main", "sql": "SELECT 'extracted' AS step"},
        }),
        json!({
            "name": "transform", "tags": ["sample", "chain"],
            "description": "Runs when extract has completed.",
            "job_type": "DEPENDENT", "depends_on": ["extract"],
            "payload": {"database": "main", "sql": "SELECT 'transformed' AS step"},
        }),
        json!({
            "name": "load", "tags": ["sample", "chain"],
            "description": "Runs when transform has completed.",
            "job_type": "DEPENDENT", "depends_on": ["transform"],
            "payload": {"database": "main", "sql": "SELECT 'loaded' AS step"},
        }),
    ]
}
