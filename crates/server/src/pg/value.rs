//! Values in the two forms of the protocol, text and binary.

use bytes::{Buf, BufMut, BytesMut};
use jiff::{SignedDuration, Timestamp, Zoned, civil};
use postgres_types::Type;
use query::{Kind, Value};
use uuid::Uuid;

use super::report::{BAD_BYTES, BAD_VALUE, NOT_DONE, Report};

/// The form of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// As text.
    #[default]
    Text,
    /// Bytes, as the type says.
    Binary,
}

impl Format {
    /// The format of a code.
    pub(crate) fn of(code: i16) -> Result<Self, Report> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(Report::new(BAD_VALUE, format!("there is no format {other}"))
                .hint("a format is 0 for text or 1 for binary")),
        }
    }

    /// Its code.
    pub(crate) fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// The type of a kind of values, as clients know it.
pub(crate) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Bool => Type::BOOL,
        Kind::Int => Type::INT8,
        Kind::Float => Type::FLOAT8,
        Kind::Text => Type::TEXT,
        Kind::Time => Type::TIMESTAMPTZ,
        Kind::Uuid => Type::UUID,
        Kind::Json => Type::JSON,
        Kind::Bytes => Type::BYTEA,
    }
}

/// How many bytes a value of a kind has; -1 when that differs.
pub(crate) fn size_of(kind: Kind) -> i16 {
    match kind {
        Kind::Bool => 1,
        Kind::Int | Kind::Float | Kind::Time => 8,
        Kind::Uuid => 16,
        Kind::Text | Kind::Json | Kind::Bytes => -1,
    }
}

/// Seconds from 1970 to 2000, where the binary form of an instant begins.
const EPOCH_SECONDS: i64 = 946_684_800;

/// A value as text; none for nothing.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(yes) => if *yes { "t" } else { "f" }.to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float_text(*number),
        Value::Text(text) => text.to_string(),
        Value::Time(time) => time_text(*time),
        Value::Uuid(uuid) => uuid.to_string(),
        Value::Bytes(bytes) => bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
            text.push_str(&format!("{byte:02x}"));
            text
        }),
    })
}

fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        // PostgreSQL shows the sign and two digits of an exponent.
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    number.to_string()
}

fn time_text(time: Timestamp) -> String {
    let local = time.to_zoned(jiff::tz::TimeZone::UTC);
    let mut text = local.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let micros = local.subsec_nanosecond() / 1_000;
    if micros > 0 {
        text.push_str(format!(".{micros:06}").trim_end_matches('0'));
    }
    text.push_str("+00");
    text
}

/// Writes a value of a column to a row, with its length before it.
pub(crate) fn put(
    row: &mut BytesMut,
    kind: Kind,
    value: &Value,
    format: Format,
) -> Result<(), Report> {
    if *value == Value::Null {
        row.put_i32(-1);
        return Ok(());
    }
    let start = row.len();
    row.put_i32(0);
    match format {
        Format::Text => match value {
            // Most are this.
            Value::Text(text) => row.put_slice(text.as_bytes()),
            value => row.put_slice(text_of(value).unwrap_or_default().as_bytes()),
        },
        Format::Binary => put_binary(row, kind, value)?,
    }
    let length = i32::try_from(row.len() - start - 4);
    let length = length.map_err(|_| Report::new(BAD_VALUE, "a value is too long"))?;
    row[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_binary(row: &mut BytesMut, kind: Kind, value: &Value) -> Result<(), Report> {
    match (kind, value) {
        (Kind::Bool, Value::Bool(yes)) => row.put_u8(u8::from(*yes)),
        (Kind::Bool, Value::Int(number)) => row.put_u8(u8::from(*number != 0)),
        (Kind::Int, Value::Int(number)) => row.put_i64(*number),
        (Kind::Int, Value::Bool(yes)) => row.put_i64(i64::from(*yes)),
        (Kind::Float, Value::Float(number)) => row.put_f64(*number),
        (Kind::Float, Value::Int(number)) => row.put_f64(*number as f64),
        (Kind::Time, Value::Time(time)) => {
            row.put_i64(time.as_microsecond() - EPOCH_SECONDS * 1_000_000);
        }
        (Kind::Uuid, Value::Uuid(uuid)) => row.put_slice(uuid.as_bytes()),
        (Kind::Bytes, Value::Bytes(bytes)) => row.put_slice(bytes),
        (Kind::Text | Kind::Json, value) => {
            row.put_slice(text_of(value).unwrap_or_default().as_bytes());
        }
        (kind, value) => {
            let text = format!("a column of the kind {kind:?} has the value {value:?}");
            return Err(Report::new(BAD_BYTES, text).hint("cast the column: column::text"));
        }
    }
    Ok(())
}

/// Reads a value that a client bound to the parameter of a number, from 1.
pub(crate) fn read(
    number: usize,
    kind: &Type,
    bytes: Option<&[u8]>,
    format: Format,
) -> Result<Value, Report> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    let read = match format {
        Format::Text => read_text(kind, bytes),
        Format::Binary => read_binary(kind, bytes)?,
    };
    read.ok_or_else(|| {
        Report::new(
            if format == Format::Text { BAD_VALUE } else { BAD_BYTES },
            format!("the value of ${number} is no {kind}"),
        )
    })
}

fn read_text(kind: &Type, bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    Some(match *kind {
        Type::BOOL => Value::Bool(match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => true,
            "f" | "false" | "n" | "no" | "off" | "0" => false,
            _ => return None,
        }),
        Type::INT2 | Type::INT4 | Type::INT8 => Value::Int(text.trim().parse().ok()?),
        Type::FLOAT4 | Type::FLOAT8 => Value::Float(text.trim().parse().ok()?),
        Type::NUMERIC => match text.trim().parse() {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Float(text.trim().parse().ok()?),
        },
        Type::UUID => Value::Uuid(Uuid::try_parse(text.trim()).ok()?),
        Type::TIMESTAMPTZ | Type::TIMESTAMP => Value::Time(time_of(text.trim())?),
        Type::BYTEA => Value::Bytes(bytes_of(text)?.into()),
        _ => Value::Text(text.into()),
    })
}

