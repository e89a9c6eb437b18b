//! Positions of templates: not inside the quotes of a statement, where they could not be bound, and
//! not in the host of an address, which decides where secrets are sent.

use std::ops::Range;

use super::StepWork;
use super::template::{references, unclosed};
use crate::action::Action;

/// Refuses templates in places where their values could not be data.
pub(super) fn check_places(work: &StepWork) -> Result<(), String> {
    let value = serde_json::to_value(work).unwrap_or_default();
    if let Some(text) = unclosed(&value) {
        return Err(format!("{text:?}: a template ends with }}"));
    }
    match work {
        StepWork::Action { action: Action::Sql(sql) } => check_sql(&sql.sql),
        StepWork::Action { action: Action::Http(http) } => check_endpoint(&http.endpoint),
        _ => Ok(()),
    }
}

/// In a statement, a template is a bound parameter.
fn check_sql(sql: &str) -> Result<(), String> {
    let quoted = quoted(sql);
    let is_quoted = |at: usize| quoted.iter().any(|range| range.contains(&at));
    match references(sql).into_iter().find(|(at, _)| is_quoted(*at)) {
        None => Ok(()),
        Some((at, source)) => {
            let line = sql[..at].matches('\n').count() + 1;
            Err(format!(
                "sql: line {line}: ${{{source}}} stands inside quotes; \
                 write it without quotes: the value is bound as a parameter"
            ))
        }
    }
}

/// The server of an endpoint is the same in every run.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let server = server_end(endpoint);
    match references(endpoint).into_iter().find(|(at, _)| *at < server) {
        None => Ok(()),
        Some((_, source)) => Err(format!(
            "endpoint: ${{{source}}} stands where the server is named; \
             templates may stand in the path and behind it"
        )),
    }
}

/// Refuses values that would change the path around them: a segment that they make `.` or `..`.
pub(super) fn check_path(endpoint: &str, filled: &str) -> Result<(), String> {
    let path = |text: &str| {
        let text = &text[server_end(text)..];
        let end = text.find(['?', '#']).unwrap_or(text.len());
        text[..end].split('/').map(str::to_owned).collect::<Vec<_>>()
    };
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    for (written, segment) in path(endpoint).iter().zip(path(filled)) {
        if !references(written).is_empty() && is_dots(&segment) {
            return Err(format!(
                "endpoint: {written} becomes {segment:?}, which is no name in a path"
            ));
        }
    }
    Ok(())
}

/// Where the path of an address begins.
fn server_end(endpoint: &str) -> usize {
    let server = endpoint.find("://").map_or(0, |at| at + 3);
    endpoint[server..].find(['/', '?', '#']).map_or(endpoint.len(), |at| server + at)
}

/// The parts of a statement that are in quotes: texts, names and bodies in dollars. Comments are
/// not.
fn quoted(sql: &str) -> Vec<Range<usize>> {
    let bytes = sql.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let follows_word = |at: usize| at > 0 && is_word(bytes[at - 1]);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &sql.as_bytes()[at..];
        at = match rest {
            [quote @ (b'\'' | b'"' | b'`'), ..] => {
                let has_escapes = *quote == b'\''
                    && at > 0
                    && bytes[at - 1].eq_ignore_ascii_case(&b'e')
                    && !follows_word(at - 1);
                let end = at + quote_end(rest, *quote, has_escapes);
                found.push(at..end);
                end
            }
            [b'-', b'-', ..] => {
                at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            [b'/', b'*', ..] => at + comment_end(rest),
            [b'$', ..] if !follows_word(at) => {
                let tag = rest[1..].iter().position(|byte| !is_word(*byte)).unwrap_or(0) + 1;
                match rest.get(tag) {
                    Some(b'$') => {
                        let mark = &rest[..=tag];
                        let body = &rest[mark.len()..];
                        let close = body.windows(mark.len()).position(|part| part == mark);
                        let end = close.map_or(bytes.len(), |close| at + close + 2 * mark.len());
                        found.push(at..end);
                        end
                    }
                    _ => at + 1,
                }
            }
            _ => at + 1,
        };
    }
    found
}

