//! Values that a run brings along.

use serde_json::{Value, json};

use super::bed::{Bed, column};

#[tokio::test]
async fn values_have_the_type_that_the_statement_needs() {
    let bed = Bed::postgres().await;
    for (value, kind, expected) in [
        (json!("text"), "text", json!("text")),
        (json!(7), "smallint", json!(7)),
        (json!("7"), "int", json!(7)),
        (json!(9_007_199_254_740_993_i64), "bigint", json!(9_007_199_254_740_993_i64)),
        (json!(0.1), "real", json!(0.1)),
        (json!(0.1), "double precision", json!(0.1)),
        (
            json!("123456789012345678901234567890.5"),
            "numeric",
            json!("123456789012345678901234567890.5"),
        ),
        (json!(true), "boolean", json!(true)),
        (json!("2026-11-15T06:30:00+01:00"), "timestamptz", json!("2026-11-15T05:30:00Z")),
        (json!("2026-11-15"), "date", json!("2026-11-15")),
        (
            json!("00000000-0000-0000-0000-00000000002a"),
            "uuid",
            json!("00000000-0000-0000-0000-00000000002a"),
        ),
        (json!({"a": [1, "x"]}), "jsonb", json!({"a": [1, "x"]})),
        (json!("x"), "json", json!("x")),
        (json!([1, null, 3]), "int[]", json!([1, null, 3])),
        (json!(["a,b", "\"q\"", ""]), "text[]", json!(["a,b", "\"q\"", ""])),
        (json!([[1, 2], [3, 4]]), "bigint[]", json!([[1, 2], [3, 4]])),
        (json!(["2026-01-01"]), "date[]", json!(["2026-01-01"])),
        (json!(null), "int", json!(null)),
        (json!("2 hours"), "interval", json!("PT7200S")),
    ] {
        let sql = format!("SELECT :value::{kind} AS value");
        let ran = bed.sql_with(&sql, json!({"value": value, "extra": 1})).await.done();
        assert_eq!(ran.rows(), column("value", &[expected]), "{value} as {kind}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_named() {
    let bed = Bed::postgres().await;
    for (value, kind, said) in [
        (json!("seven"), "int", "invalid input syntax for type integer: \"seven\""),
        (json!(1.5), "int", "invalid input syntax for type integer: \"1.5\""),
        (json!(70_000), "smallint", "value \"70000\" is out of range for type smallint"),
        (json!(true), "int", "invalid input syntax for type integer: \"true\""),
        (json!("tomorrow-ish"), "date", "invalid input syntax for type date: \"tomorrow-ish\""),
        (json!("x"), "uuid", "invalid input syntax for type uuid: \"x\""),
        (json!([1]), "int", "is a JSON array, but the statement needs a value of type int4"),
        (json!({}), "text", "is a JSON object, but the statement needs a value of type text"),
        (json!([1, "x"]), "int[]", "invalid input syntax for type integer: \"x\""),
    ] {
        let sql = format!("CREATE TABLE made (); SELECT 1 + 1, :first::text, :count::{kind}");
        let ran = bed.sql_with(&sql, json!({"first": "a", "count": value})).await;
        let (code, message) = ran.error();
        assert_eq!(code, "BAD_PARAMETER", "{value} as {kind}: {message}");
        assert!(message.starts_with("the parameter \"count\""), "{message}");
        assert!(message.contains(said), "{value} as {kind}: {message}");
    }
    assert_eq!(bed.ask("SELECT to_regclass('made')").await, "NULL");
}

#[tokio::test]
async fn a_missing_value_is_named_before_anything_happens() {
    let bed = Bed::postgres().await;
    let ran = bed.sql_with("CREATE TABLE made (); SELECT :until", json!({"since": 1})).await;
    assert_eq!(
        ran.error(),
        ("MISSING_PARAMETER".to_owned(), "the parameter \"until\" has no value: the run has since")
    );
    let ran = bed.sql("SELECT :until").await;
    assert_eq!(ran.error().1, "the parameter \"until\" has no value: the run has no parameters");
    assert_eq!(bed.ask("SELECT to_regclass('made')").await, "NULL");
}

#[tokio::test]
async fn a_value_is_never_part_of_the_statement() {
    let bed = Bed::postgres().await;
    bed.sql("CREATE TABLE t (a text)").await.done();
    let nasty = [
        "'); DROP TABLE t; --",
        "$1 :a $$ /* \\",
        "\\'; DROP TABLE t",
        "a\nb\u{7}\u{202e}",
        ":a",
        "",
    ];
    for text in nasty {
        let ran = bed.sql_with("INSERT INTO t VALUES (:a) RETURNING a", json!({"a": text})).await;
        assert_eq!(ran.done().rows(), column("a", &[json!(text)]));
    }
    assert_eq!(bed.ask("SELECT count(*) FROM t").await, nasty.len().to_string());
    // It arrives whole, and is not shown.
    let ran = bed.sql("SELECT ${secrets.KEY} AS key, reverse(${secrets.KEY}) AS turned").await;
    assert_eq!(ran.done().rows(), json!([{"key": "***", "turned": "--;nü'rg"}]));
}

#[tokio::test]
async fn a_name_means_the_same_value_everywhere() {
    let bed = Bed::postgres().await;
    let sql = "SELECT n FROM generate_series(1, 3) n WHERE :least::int IS NULL OR n >= :least";
    let values = |numbers: &[i32]| numbers.iter().map(|n| json!(n)).collect::<Vec<Value>>();
    let ran = bed.sql_with(sql, json!({"least": 3})).await.done();
    assert_eq!(ran.rows(), column("n", &values(&[3])));
    let ran = bed.sql_with(sql, json!({"least": null})).await.done();
    assert_eq!(ran.rows(), column("n", &values(&[1, 2, 3])));
    // Where the type is unknown, the error has a hint.
    let ran = bed.sql_with("SELECT :least IS NULL", json!({"least": 3})).await;
    let (code, message) = ran.error();
    assert_eq!(code, "SQLSTATE_42P18");
    assert!(message.contains("write its type after it, as in :least::int"), "{message}");
}
