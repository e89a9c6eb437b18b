//! Text functions.

use std::fmt::Write;

use rusqlite::types::{Value as Inner, ValueRef};

use super::array::{all, any, array, items};
use super::pattern::{like, pattern};
use super::{
    Answer, Answers, Arguments, BOOL, INT, JSON, Scalar, TEXT, Type, UUID, json, loose, show,
    strict, wrong,
};
use crate::error::{QueryError, State};
use crate::value::Kind;
use crate::vtab::Shared;

pub(crate) const SCALARS: &[Scalar] = &[
    strict("lower", (1, 1), TEXT, |_, arguments| Ok(arguments.text(0).to_lowercase().into())),
    strict("upper", (1, 1), TEXT, |_, arguments| Ok(arguments.text(0).to_uppercase().into())),
    strict("initcap", (1, 1), TEXT, |_, arguments| Ok(initcap(&arguments.text(0)).into())),
    strict("reverse", (1, 1), TEXT, |_, arguments| {
        Ok(arguments.text(0).chars().rev().collect::<String>().into())
    }),
    strict("char_length", (1, 1), INT, |_, arguments| {
        Ok((arguments.text(0).chars().count() as i64).into())
    }),
    strict("strpos", (2, 2), INT, |_, arguments| {
        let text = arguments.text(0);
        let at = text.find(&arguments.text(1));
        Ok(at.map_or(0, |at| text[..at].chars().count() as i64 + 1).into())
    }),
    strict("substr", (2, 3), TEXT, substring),
    strict("substring", (2, 3), TEXT, substring),
    strict("left", (2, 2), TEXT, |_, arguments| {
        let (text, n) = (arguments.text(0), arguments.int(1)?);
        let count = text.chars().count() as i64;
        let n = if n < 0 { (count + n).max(0) } else { n };
        Ok(text.chars().take(n as usize).collect::<String>().into())
    }),
    strict("right", (2, 2), TEXT, |_, arguments| {
        let (text, n) = (arguments.text(0), arguments.int(1)?);
        let count = text.chars().count() as i64;
        let skip = if n < 0 { -n } else { (count - n).max(0) };
        Ok(text.chars().skip(skip as usize).collect::<String>().into())
    }),
    strict("trim", (1, 2), TEXT, |_, arguments| {
        let cut = cut(arguments);
        Ok(arguments.text(0).trim_matches(|c| cut.contains(c)).to_owned().into())
    }),
    strict("btrim", (1, 2), TEXT, |_, arguments| {
        let cut = cut(arguments);
        Ok(arguments.text(0).trim_matches(|c| cut.contains(c)).to_owned().into())
    }),
    strict("ltrim", (1, 2), TEXT, |_, arguments| {
        let cut = cut(arguments);
        Ok(arguments.text(0).trim_start_matches(|c| cut.contains(c)).to_owned().into())
    }),
    strict("rtrim", (1, 2), TEXT, |_, arguments| {
        let cut = cut(arguments);
        Ok(arguments.text(0).trim_end_matches(|c| cut.contains(c)).to_owned().into())
    }),
    strict("replace", (3, 3), TEXT, replace),
    strict("repeat", (2, 2), TEXT, repeat),
    strict("lpad", (2, 3), TEXT, |_, arguments| pad(arguments, true)),
    strict("rpad", (2, 3), TEXT, |_, arguments| pad(arguments, false)),
    strict("split_part", (3, 3), TEXT, |_, arguments| {
        let (text, by, n) = (arguments.text(0), arguments.text(1), arguments.int(2)?);
        let parts: Vec<&str> = if by.is_empty() { vec![&text] } else { text.split(&by).collect() };
        let n = if n < 0 { parts.len() as i64 + n } else { n - 1 };
        let part = usize::try_from(n).ok().and_then(|n| parts.get(n)).copied();
        Ok(part.unwrap_or_default().to_owned().into())
    }),
    strict("starts_with", (2, 2), BOOL, |_, arguments| {
        Ok(arguments.text(0).starts_with(&arguments.text(1)).into())
    }),
    strict("md5", (1, 1), TEXT, |_, _| {
        Err(QueryError::new(State::NotSupported, "md5() is not supported"))
    }),
    strict("ascii", (1, 1), INT, |_, arguments| {
        Ok(arguments.text(0).chars().next().map_or(0, |c| i64::from(u32::from(c))).into())
    }),
    strict("chr", (1, 1), TEXT, |_, arguments| {
        let c =
            u32::try_from(arguments.int(0)?).ok().and_then(char::from_u32).filter(|c| *c != '\0');
        let c = c.ok_or_else(|| {
            QueryError::new(State::InvalidValue, "requested character is not valid")
        })?;
        Ok(c.to_string().into())
    }),
    strict("quote_ident", (1, 1), TEXT, |_, arguments| Ok(quote_ident(&arguments.text(0)).into())),
    strict("quote_literal", (1, 1), TEXT, |_, arguments| {
        Ok(format!("'{}'", arguments.text(0).replace('\'', "''")).into())
    }),
    strict("to_hex", (1, 1), TEXT, |_, arguments| Ok(format!("{:x}", arguments.int(0)?).into())),
    strict("_concat", (2, 2), TEXT, |_, arguments| {
        Ok((arguments.text(0) + &arguments.text(1)).into())
    }),
    loose("concat", (0, 100), TEXT, |_, arguments| {
        Ok((0..arguments.len()).map(|n| arguments.text(n)).collect::<String>().into())
    }),
    loose("concat_ws", (1, 100), TEXT, |_, arguments| {
        let parts: Vec<String> = (1..arguments.len())
            .filter(|n| !arguments.is_null(*n))
            .map(|n| arguments.text(n))
            .collect();
        Ok(parts.join(&arguments.text(0)).into())
    }),
    loose("format", (1, 100), TEXT, |_, arguments| format_text(arguments)),
    loose("greatest", (1, 100), Answers::Like(0), |_, arguments| Ok(extreme(arguments, true))),
    loose("least", (1, 100), Answers::Like(0), |_, arguments| Ok(extreme(arguments, false))),
    strict("_like", (4, 4), BOOL, |_, arguments| {
        let (mut text, mut pattern) = (arguments.text(0), arguments.text(1));
        if arguments.int(3)? == 1 {
            (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
        }
        Ok(like(&text, &pattern, arguments.text(2).chars().next()).into())
    }),
    strict("_regex", (3, 3), BOOL, |_, arguments| {
        let pattern = pattern(&arguments.text(1), arguments.int(2)? == 1)?;
        Ok(pattern.is_match(&arguments.text(0)).into())
    }),
    strict("regexp_replace", (3, 4), TEXT, |_, arguments| {
        let flags = if arguments.len() == 4 { arguments.text(3) } else { String::new() };
        let pattern = pattern(&arguments.text(1), flags.contains('i'))?;
        // PostgreSQL uses `\1` and `\&` for matches.
        let with = arguments.text(2).replace('$', "$$").replace("\\&", "${0}");
        let with =
            (1..=9).fold(with, |with, n| with.replace(&format!("\\{n}"), &format!("${{{n}}}")));
        let limit = if flags.contains('g') { 0 } else { 1 };
        Ok(pattern.replacen(&arguments.text(0), limit, with.as_str()).into_owned().into())
    }),
    strict("regexp_like", (2, 3), BOOL, |_, arguments| {
        let flags = if arguments.len() == 3 { arguments.text(2) } else { String::new() };
        Ok(pattern(&arguments.text(1), flags.contains('i'))?.is_match(&arguments.text(0)).into())
    }),
    strict("_uuid", (1, 1), UUID, |_, arguments| {
        let text = arguments.text(0);
        let id: uuid::Uuid = text.trim().parse().map_err(|_| wrong(&text, "a UUID"))?;
        Ok(id.to_string().into())
    }),
    strict("_bool", (1, 1), BOOL, |_, arguments| match arguments.raw(0) {
        ValueRef::Integer(number) => Ok((number != 0).into()),
        _ => {
            let text = arguments.text(0);
            Ok(read_bool(&text).ok_or_else(|| wrong(&text, "a boolean"))?.into())
        }
    }),
    strict("_bool_text", (1, 1), TEXT, |_, arguments| {
        Ok(if arguments.int(0)? == 0 { "false" } else { "true" }.to_owned().into())
    }),
    strict("_int", (1, 1), INT, |_, arguments| match arguments.raw(0) {
        ValueRef::Real(number) => Ok((number.round_ties_even() as i64).into()),
        _ => Ok(arguments.int(0)?.into()),
    }),
    strict("_float", (1, 1), Answers::Is(Type::Of(Kind::Float)), |_, arguments| {
        Ok(arguments.float(0)?.into())
    }),
    loose("_array", (0, 100), TEXT, |_, arguments| {
        Ok(array((0..arguments.len()).map(|n| arguments.raw(n))).into())
    }),
    strict("_any", (3, 3), BOOL, |_, arguments| Ok(any(arguments)?.into())),
    strict("_all", (3, 3), BOOL, |_, arguments| Ok(all(arguments)?.into())),
    strict("_item", (2, 2), TEXT, |_, arguments| {
        let n = usize::try_from(arguments.int(1)? - 1).ok();
        let item = n.and_then(|n| items(&arguments.text(0)).into_iter().nth(n)).flatten();
        Ok(item.map_or(Inner::Null, Inner::Text))
    }),
    loose("array_to_string", (2, 3), TEXT, |_, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        let nothing = (arguments.len() == 3).then(|| arguments.text(2));
        let items = items(&arguments.text(0))
            .into_iter()
            .filter_map(|item| item.or_else(|| nothing.clone()));
        Ok(items.collect::<Vec<_>>().join(&arguments.text(1)).into())
    }),
    // string_agg(DISTINCT …): PostgreSQL sorts the distinct values.
    strict("_join", (3, 3), TEXT, |_, arguments| {
        let mut items: Vec<String> = items(&arguments.text(0)).into_iter().flatten().collect();
        items.sort();
        if arguments.int(2)? == 1 {
            items.reverse();
        }
        match items.is_empty() {
            true => Ok(Inner::Null),
            false => Ok(items.join(&arguments.text(1)).into()),
        }
    }),
    strict("_contains", (2, 2), BOOL, |_, arguments| {
        Ok(json::contains(&arguments.text(0), &arguments.text(1)).into())
    }),
    strict("_overlaps", (2, 2), BOOL, |_, arguments| {
        let others = items(&arguments.text(1));
        let is_shared = |item: &Option<String>| item.is_some() && others.contains(item);
        Ok(items(&arguments.text(0)).iter().any(is_shared).into())
    }),
    loose("json_build_object", (0, 100), JSON, json::build_object),
    loose("jsonb_build_object", (0, 100), JSON, json::build_object),
    loose("json_build_array", (0, 100), JSON, json::build_array),
    loose("jsonb_build_array", (0, 100), JSON, json::build_array),
    loose("to_json", (1, 1), JSON, |_, arguments| {
        Ok(json::value(arguments.raw(0)).to_string().into())
    }),
    loose("to_jsonb", (1, 1), JSON, |_, arguments| {
        Ok(json::value(arguments.raw(0)).to_string().into())
    }),
    strict("string_to_array", (2, 2), TEXT, |_, arguments| {
        let (text, by) = (arguments.text(0), arguments.text(1));
        let parts: Vec<&str> = if by.is_empty() { vec![&text] } else { text.split(&by).collect() };
        Ok(array(parts.iter().map(|part| ValueRef::Text(part.as_bytes()))).into())
    }),
    strict("array_length", (2, 2), INT, |_, arguments| {
        let count = items(&arguments.text(0)).len() as i64;
        Ok(if count == 0 { Inner::Null } else { count.into() })
    }),
    strict("cardinality", (1, 1), INT, |_, arguments| {
        Ok((items(&arguments.text(0)).len() as i64).into())
    }),
    strict("array_upper", (2, 2), INT, |_, arguments| {
        Ok((items(&arguments.text(0)).len() as i64).into())
    }),
    strict("array_position", (2, 2), INT, |_, arguments| {
        let wanted = arguments.text(1);
        let found =
            items(&arguments.text(0)).iter().position(|item| item.as_ref() == Some(&wanted));
        Ok(found.map_or(Inner::Null, |n| (n as i64 + 1).into()))
    }),
];

