//! Arrays, represented as text `{a,b}`.

use rusqlite::types::ValueRef;

use super::text::compare;
use super::{Arguments, show};
use crate::error::{QueryError, State};

/// An array as text.
pub(crate) fn array<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> String {
    let shown: Vec<String> = values
        .map(|value| match value {
            ValueRef::Null => "NULL".into(),
            value => {
                let text = show(value);
                let plain = !text.is_empty()
                    && !text.eq_ignore_ascii_case("null")
                    && !text.contains(['{', '}', ',', '"', '\\', ' ']);
                if plain {
                    text
                } else {
                    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                }
            }
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}

/// The items of an array in text form.
pub(crate) fn items(text: &str) -> Vec<Option<String>> {
    let inner = text.trim();
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let mut items = Vec::new();
    if inner.is_empty() {
        return items;
    }
    let (mut item, mut quoted, mut inside) = (String::new(), false, false);
    let mut chars = inner.chars();
    let finish = |item: &mut String, quoted: &mut bool, items: &mut Vec<Option<String>>| {
        let nothing = !*quoted && item.eq_ignore_ascii_case("null");
        items.push((!nothing).then(|| std::mem::take(item)));
        item.clear();
        *quoted = false;
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => (inside, quoted) = (!inside, true),
            '\\' => item.extend(chars.next()),
            ',' if !inside => finish(&mut item, &mut quoted, &mut items),
            c => item.push(c),
        }
    }
    finish(&mut item, &mut quoted, &mut items);
    items
}

fn holds(op: &str, left: ValueRef<'_>, right: &str) -> Result<bool, QueryError> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = compare(left, ValueRef::Text(right.as_bytes()));
    Ok(match op {
        "=" => order == Equal,
        "<>" => order != Equal,
        "<" => order == Less,
        ">" => order == Greater,
        "<=" => order != Greater,
        ">=" => order != Less,
        _ => {
            let text = format!("ANY and ALL take a comparison, not {op}");
            return Err(QueryError::new(State::NotSupported, text));
        }
    })
}

pub(super) fn any(arguments: &Arguments<'_>) -> Result<bool, QueryError> {
    let op = arguments.text(1);
    for item in items(&arguments.text(2)).into_iter().flatten() {
        if holds(&op, arguments.raw(0), &item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn all(arguments: &Arguments<'_>) -> Result<bool, QueryError> {
    let op = arguments.text(1);
    for item in items(&arguments.text(2)).into_iter().flatten() {
        if !holds(&op, arguments.raw(0), &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}