/// An instant: with an offset, or else in UTC.
fn time_of(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    // `+00` without minutes is what PostgreSQL writes.
    if let Ok(time) = format!("{text}:00").parse::<Timestamp>() {
        return Some(time);
    }
    let local: civil::DateTime = text.parse().ok()?;
    local.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned: Zoned| zoned.timestamp())
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

fn read_binary(kind: &Type, mut bytes: &[u8]) -> Result<Option<Value>, Report> {
    let length = bytes.len();
    Ok(match (kind, length) {
        (&Type::BOOL, 1) => Some(Value::Bool(bytes.get_u8() != 0)),
        (&Type::INT2, 2) => Some(Value::Int(bytes.get_i16().into())),
        (&Type::INT4, 4) => Some(Value::Int(bytes.get_i32().into())),
        (&Type::INT8, 8) => Some(Value::Int(bytes.get_i64())),
        (&Type::FLOAT4, 4) => Some(Value::Float(bytes.get_f32().into())),
        (&Type::FLOAT8, 8) => Some(Value::Float(bytes.get_f64())),
        (&Type::UUID, 16) => Uuid::from_slice(bytes).ok().map(Value::Uuid),
        (&Type::TIMESTAMPTZ | &Type::TIMESTAMP, 8) => time_since_2000(bytes.get_i64()),
        (&Type::BYTEA, _) => Some(Value::Bytes(bytes.into())),
        (&Type::NUMERIC, _) => {
            many::numeric(bytes).and_then(|text| read_text(&Type::NUMERIC, text.as_bytes()))
        }
        (&Type::DATE, 4) => many::date(bytes.get_i32()).map(|text| Value::Text(text.into())),
        // The first byte of jsonb is its version.
        (&Type::JSONB, 1..) if bytes[0] == 1 => read_text(&Type::TEXT, &bytes[1..]),
        (
            &Type::TEXT
            | &Type::VARCHAR
            | &Type::BPCHAR
            | &Type::NAME
            | &Type::JSON
            | &Type::UNKNOWN,
            _,
        ) => read_text(&Type::TEXT, bytes),
        (
            &Type::BOOL
            | &Type::INT2
            | &Type::INT4
            | &Type::INT8
            | &Type::FLOAT4
            | &Type::FLOAT8
            | &Type::UUID
            | &Type::TIMESTAMPTZ
            | &Type::TIMESTAMP
            | &Type::DATE
            | &Type::JSONB,
            _,
        ) => None,
        (kind, _) if many::is_array(kind) => {
            many::array(bytes)?.map(|text| Value::Text(text.into()))
        }
        (kind, _) => {
            let text = format!("a parameter of the type {kind} is not read in binary here");
            return Err(Report::new(NOT_DONE, text).hint("send it as text"));
        }
    })
}

fn time_since_2000(micros: i64) -> Option<Value> {
    let epoch = Timestamp::from_second(EPOCH_SECONDS).ok()?;
    let time = epoch.checked_add(SignedDuration::from_micros(micros)).ok()?;
    Some(Value::Time(time))
}

mod many;

#[cfg(test)]
mod tests;