/// The length of a text in quotes; doubled quotes belong to it.
fn quote_end(text: &[u8], quote: u8, has_escapes: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        at += match &text[at..] {
            [b'\\', _, ..] if has_escapes => 2,
            [one, two, ..] if *one == quote && *two == quote => 2,
            [one, ..] if *one == quote => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// The length of a comment; comments may be nested.
fn comment_end(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < text.len() && depth > 0 {
        at += match &text[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_in_quotes_of_a_statement_are_refused() {
        for sql in [
            "SELECT ${config.v}",
            "SELECT '${secrets.V}', ${config.v}",
            "SELECT 'it''s', ${config.v}, 'x'",
            "SELECT 'a\\', ${config.v}, 'b'",
            "SELECT E'a\\'b', ${config.v}",
            "SELECT \"a\"\"b\", ${config.v}",
            "SELECT $$a'b$$, ${config.v}",
            "SELECT $x$ $$ $x$, ${config.v}",
            "SELECT a$b, ${config.v}, a$b",
            "SELECT 1 -- it's\n, ${config.v}",
            "SELECT 1 /* it's /* it's */ */, ${config.v}",
            "SELECT $1, ${config.v}",
        ] {
            assert_eq!(check_sql(sql), Ok(()), "{sql}");
        }
        for sql in [
            "SELECT '${config.v}'",
            "SELECT 'x ${config.v} y'",
            "SELECT \"${config.v}\"",
            "SELECT `${config.v}`",
            "SELECT E'a\\' ${config.v}'",
            "SELECT type'a' 'it''s ${config.v}'",
            "SELECT $$ ${config.v} $$",
            "SELECT $x$ $$ ${config.v} $x$",
            "SELECT '${config.v}",
        ] {
            let expected = "sql: line 1: ${config.v} stands inside quotes; \
                write it without quotes: the value is bound as a parameter";
            assert_eq!(check_sql(sql), Err(expected.to_owned()), "{sql}");
        }
        assert!(check_sql("SELECT\n\n'${config.v}'").unwrap_err().starts_with("sql: line 3: "));
    }

    #[test]
    fn the_server_of_an_endpoint_takes_no_template() {
        for endpoint in [
            "https://example.org/${config.v}",
            "https://example.org?x=${config.v}",
            "https://${secrets.HOST}/${config.v}",
            "https://example.org/#${config.v}",
        ] {
            assert_eq!(check_endpoint(endpoint), Ok(()), "{endpoint}");
        }
        for endpoint in [
            "${config.v}://example.org/",
            "https://${config.v}/x",
            "https://${config.v}@example.org/x",
            "https://example.org:${config.v}/x",
            "https://example.org${config.v}",
        ] {
            let error = check_endpoint(endpoint).unwrap_err();
            assert!(error.contains("stands where the server is named"), "{endpoint}: {error}");
        }
    }

    #[test]
    fn a_value_does_not_leave_its_segment() {
        for (endpoint, filled, is_fine) in [
            ("https://e.org/t/${config.v}/x", "https://e.org/t/a/x", true),
            ("https://e.org/t/${config.v}/x", "https://e.org/t/../x", false),
            ("https://e.org/t/${config.v}/x", "https://e.org/t/./x", false),
            ("https://e.org/t/${config.v}", "https://e.org/t/..", false),
            ("https://e.org/t/.${config.v}", "https://e.org/t/..", false),
            ("https://e.org/t/%2E${config.v}", "https://e.org/t/%2E.", false),
            ("https://e.org/../${config.v}", "https://e.org/../a", true),
            ("https://e.org/t/v${config.v}", "https://e.org/t/v..", true),
            ("https://e.org/t?p=${config.v}", "https://e.org/t?p=..", true),
            ("https://e.org/t?p=/${config.v}", "https://e.org/t?p=/..", true),
        ] {
            assert_eq!(check_path(endpoint, filled).is_ok(), is_fine, "{filled}");
        }
    }
}
