//! Values of PostgreSQL as JSON.

use serde_json::json;

use super::bed::{Bed, column};

#[tokio::test]
async fn values_of_every_kind() {
    let bed = Bed::postgres().await;
    bed.sql(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN score AS int;
         CREATE TYPE place AS (name text, at int)",
    )
    .await
    .done();
    for (value, expected) in [
        ("NULL::int", json!(null)),
        ("false", json!(false)),
        ("-5::smallint", json!(-5)),
        ("9223372036854775807", json!(i64::MAX)),
        ("1.5::real", json!(1.5)),
        ("'NaN'::float8", json!("NaN")),
        ("'-Infinity'::float8", json!("-inf")),
        ("0::numeric", json!("0")),
        ("-0.00012::numeric", json!("-0.00012")),
        ("10000::numeric", json!("10000")),
        ("100000000.00::numeric", json!("100000000.00")),
        ("12345.678900::numeric", json!("12345.678900")),
        ("0.0001::numeric(10,6)", json!("0.000100")),
        ("'NaN'::numeric", json!("NaN")),
        ("1e20::numeric", json!("100000000000000000000")),
        ("'ä'::char(3)", json!("ä  ")),
        ("'x'::\"char\"", json!("x")),
        ("'a'::name", json!("a")),
        ("'{\"b\":1}'::json", json!({"b": 1})),
        ("'[null]'::jsonb", json!([null])),
        (
            "'00112233-4455-6677-8899-aabbccddeeff'::uuid",
            json!("00112233-4455-6677-8899-aabbccddeeff"),
        ),
        ("timestamp '1999-12-31 23:59:59.5'", json!("1999-12-31T23:59:59.5")),
        ("timestamptz '2026-03-29 01:30:00.000001+01'", json!("2026-03-29T00:30:00.000001Z")),
        ("'infinity'::timestamptz", json!("infinity")),
        ("date '1970-01-01'", json!("1970-01-01")),
        ("'-infinity'::date", json!("-infinity")),
        ("time '01:02:03.4'", json!("01:02:03.4")),
        ("interval '1 year 2 months -3 days 4.5 seconds'", json!("P14M-3DT4.5S")),
        ("interval '0'", json!("PT0S")),
        ("'\\x00ff'::bytea", json!("\\x00ff")),
        ("inet '10.0.0.1'", json!("10.0.0.1")),
        ("inet '10.0.0.1/8'", json!("10.0.0.1/8")),
        ("cidr '2001:db8::/32'", json!("2001:db8::/32")),
        ("'bad'::mood", json!("bad")),
        ("3::score", json!(3)),
        ("ROW('home', 7)::place", json!({"name": "home", "at": 7})),
        ("ARRAY['good', NULL]::mood[]", json!(["good", null])),
        ("ARRAY[[1, 2], [3, 4]]", json!([[1, 2], [3, 4]])),
        ("'{}'::text[]", json!([])),
        ("ARRAY[ROW('a', NULL)::place]", json!([{"name": "a", "at": null}])),
        // A value of a type without a decoder is shown as the server sent it.
        ("point '(0,0)'", json!("\\x00000000000000000000000000000000")),
    ] {
        let ran = bed.sql(&format!("SELECT {value} AS value")).await.done();
        assert_eq!(ran.rows(), column("value", &[expected]), "{value}");
    }
}
