//! Numbers with more digits than 64 bits hold, in JSON values that are read and written again.
//!
//! A [`Value`] rounds such a number. [`parse`] keeps its text in an object with one reserved key
//! instead, and [`to_text`] writes the number again as it was. The object is never stored and never
//! sent: every text of a value that [`parse`] has made is written by [`to_text`].

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The key of the object that stands for a number.
const KEY: &str = "$punctual.number";

/// How the text of such an object begins and ends. Quotes inside a JSON string are escaped, so this
/// text is never a part of a string.
const OPEN: &str = "{\"$punctual.number\":\"";
const CLOSE: &str = "\"}";

/// A float of 64 bits holds every number with so many significant digits.
const DIGITS_EXACT: usize = 15;

/// Parses a JSON text. Numbers that 64 bits do not hold keep their digits.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    match kept(text) {
        Cow::Borrowed(text) => serde_json::from_str(text),
        // The rewritten text is JSON if and only if the text is; errors name places in the latter.
        Cow::Owned(rewritten) => match serde_json::from_str(&rewritten) {
            Ok(value) => Ok(value),
            Err(error) => Err(serde_json::from_str::<Value>(text).err().unwrap_or(error)),
        },
    }
}

/// The JSON text of a value, with the digits of its numbers.
pub fn to_text(value: &Value) -> String {
    restored(value.to_string())
}

/// A JSON text that was written from parsed values, with the digits of their numbers.
pub fn restored(text: String) -> String {
    if !text.contains(OPEN) {
        return text;
    }
    let (mut found, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some((before, after)) = rest.split_once(OPEN) {
        found.push_str(before);
        match after.split_once(CLOSE).filter(|(digits, _)| is_number(digits)) {
            Some((digits, behind)) => {
                found.push_str(digits);
                rest = behind;
            }
            None => {
                found.push_str(OPEN);
                rest = after;
            }
        }
    }
    found.push_str(rest);
    found
}

/// The text of a number that 64 bits do not hold; none for every other value.
pub fn digits(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.get(KEY)?.as_str().filter(|digits| is_number(digits))
}

/// The nearest float.
pub fn rounded(value: &Value) -> Option<f64> {
    digits(value)?.parse().ok()
}

/// A text whose long numbers have become objects.
fn kept(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut found, mut copied) = (String::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = number_end(bytes, at);
                let number = &text[at..end];
                if !is_exact(number) && is_number(number) {
                    found.push_str(&text[copied..at]);
                    found.push_str(OPEN);
                    found.push_str(number);
                    found.push_str(CLOSE);
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    found.push_str(&text[copied..]);
    Cow::Owned(found)
}

/// Where the string ends that begins at a quote.
fn string_end(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let length = bytes[start..].iter().position(|byte| !is_part(byte));
    length.map_or(bytes.len(), |length| start + length)
}

/// Whether a [`Value`] holds a number without rounding it.
fn is_exact(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or(number);
    let count = mantissa.bytes().filter(u8::is_ascii_digit).count();
    if count <= DIGITS_EXACT {
        return true;
    }
    let is_whole = !number.contains(['.', 'e', 'E']);
    if is_whole && (number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()) {
        return true;
    }
    // A float that is written as it was read has lost nothing.
    let float = number.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    float.is_some_and(|float| float.to_string() == number)
}

/// Whether a text is a JSON number that a float can be near to.
fn is_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
        && text.bytes().all(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_numbers_keep_their_digits() {
        for text in [
            r#"{"n":123456789012345678901234567890}"#,
            r#"[-123456789012345678901234567890,0.10000000000000000001,1.5]"#,
            r#"{"s":"123456789012345678901234567890","t":"a\"123456789012345678901234567890"}"#,
            "123456789012345678901234567890",
            r#"{"a":{"b":[18446744073709551616,18446744073709551615,-9223372036854775808]}}"#,
            "1.2345678901234567890123e40",
            r#"{"text":"{\"$punctual.number\":\"1\"}"}"#,
            "[1,2.5,true,null]",
        ] {
            let value: Value = parse(text).unwrap();
            assert_eq!(to_text(&value), text);
        }
        let value: Value = parse("[123456789012345678901234567890]").unwrap();
        assert_eq!(digits(&value[0]), Some("123456789012345678901234567890"));
        assert_eq!(rounded(&value[0]), Some(123456789012345678901234567890.0));
        // What 64 bits hold is a number as ever.
        let value: Value = parse("[9007199254740993,0.1,1.10]").unwrap();
        assert_eq!(value, json!([9007199254740993_i64, 0.1, 1.1]));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "123456789012345678901234567890 1",
            "{\"a\":01234567890123456789}",
            "123456789012345678901234567890-",
            "\"123456789012345678901234567890",
            "{123456789012345678901234567890:1}",
            "123456789012345678901e999",
        ] {
            assert!(parse::<Value>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_object_of_a_client_that_is_no_number_stays() {
        let value = json!({ "$punctual.number": "no" });
        assert_eq!(digits(&value), None);
        assert_eq!(to_text(&value), value.to_string());
    }
}
