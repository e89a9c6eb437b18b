//! Quoting of names and strings.

/// Keywords that are allowed where a name may stand.
const SPOKEN_FOR: [&str; 8] = ["none", "null", "if", "user", "role", "job", "true", "false"];

/// A name in the form that is parsed back: unquoted if possible, otherwise in double quotes.
pub fn quoted(name: &str) -> String {
    let mut letters = name.bytes();
    let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_bare = letters.next().is_some_and(first)
        && letters.all(|byte| first(byte) || byte.is_ascii_digit())
        && !SPOKEN_FOR.contains(&name);
    if is_bare { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string in single quotes.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// An unquoted name, folded to lower case.
pub(crate) fn folded(word: &str) -> String {
    word.to_lowercase()
}