/// Parses a boolean as PostgreSQL does.
pub(crate) fn read_bool(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Quotes a name if needed.
pub(crate) fn quote_ident(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    if starts && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn cut(arguments: &Arguments<'_>) -> String {
    if arguments.len() == 2 { arguments.text(1) } else { " ".into() }
}

fn initcap(text: &str) -> String {
    let mut begins = true;
    let mut shown = String::new();
    for c in text.chars() {
        if begins {
            shown.extend(c.to_uppercase())
        } else {
            shown.extend(c.to_lowercase())
        }
        begins = !c.is_alphanumeric();
    }
    shown
}

fn substring(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let text = arguments.text(0);
    if arguments.len() == 2 && matches!(arguments.raw(1), ValueRef::Text(_)) {
        let found = pattern(&arguments.text(1), false)?.captures(&text).and_then(|found| {
            found.get(1).or_else(|| found.get(0)).map(|part| part.as_str().to_owned())
        });
        return Ok(found.map_or(Inner::Null, Inner::Text));
    }
    let from = arguments.int(1)?;
    let end = if arguments.len() == 3 { from.saturating_add(arguments.int(2)?) } else { i64::MAX };
    let skip = (from - 1).max(0);
    let take = (end - 1).saturating_sub(skip).max(0);
    Ok(text.chars().skip(skip as usize).take(take as usize).collect::<String>().into())
}

fn too_long() -> QueryError {
    QueryError::new(State::TooMuch, "the text is too long")
}

/// The maximum length of a result.
const TEXT_BYTES_MAX: usize = 1 << 20;

fn replace(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, old, new) = (arguments.text(0), arguments.text(1), arguments.text(2));
    if old.is_empty() {
        return Ok(text.into());
    }
    let found = text.matches(&old).count();
    if text.len() + found * new.len() > TEXT_BYTES_MAX + text.len() {
        return Err(too_long());
    }
    Ok(text.replace(&old, &new).into())
}

fn repeat(_: &Shared, arguments: &Arguments<'_>) -> Answer {
    let (text, times) = (arguments.text(0), arguments.int(1)?.max(0) as usize);
    if text.len().saturating_mul(times) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(text.repeat(times).into())
}

fn pad(arguments: &Arguments<'_>, before: bool) -> Answer {
    let (text, width) = (arguments.text(0), arguments.int(1)?.max(0) as usize);
    let with = if arguments.len() == 3 { arguments.text(2) } else { " ".into() };
    if width > TEXT_BYTES_MAX / 4 {
        return Err(too_long());
    }
    let count = text.chars().count();
    if count >= width {
        return Ok(text.chars().take(width).collect::<String>().into());
    }
    let fill: String = if with.is_empty() {
        String::new()
    } else {
        with.chars().cycle().take(width - count).collect()
    };
    Ok(if before { fill + &text } else { text + &fill }.into())
}

fn format_text(arguments: &Arguments<'_>) -> Answer {
    let pattern = arguments.text(0);
    let mut shown = String::new();
    let mut next = 1;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            shown.push(c);
            continue;
        }
        let word = chars.next();
        match word {
            Some('%') => shown.push('%'),
            Some('s') => shown.push_str(&arguments.text(next)),
            Some('I') => shown.push_str(&quote_ident(&arguments.text(next))),
            Some('L') => {
                let _ = write!(shown, "'{}'", arguments.text(next).replace('\'', "''"));
            }
            _ => return Err(wrong(&pattern, "a format with %s, %I, %L or %%")),
        }
        if word != Some('%') {
            next += 1;
        }
    }
    Ok(shown.into())
}

fn extreme(arguments: &Arguments<'_>, greatest: bool) -> Inner {
    let mut best: Option<ValueRef<'_>> = None;
    for n in (0..arguments.len()).filter(|n| !arguments.is_null(*n)) {
        let value = arguments.raw(n);
        let better = best
            .is_none_or(|best| (compare(value, best) == std::cmp::Ordering::Greater) == greatest);
        if better {
            best = Some(value);
        }
    }
    best.map_or(Inner::Null, super::own)
}

pub(super) fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> std::cmp::Ordering {
    let number = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => match (show(a).parse::<f64>(), show(b).parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => show(a).cmp(&show(b)),
        },
    }
}
