//! Characters that are invisible, or that change the text around them.

/// Whether a character is invisible or changes the direction of a text: with it, two names that
/// look the same differ, or a name is displayed as another one.
pub fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether a text can be a name: it is not blank, has no spaces around it, and no control or
/// deceptive characters.
pub fn is_plain_name(text: &str) -> bool {
    let is_bad = |c: char| c.is_control() || is_deceptive(c);
    !text.trim().is_empty() && text.trim() == text && !text.chars().any(is_bad)
}

/// Length of the fingerprint of an error, in characters.
const FINGERPRINT_MAX: usize = 160;

/// An error without what differs from run to run: numbers and ids become `#`. Errors with the same
/// fingerprint have the same cause more often than not.
pub fn error_fingerprint(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut found = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if end == 0 {
            found.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let word = &rest[..end];
        rest = &rest[end..];
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let is_id = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if has_digit && is_id {
            found.push('#');
        } else {
            let mut was_digit = false;
            for c in word.chars() {
                match c.is_ascii_digit() {
                    true if was_digit => {}
                    true => found.push('#'),
                    false => found.push(c),
                }
                was_digit = c.is_ascii_digit();
            }
        }
        // Parts of an id or a time are one.
        for joint in ["#-#", "#:#", "#.#"] {
            while found.contains(joint) {
                found = found.replace(joint, "#");
            }
        }
    }
    found.chars().take(FINGERPRINT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_and_ids_have_one_fingerprint() {
        let table = [
            ("relation orders_2026 does not exist", "relation orders_# does not exist"),
            ("http://127.0.0.1:8080 answered 500", "http://# answered #"),
            ("run 018f0000-0000-7000-8000-00000000dead failed", "run # failed"),
            ("took 2026-11-17T16:30:00Z", "took #T#Z"),
            ("mailbox unavailable\nsecond line", "mailbox unavailable"),
            ("id deadbeef01 of face", "id # of face"),
            ("Größe 12 µs", "Größe # µs"),
            ("", ""),
        ];
        for (text, fingerprint) in table {
            assert_eq!(error_fingerprint(text), fingerprint, "{text:?}");
        }
        assert_eq!(error_fingerprint(&"x ".repeat(500)).len(), FINGERPRINT_MAX);
    }

    #[test]
    fn names_are_seen_as_they_are() {
        for name in ["a", "night shift", "Zo\u{eb} \u{2714}", "\u{65e5}\u{672c}", "\u{5d0}\u{5d1}"]
        {
            assert!(is_plain_name(name), "{name:?}");
        }
        for name in [
            "",
            " ",
            "\u{a0}",
            "\u{3000}",
            " a",
            "a ",
            "a\nb",
            "a\u{202e}b",
            "a\u{200b}",
            "\u{2066}a",
            "\u{feff}a",
            "\u{3164}",
            "\u{2800}",
            "a\u{e0041}",
            "a\u{1d173}",
        ] {
            assert!(!is_plain_name(name), "{name:?}");
        }
    }
}
