//! Values of PostgreSQL as JSON, from the binary form in which the server sends them.

use std::error::Error;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::civil::{DateTime, Time, datetime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan};
use serde_json::{Map, Value};
use tokio_postgres::types::{FromSql, Kind, Type};

/// The deepest value in a value.
const DEPTH_MAX: u32 = 16;

/// A value of whichever type.
pub(super) struct SqlCell(pub Value);

impl<'a> FromSql<'a> for SqlCell {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(SqlCell(json(kind, raw, DEPTH_MAX)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(SqlCell(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The value as JSON; bytes that we cannot read are shown as bytes.
fn json(kind: &Type, raw: &[u8], depth: u32) -> Value {
    let known = depth.checked_sub(1).and_then(|depth| read(kind, raw, depth));
    known.unwrap_or_else(|| Value::String(hex(raw)))
}

fn read(kind: &Type, raw: &[u8], depth: u32) -> Option<Value> {
    let text = |text: String| Some(Value::String(text));
    match *kind {
        Type::BOOL => Some(Value::Bool(raw != [0])),
        Type::INT2 => Some(i16::from_be_bytes(raw.try_into().ok()?).into()),
        Type::INT4 => Some(i32::from_be_bytes(raw.try_into().ok()?).into()),
        Type::INT8 => Some(i64::from_be_bytes(raw.try_into().ok()?).into()),
        Type::OID => Some(u32::from_be_bytes(raw.try_into().ok()?).into()),
        Type::FLOAT4 => {
            let number = f32::from_be_bytes(raw.try_into().ok()?);
            // By way of its text: 0.1 stays 0.1 in the wider type.
            float(number.to_string().parse().ok()?)
        }
        Type::FLOAT8 => float(f64::from_be_bytes(raw.try_into().ok()?)),
        Type::NUMERIC => text(numeric(raw)?),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => {
            text(String::from_utf8(raw.to_vec()).ok()?)
        }
        Type::CHAR => text(char::from(*raw.first()?).to_string()),
        Type::JSON => serde_json::from_slice(raw).ok(),
        Type::JSONB => serde_json::from_slice(raw.get(1..)?).ok(),
        Type::UUID => {
            let hex = format!("{:032x}", u128::from_be_bytes(raw.try_into().ok()?));
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            text(parts.join("-"))
        }
        Type::TIMESTAMP => text(match moment(raw)? {
            Ok(moment) => moment.to_string(),
            Err(infinite) => infinite.to_owned(),
        }),
        Type::TIMESTAMPTZ => text(match moment(raw)? {
            Ok(moment) => TimeZone::UTC.to_timestamp(moment).ok()?.to_string(),
            Err(infinite) => infinite.to_owned(),
        }),
        Type::DATE => text(match i32::from_be_bytes(raw.try_into().ok()?) {
            i32::MAX => "infinity".to_owned(),
            i32::MIN => "-infinity".to_owned(),
            days => EPOCH.date().checked_add(i64::from(days).days()).ok()?.to_string(),
        }),
        Type::TIME => {
            let micros = i64::from_be_bytes(raw.try_into().ok()?);
            let time = Time::midnight().checked_add(SignedDuration::from_micros(micros)).ok()?;
            text(time.to_string())
        }
        Type::INTERVAL => text(interval(raw)?),
        Type::BYTEA => text(hex(raw)),
        Type::INET | Type::CIDR => text(address(raw, *kind == Type::CIDR)?),
        Type::VOID => Some(Value::Null),
        _ => match kind.kind() {
            Kind::Enum(_) => text(String::from_utf8(raw.to_vec()).ok()?),
            Kind::Domain(inner) => read(inner, raw, depth),
            Kind::Array(member) => array(member, raw, depth),
            Kind::Composite(fields) => {
                let mut rest = raw.get(4..)?;
                let mut object = Map::new();
                for field in fields {
                    // The type of the field, which we know.
                    rest = rest.get(4..)?;
                    let value = next(&mut rest)?;
                    let value = value.map(|raw| json(field.type_(), raw, depth));
                    object.insert(field.name().to_owned(), value.unwrap_or_default());
                }
                Some(Value::Object(object))
            }
            _ if kind.name() == "citext" => text(String::from_utf8(raw.to_vec()).ok()?),
            _ => None,
        },
    }
}

/// The first moment of PostgreSQL's calendar.
const EPOCH: DateTime = datetime(2000, 1, 1, 0, 0, 0, 0);

/// A number; JSON has no name for those that are none.
fn float(number: f64) -> Option<Value> {
    Some(match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None => Value::String(number.to_string()),
    })
}

/// A point in time, or a word for one without end.
fn moment(raw: &[u8]) -> Option<Result<DateTime, &'static str>> {
    match i64::from_be_bytes(raw.try_into().ok()?) {
        i64::MAX => Some(Err("infinity")),
        i64::MIN => Some(Err("-infinity")),
        micros => Some(Ok(EPOCH.checked_add(SignedDuration::from_micros(micros)).ok()?)),
    }
}

/// A decimal number: groups of four digits, the weight of the first, the sign, and how many
/// digits follow the point.
fn numeric(raw: &[u8]) -> Option<String> {
    let words: Vec<i16> =
        raw.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, ref groups @ ..] = words[..] else { return None };
    match sign as u16 {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let groups = groups.get(..usize::try_from(count).ok()?)?;
    let group = |at: i32| {
        usize::try_from(i32::from(weight) - at).ok().and_then(|at| groups.get(at)).unwrap_or(&0)
    };
    let mut text = if sign as u16 == 0x4000 { "-".to_owned() } else { String::new() };
    write!(text, "{}", group(i32::from(weight).max(0))).ok()?;
    for at in (0..i32::from(weight)).rev() {
        write!(text, "{:04}", group(at)).ok()?;
    }
    let scale = usize::try_from(scale).ok()?;
    if scale > 0 {
        let mut digits = String::new();
        let mut at = -1;
        while digits.len() < scale {
            write!(digits, "{:04}", group(at)).ok()?;
            at -= 1;
        }
        write!(text, ".{}", &digits[..scale]).ok()?;
    }
    Some(text)
}

/// A duration in ISO 8601; the three parts keep their signs.
fn interval(raw: &[u8]) -> Option<String> {
    let micros = i64::from_be_bytes(raw.get(..8)?.try_into().ok()?);
    let days = i32::from_be_bytes(raw.get(8..12)?.try_into().ok()?);
    let months = i32::from_be_bytes(raw.get(12..16)?.try_into().ok()?);
    let mut text = "P".to_owned();
    if months != 0 {
        write!(text, "{months}M").ok()?;
    }
    if days != 0 {
        write!(text, "{days}D").ok()?;
    }
    if micros != 0 || text == "P" {
        let sign = if micros < 0 { "-" } else { "" };
        let micros = micros.unsigned_abs();
        write!(text, "T{sign}{}", micros / 1_000_000).ok()?;
        if micros % 1_000_000 != 0 {
            let fraction = format!("{:06}", micros % 1_000_000);
            write!(text, ".{}", fraction.trim_end_matches('0')).ok()?;
        }
        text.push('S');
    }
    Some(text)
}

/// An address, with the length of its network where that is significant.
fn address(raw: &[u8], always: bool) -> Option<String> {
    let (bits, bytes) = (*raw.get(1)?, raw.get(4..)?);
    let (address, all) = match bytes.len() {
        4 => (Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(), 32),
        16 => (Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(), 128),
        _ => return None,
    };
    Some(if bits < all || always { format!("{address}/{bits}") } else { address })
}

fn array(member: &Type, raw: &[u8], depth: u32) -> Option<Value> {
    let word = |at: usize| Some(i32::from_be_bytes(raw.get(at..at + 4)?.try_into().ok()?));
    let dimensions = usize::try_from(word(0)?).ok()?;
    if dimensions == 0 {
        return Some(Value::Array(Vec::new()));
    }
    let mut lengths = Vec::new();
    for dimension in 0..dimensions {
        lengths.push(usize::try_from(word(12 + dimension * 8)?).ok()?);
    }
    let mut rest = raw.get(12 + dimensions * 8..)?;
    let mut values = Vec::new();
    while !rest.is_empty() {
        values.push(next(&mut rest)?.map(|raw| json(member, raw, depth)).unwrap_or_default());
    }
    // From the innermost dimension outwards.
    for length in lengths.iter().skip(1).rev() {
        values = values.chunks((*length).max(1)).map(|row| Value::Array(row.to_vec())).collect();
    }
    Some(Value::Array(values))
}

/// The next value with its length before it; none inside is NULL.
fn next<'r>(rest: &mut &'r [u8]) -> Option<Option<&'r [u8]>> {
    let (length, after) = rest.split_at_checked(4)?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(length.try_into().ok()?)) else {
        *rest = after;
        return Some(None);
    };
    let (value, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(Some(value))
}

/// Bytes as PostgreSQL writes them.
fn hex(raw: &[u8]) -> String {
    let mut text = "\\x".to_owned();
    for byte in raw {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
