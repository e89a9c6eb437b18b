use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Values with their kind and their text.
fn examples() -> Vec<(Kind, Value, &'static str)> {
    let uuid: Uuid = "0190a7c4-7b6f-7cc1-8c2e-3c2b1a000001".parse().unwrap();
    vec![
        (Kind::Bool, Value::Bool(true), "t"),
        (Kind::Bool, Value::Bool(false), "f"),
        (Kind::Int, Value::Int(i64::MIN), "-9223372036854775808"),
        (Kind::Float, Value::Float(0.1), "0.1"),
        (Kind::Float, Value::Float(3.0), "3"),
        (Kind::Float, Value::Float(1e20), "1e+20"),
        (Kind::Float, Value::Float(1.5e-7), "1.5e-07"),
        (Kind::Float, Value::Float(f64::NEG_INFINITY), "-Infinity"),
        (Kind::Text, Value::Text("caf\u{e9}".into()), "caf\u{e9}"),
        (Kind::Text, Value::Text("".into()), ""),
        (Kind::Time, Value::Time(time("2026-11-15T12:00:00Z")), "2026-11-15 12:00:00+00"),
        (Kind::Time, Value::Time(time("1999-12-31T23:59:59.5Z")), "1999-12-31 23:59:59.5+00"),
        (
            Kind::Time,
            Value::Time(time("2026-11-15T12:00:00.123456Z")),
            "2026-11-15 12:00:00.123456+00",
        ),
        (Kind::Uuid, Value::Uuid(uuid), "0190a7c4-7b6f-7cc1-8c2e-3c2b1a000001"),
        (Kind::Json, Value::Text("{\"a\":1}".into()), "{\"a\":1}"),
        (Kind::Bytes, Value::Bytes([0_u8, 255, 16][..].into()), "\\x00ff10"),
    ]
}

/// The bytes of a value in a row, without the length.
fn written(kind: Kind, value: &Value, format: Format) -> Option<Vec<u8>> {
    let mut row = BytesMut::new();
    put(&mut row, kind, value, format).unwrap();
    let length = row.get_i32();
    if length == -1 {
        assert!(row.is_empty());
        return None;
    }
    assert_eq!(usize::try_from(length).unwrap(), row.len());
    Some(row.to_vec())
}

#[test]
fn values_look_as_postgresql_writes_them() {
    for (kind, value, text) in examples() {
        let bytes = written(kind, &value, Format::Text).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text, "{value:?}");
    }
    assert_eq!(float_text(f64::NAN), "NaN");
}

#[test]
fn a_value_is_read_back_from_both_forms() {
    for (kind, value, _) in examples() {
        for format in [Format::Text, Format::Binary] {
            let bytes = written(kind, &value, format).unwrap();
            let read = read(1, &type_of(kind), Some(&bytes), format).unwrap();
            assert_eq!(read, value, "{kind:?} {format:?}");
        }
    }
    for format in [Format::Text, Format::Binary] {
        assert_eq!(written(Kind::Int, &Value::Null, format), None);
        assert_eq!(read(1, &Type::INT8, None, format).unwrap(), Value::Null);
    }
}

#[test]
fn the_binary_form_has_the_size_that_is_announced() {
    for (kind, value, _) in examples() {
        let bytes = written(kind, &value, Format::Binary).unwrap();
        let size = size_of(kind);
        assert!(size == -1 || usize::try_from(size) == Ok(bytes.len()), "{kind:?}");
    }
    // An instant counts from the year 2000.
    let value = Value::Time(time("2000-01-01T00:00:01Z"));
    assert_eq!(written(Kind::Time, &value, Format::Binary).unwrap(), 1_000_000_i64.to_be_bytes());
}

#[test]
fn smaller_numbers_and_other_texts_are_read() {
    let binary = |kind: Type, bytes: &[u8]| read(1, &kind, Some(bytes), Format::Binary).unwrap();
    assert_eq!(binary(Type::INT2, &[255, 254]), Value::Int(-2));
    assert_eq!(binary(Type::INT4, &[0, 0, 1, 0]), Value::Int(256));
    assert_eq!(binary(Type::FLOAT4, &1.5_f32.to_be_bytes()), Value::Float(1.5));
    assert_eq!(binary(Type::VARCHAR, b"x"), Value::Text("x".into()));
    assert_eq!(binary(Type::JSONB, b"\x01[]"), Value::Text("[]".into()));
    let text =
        |kind: Type, text: &str| read(1, &kind, Some(text.as_bytes()), Format::Text).unwrap();
    assert_eq!(text(Type::BOOL, "YES"), Value::Bool(true));
    assert_eq!(text(Type::NUMERIC, "1.5"), Value::Float(1.5));
    assert_eq!(text(Type::NUMERIC, "15"), Value::Int(15));
    assert_eq!(text(Type::INTERVAL, "1 day"), Value::Text("1 day".into()));
    for written in ["2026-11-15 12:00:00+00", "2026-11-15T12:00:00Z", "2026-11-15 12:00:00"] {
        assert_eq!(text(Type::TIMESTAMPTZ, written), Value::Time(time("2026-11-15T12:00:00Z")));
    }
}

#[test]
fn what_is_no_value_is_told_with_its_number() {
    let wrong: &[(Type, &[u8], Format)] = &[
        (Type::INT8, b"x", Format::Text),
        (Type::INT8, b"1 OR 1=1", Format::Text),
        (Type::UUID, b"1234", Format::Text),
        (Type::BOOL, b"maybe", Format::Text),
        (Type::TIMESTAMPTZ, b"yesterday", Format::Text),
        (Type::BYTEA, b"\\x0", Format::Text),
        (Type::TEXT, b"\xff", Format::Text),
        (Type::TEXT, b"a\0b", Format::Text),
        (Type::TEXT, b"\xff", Format::Binary),
        (Type::INT8, b"1234", Format::Binary),
        (Type::BOOL, b"", Format::Binary),
        (Type::UUID, b"123456789012345", Format::Binary),
        (Type::TIMESTAMPTZ, &i64::MAX.to_be_bytes(), Format::Binary),
        (Type::JSONB, b"\x02{}", Format::Binary),
        (Type::NUMERIC, b"1234", Format::Binary),
        (Type::TEXT_ARRAY, b"1234", Format::Binary),
        (Type::DATE, &i32::MAX.to_be_bytes(), Format::Binary),
    ];
    for (kind, bytes, format) in wrong {
        let report = read(7, kind, Some(bytes), *format).unwrap_err();
        assert!(report.message.contains("$7"), "{}", report.message);
    }
    let report = read(1, &Type::INTERVAL, Some(&[0; 16]), Format::Binary).unwrap_err();
    assert_eq!(report.sqlstate, NOT_DONE);
}
