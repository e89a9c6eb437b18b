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

#[cfg(test)]
mod tests {
    use super::*;

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
