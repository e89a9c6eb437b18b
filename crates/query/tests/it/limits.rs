//! Limits of queries, and that every query ends.

use std::time::Duration;

use query::{Cancel, Limits, State};

use crate::world::{ask, engine_of};

fn state(text: &str, limits: Limits) -> State {
    let (engine, _) = engine_of(1, limits);
    ask(&engine, text, &[]).unwrap_err().state
}

const ENDLESS: &str =
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";

#[test]
fn a_statement_ends_when_its_time_is_over() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    assert_eq!(state(ENDLESS, limits), State::Cancelled);
    // The next query has its own time.
    let (engine, _) = engine_of(1, limits);
    assert_eq!(ask(&engine, ENDLESS, &[]).unwrap_err().state.code(), "57014");
    assert_eq!(ask(&engine, "SELECT 1", &[]).unwrap().rows.len(), 1);
}

#[test]
fn a_source_that_never_ends_is_stopped_too() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let (engine, _) = engine_of(usize::MAX, limits);
    assert_eq!(
        ask(&engine, "SELECT count(*) FROM sys.jobs", &[]).unwrap_err().state,
        State::Cancelled
    );
}

#[test]
fn a_statement_is_cancelled_from_another_thread() {
    let (engine, _) = engine_of(1, Limits { time: Duration::from_secs(600), ..Limits::default() });
    let prepared = engine.prepare(ENDLESS).unwrap();
    let cancel = Cancel::default();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| engine.run(&prepared, &[], &cancel));
        cancel.cancel();
        running.join().unwrap().unwrap_err()
    });
    assert_eq!((error.state.code(), error.text.as_str()), ("57014", "statement cancelled"));
}

#[test]
fn rows_and_bytes_are_counted() {
    let few = Limits { rows: 4, ..Limits::default() };
    assert_eq!(state("SELECT * FROM sys.job_runs", few), State::TooMuch);
    let (engine, _) = engine_of(1, few);
    assert_eq!(ask(&engine, "SELECT * FROM sys.job_runs LIMIT 4", &[]).unwrap().rows.len(), 4);
    let small = Limits { bytes: 10_000, ..Limits::default() };
    let (engine, _) = engine_of(1_000, small);
    let error = ask(&engine, "SELECT max(state) FROM sys.job_runs", &[]).unwrap_err();
    assert_eq!(error.state, State::TooMuch);
}

#[test]
fn bombs_do_not_go_off() {
    let limits = Limits { time: Duration::from_secs(20), bytes: 64 << 20, ..Limits::default() };
    for text in [
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad('x', 2000000000)",
        "SELECT replace(repeat('a', 100000), 'a', repeat('b', 100000))",
        "WITH RECURSIVE t(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM t) SELECT count(*) FROM t",
        "WITH RECURSIVE t(x, n) AS (SELECT repeat('x', 60000), 1 UNION SELECT x || '', n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' ~ '((((a{1,100}){1,100}){1,100}){1,100})'",
        "SELECT count(*) FROM generate_series(1, 9000000000000000000)",
        "SELECT * FROM generate_series(1, 1000000, 0)",
    ] {
        let state = state(text, limits);
        let known = [
            State::TooMuch,
            State::OutOfMemory,
            State::Cancelled,
            State::InvalidPattern,
            State::InvalidValue,
        ];
        assert!(known.contains(&state), "{text}: {state:?}");
    }
    // A pattern that is slow with backtracking is matched in linear time.
    let (engine, _) = engine_of(1, limits);
    let slow =
        "SELECT repeat('a', 5000) || 'b' ~ '^(a+)+$', repeat('a', 5000) LIKE '%a%a%a%a%a%a%a%b'";
    assert_eq!(ask(&engine, slow, &[]).unwrap().rows.len(), 1);
}

#[test]
fn deep_and_long_statements_are_refused() {
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(state(&deep, Limits::default()), State::TooMuch);
    let many = format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(5_000));
    assert_eq!(state(&many, Limits::default()), State::TooMuch);
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert_eq!(state(&long, Limits::default()), State::TooMuch);
    let sum = format!("SELECT 1{}", " + 1".repeat(5_000));
    assert_eq!(state(&sum, Limits::default()), State::TooMuch);
}

#[test]
fn steps_are_counted() {
    let limits = Limits { steps: 100_000, ..Limits::default() };
    let (engine, _) = engine_of(1, limits);
    let error = ask(&engine, ENDLESS, &[]).unwrap_err();
    assert_eq!(error.state.code(), "54000");
    assert!(error.text.contains("sql.statement_steps_max = 100000"), "{error}");
    assert_eq!(ask(&engine, "SELECT 1", &[]).unwrap().rows.len(), 1);
}

#[test]
fn memory_is_counted_wherever_it_is_held() {
    let limits = Limits { memory: 4 << 20, time: Duration::from_secs(60), ..Limits::default() };
    let (engine, _) = engine_of(1, limits);
    let wide = (0..40).map(|n| format!("repeat('x', 500000 + {n})")).collect::<Vec<_>>().join(", ");
    let many = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 1000000)";
    for text in [
        // Sorted, grouped, materialised, joined, aggregated, and in one row.
        &format!("{many} SELECT n FROM t ORDER BY n || repeat('x', 100) LIMIT 1 OFFSET 900000"),
        &format!(
            "{many} SELECT count(*) FROM (SELECT n || repeat('x', 100) AS x FROM t GROUP BY 1)"
        ),
        &format!("{many} SELECT count(*) FROM (SELECT DISTINCT n || repeat('x', 100) FROM t)"),
        &format!(
            "{many}, u AS MATERIALIZED (SELECT n || repeat('x', 100) AS x FROM t) \
                  SELECT count(*) FROM u a JOIN u b ON a.x = b.x"
        ),
        &format!("{many} SELECT array_agg(n) FROM t"),
        &format!("{many} SELECT string_agg(repeat('x', 100), ',') FROM t"),
        &format!("SELECT {wide}"),
    ] {
        let error = ask(&engine, text, &[]).unwrap_err();
        assert!(matches!(error.state.code(), "53200" | "54000"), "{text}: {error:?}");
        // Its memory is released.
        assert_eq!(ask(&engine, "SELECT 1", &[]).unwrap().rows.len(), 1, "{text}");
    }
    let error = ask(&engine, &format!("SELECT {wide}"), &[]).unwrap_err();
    assert_eq!(error.state.code(), "53200");
    assert!(error.text.contains("sql.statement_memory_max = 4194304"), "{error}");
}

#[test]
fn pages_of_a_source_count_as_memory() {
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let (engine, _) = engine_of(1, limits);
    let tables = (0..60).map(|n| format!("sys.job_runs a{n}")).collect::<Vec<_>>().join(", ");
    let error = ask(&engine, &format!("SELECT 1 FROM {tables} LIMIT 1"), &[]);
    // Small pages: the count must not drift in either direction.
    assert!(error.is_ok() || error.unwrap_err().state.code() == "53200");
    assert_eq!(ask(&engine, "SELECT count(*) FROM sys.job_runs", &[]).unwrap().rows.len(), 1);
}
