use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: JobFlags,
}

fn fields(args: &[&str]) -> Result<Value, String> {
    let line = Line::try_parse_from(["x"].iter().chain(args)).map_err(|e| e.kind().to_string())?;
    match line.flags.fields() {
        Ok(fields) => Ok(Value::Object(fields)),
        Err(Failure::Refused(error)) => Err(format!("{error:?}")),
        Err(_) => Err("other".to_owned()),
    }
}

#[test]
fn options_become_fields() {
    let rows: &[(&[&str], Value)] = &[
        (&[], json!({})),
        (
            &["--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--noop"],
            json!({
                "job_type": "CRON", "cron_expression": "0 2 * * *", "timezone": "Europe/Berlin",
                "payload": {"type": "NOOP"},
            }),
        ),
        (
            &[
                "--every",
                "1m 30s",
                "--retries",
                "0",
                "--backoff",
                "250ms",
                "--tag",
                "a,b",
                "--tag",
                "c",
            ],
            json!({
                "job_type": "INTERVAL", "interval_seconds": 90,
                "retry_config": {"max_attempts": 1, "backoff_seconds": 0.25},
                "tags": ["a", "b", "c"],
            }),
        ),
        (&["--in", "1h"], json!({"job_type": "DELAYED", "delay_seconds": 3600})),
        (
            &["--after", "a", "--after", "b:failure", "--overlap", "cancel-previous"],
            json!({
                "job_type": "DEPENDENT", "overlap": "CANCEL_PREVIOUS",
                "depends_on": [{"job": "a", "on": "SUCCESS"}, {"job": "b", "on": "FAILURE"}],
            }),
        ),
        (
            &["--http", "http://x", "--method", "put", "--header", "A: b:c", "--body", "{\"x\":1}"],
            json!({"payload": {
                "type": "HTTP", "endpoint": "http://x", "method": "PUT",
                "headers": {"A": "b:c"}, "body": {"x": 1},
            }}),
        ),
        (
            &["--procedure", "p", "--argument", "1", "--argument", "x", "--database", "d"],
            json!({"payload": {
                "type": "PROCEDURE", "procedure": "p", "arguments": [1, "x"], "database": "d",
            }}),
        ),
        (
            &["--backup", "nightly", "--keep", "7"],
            json!({"payload": {"type": "BACKUP", "target": "nightly", "keep": 7}}),
        ),
        (
            &["--env", "A=b=c", "--", "/bin/echo", "-n", "x"],
            json!({"payload": {
                "type": "EXTERNAL", "command": "/bin/echo", "arguments": ["-n", "x"],
                "environment": {"A": "b=c"},
            }}),
        ),
        (
            &["--command", "/bin/echo", "--", "-n"],
            json!({"payload": {"type": "EXTERNAL", "command": "/bin/echo", "arguments": ["-n"]}}),
        ),
        (
            &["--shell", "date | cat"],
            json!({"payload": {
                "type": "EXTERNAL", "command": "/bin/sh", "arguments": ["-c", "date | cat"],
            }}),
        ),
    ];
    for (args, wanted) in rows {
        assert_eq!(fields(args).as_ref(), Ok(wanted), "{args:?}");
    }
}

#[test]
fn contradictions_are_refused() {
    let rows: &[(&[&str], &str)] = &[
        (&["--cron", "x", "--every", "1h"], "cannot be used with"),
        (&["--http", "http://x", "--sql", "y"], "cannot be used with"),
        (&["--every", "5"], "invalid value"),
        (&["--method", "GET"], "required"),
        (&["--sql", "x", "--", "y"], "belong to no command"),
        (&["--shell", "x", "--", "y"], "belong to no command"),
        (&["--http", "http://x", "--header", "x"], "no colon"),
        (&["--env", "x", "--", "y"], "no value"),
        (&["--after", "a:sometimes"], "no end of a job"),
    ];
    for (args, part) in rows {
        let error = fields(args).unwrap_err();
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

/// Every flag of the table of job fields exists, and a simple field becomes its REST key.
#[test]
fn flags_of_the_table_of_job_fields() {
    use clap::CommandFactory;
    use domain::job::{JOB_FIELDS, PolicyKind};

    let command = Line::command();
    let known = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    for field in JOB_FIELDS {
        for flag in field.flags() {
            // It belongs to `job create` alone.
            assert!(known(flag) || flag == "paused", "no flag --{flag}");
        }
        let (Some(policy), Some(flag)) = (&field.policy, field.flags().next()) else { continue };
        if field.has_own_flag {
            continue;
        }
        let (text, json) = match policy.kind {
            PolicyKind::Word(kind) => {
                (kind.words[0].to_ascii_lowercase().replace('_', "-"), json!(kind.words[0]))
            }
            PolicyKind::Duration => ("1m 30s".to_owned(), json!(90)),
            PolicyKind::Count(_) => ("7".to_owned(), json!(7)),
            PolicyKind::Text => ("a b".to_owned(), json!("a b")),
            PolicyKind::Flag => (String::new(), json!(true)),
            PolicyKind::List => ("a,b".to_owned(), json!(["a", "b"])),
        };
        let flag = format!("--{flag}");
        let args = [flag.as_str(), &text];
        let args = if text.is_empty() { &args[..1] } else { &args[..] };
        assert_eq!(fields(args), Ok(json!({ field.key(): json })), "{args:?}");
    }
}
