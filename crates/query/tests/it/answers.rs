//! Every file of `tests/data` has queries, each with its result. `UPDATE_GOLDEN=1` updates them.

use std::fmt::Write;
use std::path::Path;

use query::{Kind, Limits, Value};

use crate::world::{ask, engine_of, id};

fn show(value: &Value) -> String {
    match value {
        Value::Null => "∅".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => text.replace('\n', "⏎"),
        Value::Time(at) => at.to_string(),
        Value::Uuid(id) => format!("#{}", id.as_u128() as u64),
        Value::Bytes(bytes) => format!("{bytes:?}"),
    }
}

fn word(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// The result of a query, as text: columns with types, rows, and the scans of the source.
fn answer(query: &str) -> String {
    let (engine, asked) = engine_of(1, Limits::default());
    let mut text = String::new();
    match ask(&engine, query, &[]) {
        Ok(rows) => {
            let columns =
                rows.columns.iter().map(|column| format!("{} {}", column.name, word(column.kind)));
            let _ = writeln!(text, "{}", columns.collect::<Vec<_>>().join(" | "));
            for row in &rows.rows {
                let _ = writeln!(text, "{}", row.iter().map(show).collect::<Vec<_>>().join(" | "));
            }
        }
        Err(error) => {
            let _ = write!(text, "! {} {}", error.state.code(), error.text);
            if let Some(at) = error.at {
                let rest: String = query[at..].chars().take(12).collect();
                let _ = write!(text, " ▸{}", rest.replace('\n', "⏎"));
            }
            if let Some(hint) = error.hint {
                let _ = write!(text, " ({hint})");
            }
            text.push('\n');
        }
    }
    for scan in asked.take() {
        let _ = writeln!(text, "~ {scan}");
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "how golden files are written anew")]
fn update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut made = String::new();
    for section in text.split("\n====\n") {
        let query = section.split("\n----\n").next().unwrap_or_default();
        let query = query.trim_matches('\n');
        if !made.is_empty() {
            made.push_str("\n====\n");
        }
        let _ = write!(made, "{query}\n----\n{}", answer(query));
    }
    if update() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let same = made.lines().zip(text.lines()).find(|(made, kept)| made != kept);
    assert_eq!(same, None, "{name}");
    assert_eq!(made.lines().count(), text.lines().count(), "{name}");
}

#[test]
fn questions_of_people() {
    check("select.txt");
}

#[test]
fn times_and_intervals() {
    check("times.txt");
}

#[test]
fn functions_and_operators() {
    check("functions.txt");
}

#[test]
fn what_is_asked_of_the_source() {
    check("pushdown.txt");
}

#[test]
fn what_is_refused() {
    check("refused.txt");
}

#[test]
fn questions_of_psql() {
    check("psql.txt");
}

#[test]
fn questions_of_other_clients() {
    check("clients.txt");
}

#[test]
fn questions_of_tools() {
    check("tools.txt");
}

/// As Metabase writes them: a summary, a trend, a query on a query, a scan of field values.
#[test]
fn questions_of_metabase() {
    check("metabase.txt");
}

#[test]
fn parameters_get_the_kind_of_their_place() {
    let (engine, asked) = engine_of(1, Limits::default());
    let text = "SELECT job_name FROM sys.jobs WHERE job_uuid = $1 AND updated_at < $2 AND paused = $3 LIMIT $4";
    let prepared = engine.prepare(text).unwrap();
    assert_eq!(prepared.parameters, [Kind::Uuid, Kind::Time, Kind::Bool, Kind::Int]);
    let given = [
        Value::text(id(1).to_string()),
        Value::text("2026-11-02"),
        Value::text("f"),
        Value::text("5"),
    ];
    let rows = ask(&engine, text, &given).unwrap().rows;
    assert_eq!(rows, [[Value::text("nightly")]]);
    assert_eq!(asked.take(), ["jobs; job_uuid in 1"]);
    let wrong = [Value::text("x"), Value::Null, Value::Null, Value::Null];
    let error = ask(&engine, text, &wrong).unwrap_err();
    assert_eq!(
        (error.state.code(), error.text.as_str()),
        ("22P02", "parameter $1: invalid input syntax for type uuid: \"x\"")
    );
    assert_eq!(ask(&engine, text, &[]).unwrap_err().state.code(), "42804");
}
