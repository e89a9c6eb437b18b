//! Values that are made of several, in their binary form: arrays, numbers of any length, days.

use bytes::Buf;
use jiff::Span;
use jiff::civil::date as day;
use postgres_types::Type;

use super::{read_binary, text_of};
use crate::pg::report::Report;

/// Whether a type is an array of something that is read here.
pub(super) fn is_array(kind: &Type) -> bool {
    [
        Type::TEXT_ARRAY,
        Type::VARCHAR_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::FLOAT4_ARRAY,
        Type::FLOAT8_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::BOOL_ARRAY,
        Type::UUID_ARRAY,
        Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::BYTEA_ARRAY,
    ]
    .contains(kind)
}

/// An array as text, `{"a","b"}`; none when the bytes are no array of one dimension.
pub(super) fn array(mut bytes: &[u8]) -> Result<Option<String>, Report> {
    let header = |bytes: &mut &[u8]| {
        let (dimensions, _, element) =
            (bytes.try_get_i32().ok()?, bytes.try_get_i32().ok()?, bytes.try_get_u32().ok()?);
        let count = match dimensions {
            0 => 0,
            1 => {
                let (count, _) = (bytes.try_get_i32().ok()?, bytes.try_get_i32().ok()?);
                usize::try_from(count).ok()?
            }
            _ => return None,
        };
        Some((count, Type::from_oid(element)?))
    };
    let Some((count, element)) = header(&mut bytes) else { return Ok(None) };
    // Each has a length at least.
    if is_array(&element) || count > bytes.len() / 4 {
        return Ok(None);
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let Ok(length) = bytes.try_get_i32() else { return Ok(None) };
        if length == -1 {
            items.push("NULL".to_owned());
            continue;
        }
        let item = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
        let Some((item, rest)) = item else { return Ok(None) };
        bytes = rest;
        let Some(text) = read_binary(&element, item)?.as_ref().and_then(text_of) else {
            return Ok(None);
        };
        items.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Ok(bytes.is_empty().then(|| format!("{{{}}}", items.join(","))))
}

/// The signs of a number.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xc000;

/// A longer number is an error.
const GROUPS_MAX: i16 = 64;

/// A number of any length as text: groups of four digits, of which the first stands for so many
/// times ten thousand.
pub(super) fn numeric(mut bytes: &[u8]) -> Option<String> {
    let (count, weight) = (bytes.try_get_i16().ok()?, bytes.try_get_i16().ok()?);
    let (sign, scale) = (bytes.try_get_u16().ok()?, bytes.try_get_i16().ok()?);
    let sane = 0..=GROUPS_MAX;
    if !sane.contains(&count) || !(-GROUPS_MAX..=GROUPS_MAX).contains(&weight) || scale < 0 {
        return None;
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(bytes.try_get_i16().ok().filter(|group| (0..10_000).contains(group))?);
    }
    let sign = match sign {
        POSITIVE => "",
        NEGATIVE => "-",
        NOT_A_NUMBER => return Some("NaN".to_owned()),
        _ => return None,
    };
    let group = |place: i16| {
        let at = usize::try_from(weight - place).ok();
        at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let mut text = sign.to_owned();
    text.push_str(&group(weight.max(0)).to_string());
    for place in (0..weight.max(0)).rev() {
        text.push_str(&format!("{:04}", group(place)));
    }
    let fraction: String = (1..=GROUPS_MAX * 2).map(|n| format!("{:04}", group(-n))).collect();
    let fraction = fraction[..usize::from(scale.unsigned_abs()).min(fraction.len())].to_owned();
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    bytes.is_empty().then_some(text)
}

/// The day so many days after the first of 2000.
pub(super) fn date(days: i32) -> Option<String> {
    let days = Span::new().try_days(days).ok()?;
    day(2000, 1, 1).checked_add(days).ok().map(|day| day.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(count: i16, weight: i16, sign: u16, scale: i16, groups: &[i16]) -> Option<String> {
        let head = [count, weight, sign as i16, scale];
        let bytes: Vec<u8> = head.iter().chain(groups).flat_map(|it| it.to_be_bytes()).collect();
        numeric(&bytes)
    }

    #[test]
    fn numbers_are_groups_of_four_digits() {
        let cases = [
            (number(0, 0, POSITIVE, 0, &[]), Some("0")),
            (number(1, 0, POSITIVE, 0, &[42]), Some("42")),
            (number(2, 0, POSITIVE, 2, &[12, 5000]), Some("12.5")),
            (number(2, 1, NEGATIVE, 0, &[1, 7]), Some("-10007")),
            (number(1, 1, POSITIVE, 0, &[3]), Some("30000")),
            (number(1, -1, POSITIVE, 4, &[25]), Some("0.0025")),
            (number(1, -2, POSITIVE, 8, &[25]), Some("0.00000025")),
            (number(0, 0, NOT_A_NUMBER, 0, &[]), Some("NaN")),
            (number(1, 0, POSITIVE, 0, &[10_000]), None),
            (number(2, 0, POSITIVE, 0, &[1]), None),
            (number(1, 0, POSITIVE, 0, &[1, 2]), None),
            (number(1, 30_000, POSITIVE, 0, &[1]), None),
            (number(1, 0, 0x1234, 0, &[1]), None),
        ];
        for (made, wanted) in cases {
            assert_eq!(made.as_deref(), wanted);
        }
        assert_eq!(numeric(&[]), None);
    }

    fn list(dimensions: i32, element: &Type, count: i32, items: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(dimensions.to_be_bytes());
        bytes.extend(0_i32.to_be_bytes());
        bytes.extend(element.oid().to_be_bytes());
        if dimensions > 0 {
            bytes.extend(count.to_be_bytes());
            bytes.extend(1_i32.to_be_bytes());
        }
        for item in items {
            bytes.extend(item.map_or(-1, |item| item.len() as i32).to_be_bytes());
            bytes.extend(item.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn arrays_become_what_their_text_would_be() {
        let made = |bytes: &[u8]| array(bytes).unwrap_or_else(|_| panic!("refused"));
        let texts: [Option<&[u8]>; 3] = [Some(b"a"), None, Some(br#"b"\,"#)];
        let cases = [
            (list(1, &Type::TEXT, 3, &texts), Some(r#"{"a",NULL,"b\"\\,"}"#)),
            (list(0, &Type::INT4, 0, &[]), Some("{}")),
            (list(1, &Type::INT4, 1, &[Some(&7_i32.to_be_bytes())]), Some(r#"{"7"}"#)),
            (list(1, &Type::INT4, 1, &[Some(b"x")]), None),
            (list(2, &Type::INT4, 1, &[]), None),
            (list(1, &Type::INT4, i32::MAX, &[]), None),
            (list(1, &Type::INT4, -1, &[]), None),
            (list(1, &Type::TEXT_ARRAY, 1, &[Some(b"x")]), None),
            (list(1, &Type::TEXT, 1, &[Some(b"x"), Some(b"y")]), None),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(made(&bytes).as_deref(), wanted);
        }
        let whole = list(1, &Type::TEXT, 3, &texts);
        for end in 0..whole.len() {
            assert_eq!(made(&whole[..end]), None, "{end}");
        }
        assert_eq!(date(0).as_deref(), Some("2000-01-01"));
        assert_eq!(date(9_814).as_deref(), Some("2026-11-14"));
        assert_eq!(date(i32::MAX), None);
    }
}
