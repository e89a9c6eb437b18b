//! `punctual cron next --stdin`: one line of output for each line of input, valid or not.

use std::io::{BufRead, BufReader, Write};

use crate::binary::{punctual, run};

const STDIN: [&str; 3] = ["cron", "next", "--stdin"];

/// The answers to lines, one string a line.
fn answers(input: impl AsRef<[u8]>) -> Vec<String> {
    let ended = run(STDIN, input.as_ref());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr, "");
    ended.stdout.lines().map(str::to_owned).collect()
}

/// Question and answer; `…` in the answer stands for anything.
const CONVERSATION: &[(&str, &str)] = &[
    (
        r#"{"expr":"0 9 * * *","tz":"America/New_York","after":"2024-01-15T10:30:00Z","count":1}"#,
        r#"{"next":["2024-01-15T14:00:00Z"]}"#,
    ),
    (
        r#"{"expr": "0 2 * * *", "after": "2026-03-07T00:00:00-05:00", "count": 2}"#,
        r#"{"next":["2026-03-08T02:00:00Z","2026-03-09T02:00:00Z"]}"#,
    ),
    // Null counts as absent; the default count is five.
    (
        r#"{"expr":"@daily","tz":null,"after":"2026-01-01T00:00:00Z","count":null}"#,
        r#"{"next":["2026-01-02T00:00:00Z","2026-01-03T00:00:00Z","2026-01-04T00:00:00Z","2026-01-05T00:00:00Z","2026-01-06T00:00:00Z"]}"#,
    ),
    // The default of `after` is now.
    (r#"{"expr":"0 0 1 1 *","count":1}"#, r#"{"next":["…-01-01T00:00:00Z"]}"#),
    (r#"{"expr":"* * * * *","after":"9999-12-30T21:59:00Z","count":10000}"#, r#"{"next":[…]}"#),
    (r#"{"expr":"0 0 1 1 *","after":"9999-05-01T00:00:00Z"}"#, r#"{"next":[]}"#),
    // Escapes in the JSON count as what they stand for.
    (
        r#"{"expr":"\u0030 0 1 1\t*","after":"2026-01-01T00:00:00Z","count":1}"#,
        r#"{"next":["2027-01-01T00:00:00Z"]}"#,
    ),
    (
        r#"{"expr":"61 * * * *"}"#,
        r#"{"error":{"code":"INVALID_CRON","message":"minute: 61 is out of range 0-59","span":[0,2]…}}"#,
    ),
    (
        r#"{"expr":"0 0 * * MOM"}"#,
        r#"{"error":{"code":"INVALID_CRON",…"span":[8,11],"hint":"did you mean MON?"}}"#,
    ),
    (r#"{"expr":"0 0 30 2 *"}"#, r#"{"error":{"code":"INVALID_CRON",…"span":[4,10]…}}"#),
    (r#"{"expr":""}"#, r#"{"error":{"code":"INVALID_CRON",…"span":[0,0]…}}"#),
    (
        r#"{"expr":"* * * * *","tz":"Europe/Berlim"}"#,
        r#"{"error":{"code":"INVALID_TIMEZONE","message":"…did you mean Europe/Berlin?","span":[0,13]}}"#,
    ),
    (r#"{"expr":"* * * * *","tz":""}"#, r#"{"error":{"code":"INVALID_TIMEZONE",…"span":[0,0]}}"#),
    (
        r#"{"expr":"* * * * *","tz":"/etc/localtime"}"#,
        r#"{"error":{"code":"INVALID_TIMEZONE",…"span":[0,14]}}"#,
    ),
    // The expression comes first.
    (r#"{"expr":"","tz":""}"#, r#"{"error":{"code":"INVALID_CRON",…}}"#),
    (
        r#"{"expr":"* * * * *","after":"yesterday"}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"after: \"yesterday\" is not an RFC 3339 time…"}}"#,
    ),
    (
        r#"{"expr":"* * * * *","after":"2026-03-08T02:30:00"}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"after: …"}}"#,
    ),
    (r#"{"expr":"* * * * *","after":12}"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (
        r#"{"expr":"* * * * *","count":0}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"count: must be from 1 to 10000"}}"#,
    ),
    (
        r#"{"expr":"* * * * *","count":10001}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"count: must be from 1 to 10000"}}"#,
    ),
    (
        r#"{"expr":"* * * * *","count":4294967297}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"count: must be from 1 to 10000"}}"#,
    ),
    (r#"{"expr":"* * * * *","count":-1}"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (r#"{"expr":"* * * * *","count":1.5}"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (
        r#"{"expr":"* * * * *","timezone":"UTC"}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"unknown field `timezone`…"}}"#,
    ),
    (
        r#"{"expr":"* * * * *","expr":"* * * * *"}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"duplicate field…"}}"#,
    ),
    (
        r#"{"tz":"UTC"}"#,
        r#"{"error":{"code":"INVALID_REQUEST","message":"missing field `expr`…"}}"#,
    ),
    ("", r#"{"error":{"code":"INVALID_REQUEST","message":"the line is empty…"}}"#),
    ("  \t\r", r#"{"error":{"code":"INVALID_REQUEST","message":"the line is empty…"}}"#),
    ("0 2 * * *", r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    ("null", r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (r#"["* * * * *"]"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (r#"{"expr":"* * * * *""#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (r#"{"expr":"* * * * *"} {"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
    (r#"{"expr":"\ud800"}"#, r#"{"error":{"code":"INVALID_REQUEST",…}}"#),
];

fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn every_line_has_its_answer_in_order() {
    let questions: String =
        CONVERSATION.iter().map(|(question, _)| format!("{question}\n")).collect();
    let answers = answers(questions);
    assert_eq!(answers.len(), CONVERSATION.len());
    for ((question, expected), answer) in CONVERSATION.iter().zip(&answers) {
        assert!(
            matches(expected, answer),
            "{question}\n  expected {expected}\n  answered {answer}"
        );
    }
}

#[test]
fn the_last_line_needs_no_line_feed_and_no_line_no_answer() {
    let question = r#"{"expr":"@daily","after":"2026-01-01T00:00:00Z","count":1}"#;
    assert_eq!(answers(question), [r#"{"next":["2026-01-02T00:00:00Z"]}"#]);
    assert_eq!(answers(""), [""; 0]);
}

#[test]
fn a_line_that_is_no_text_or_too_long_does_not_disturb_the_next() {
    let question = r#"{"expr":"@daily","after":"2026-01-01T00:00:00Z","count":1}"#;
    let mut input = b"{\"expr\":\"\xff\xfe\"}\n".to_vec();
    input.extend(format!("{question}\n").bytes());
    input.extend(format!("{{\"expr\":\"{}\"}}\n", "*".repeat(8_000_000)).bytes());
    input.extend(format!("{question}\n").bytes());
    input.extend(format!("{{\"expr\":\"{}\"}}\n", "*".repeat(300)).bytes());
    input.extend(b"\x00\x1b[2J\n");
    let answers = answers(input);
    assert_eq!(answers.len(), 6);
    assert!(answers[0].contains("INVALID_REQUEST"), "{}", answers[0]);
    assert_eq!(answers[1], r#"{"next":["2026-01-02T00:00:00Z"]}"#);
    assert!(answers[2].contains("longer than 65536 bytes"), "{}", answers[2]);
    assert_eq!(answers[3], answers[1]);
    assert!(answers[4].contains(r#""span":[0,300]"#), "{}", answers[4]);
    assert!(!answers[5].contains('\u{1b}'), "{}", answers[5]);
}

#[test]
fn options_hold_for_lines_that_leave_them_out() {
    let options = ["--tz", "Asia/Tokyo", "--after", "2026-01-01T00:00:00Z", "--count", "1"];
    let input = "{\"expr\":\"0 12 * * *\"}\n{\"expr\":\"0 12 * * *\",\"tz\":\"UTC\",\"count\":2}\n";
    let ended = run(STDIN.into_iter().chain(options), input.as_bytes());
    assert_eq!(
        ended.stdout,
        "{\"next\":[\"2026-01-01T03:00:00Z\"]}\n\
         {\"next\":[\"2026-01-01T12:00:00Z\",\"2026-01-02T12:00:00Z\"]}\n"
    );
}

#[test]
fn whoever_waits_for_an_answer_gets_it_before_asking_again() {
    let mut child = punctual(STDIN).spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for day in 1..20 {
        let question =
            format!(r#"{{"expr":"@daily","after":"2026-01-{day:02}T00:00:00Z","count":1}}"#);
        writeln!(questions, "{question}").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert_eq!(answer, format!(r#"{{"next":["2026-01-{:02}T00:00:00Z"]}}"#, day + 1));
    }
    drop(questions);
    assert!(answers.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
