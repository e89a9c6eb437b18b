//! Masks secrets in stored output.

mod forms;

use std::sync::Arc;

use forms::{Form, Found};

/// The replacement of a secret.
const STARS: &[u8] = b"***";

/// Replaces secrets in a stream, also where one is cut in two. It helps against accidents: a
/// program that leaks on purpose writes a secret backwards.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    forms: Arc<Forms>,
    /// The end of the input, when it may be the beginning of a secret.
    held: Vec<u8>,
}

/// The secrets to find, in all their forms.
#[derive(Clone, Default)]
struct Forms {
    /// By their first byte, the longest first; empty when there are none.
    by_first: Vec<Vec<Form>>,
}

/// They are secrets.
impl std::fmt::Debug for Forms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Mask {
    /// Hides these values, in every form that is usual. A value of several lines is hidden line by
    /// line too.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut mask = Mask::default();
        for secret in secrets {
            mask.hide(secret);
        }
        mask
    }

    /// Hides one more value from now on.
    pub fn hide(&mut self, secret: &str) {
        let forms = Arc::make_mut(&mut self.forms);
        forms.by_first.resize(256, Vec::new());
        for form in forms::all(secret) {
            let alike = &mut forms.by_first[usize::from(form.bytes[0])];
            if !alike.contains(&form) {
                alike.push(form);
                alike.sort_by_key(|form| std::cmp::Reverse(form.bytes.len()));
            }
        }
    }

    /// The bytes of the stream that can be shown now. Only bytes that may become a secret are held
    /// back.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        self.show(&text, false)
    }

    /// The end of the stream: text that was held back and is no secret.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.show(&held, true)
    }

    /// A text that is whole.
    pub fn text(&self, text: &str) -> String {
        let shown = Mask { forms: Arc::clone(&self.forms), held: Vec::new() };
        let shown = { shown }.show(text.as_bytes(), true);
        // Only whole values are replaced by stars: the rest is valid text.
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn show(&mut self, text: &[u8], is_end: bool) -> Vec<u8> {
        if self.forms.by_first.is_empty() {
            return text.to_vec();
        }
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.first() {
            let forms = &self.forms.by_first[usize::from(*first)];
            let mut whole = None;
            let mut may_go_on = false;
            for form in forms {
                match form.find(rest) {
                    Found::Whole(len) => whole = whole.or(Some(len)),
                    Found::Begin => may_go_on = true,
                    Found::No => {}
                }
            }
            if !is_end && may_go_on {
                self.held = rest.to_vec();
                break;
            }
            let step = match whole {
                Some(len) => {
                    shown.extend_from_slice(STARS);
                    len
                }
                None => {
                    shown.push(*first);
                    1
                }
            };
            rest = &rest[step..];
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Feeds a text in pieces of this size.
    fn masked(secrets: &[&str], text: &str, size: usize) -> String {
        let mut mask = Mask::new(secrets.iter().copied());
        let mut shown = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            shown.extend(mask.feed(piece));
        }
        shown.extend(mask.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn secrets_are_hidden_wherever_they_are_cut() {
        for (secrets, text, shown) in [
            (&["hunter2"][..], "password hunter2!", "password ***!"),
            (&["hunter2"], "hunter2hunter2 hunter", "****** hunter"),
            (&["aaab"], "aaaaab aaab", "aa*** ***"),
            (&["abcd", "abcdef"], "abcdef abcde abcd", "*** ***e ***"),
            (&["abcd", "abcdefgh"], "xabcdef", "x***ef"),
            (&["line one\nline two"], "line two\nline one", "***\n***"),
            (&["hunter2?"], "aHVudGVyMj8= %68 hunter2%3F 68756e746572323f", "*** %68 *** ***"),
            (&["abc", ""], "abc", "abc"),
            (&[], "anything", "anything"),
        ] {
            for size in 1..=text.len() {
                assert_eq!(masked(secrets, text, size), shown, "{secrets:?} {size}");
            }
        }
    }

    /// `base64` breaks lines after 76 characters, `xxd -p` after 60, `od` writes a space before
    /// each byte, and certificates and addresses have colons.
    #[test]
    fn encoded_secrets_are_hidden_across_lines_and_separators() {
        let secret = format!("tok_{}", "A1b2C3d4E5".repeat(12));
        let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let broken = |text: &str, width: usize, end: &str| {
            let lines = text.as_bytes().chunks(width).map(|it| str::from_utf8(it).unwrap());
            lines.collect::<Vec<_>>().join(end)
        };
        let od: Vec<String> = hex.chunks(16).map(|line| format!(" {}", line.join(" "))).collect();
        let encoded = STANDARD.encode(&secret);
        for (text, shown) in [
            (broken(&encoded, 76, "\n"), "***"),
            (broken(&encoded, 64, "\r\n"), "***"),
            (broken(&hex.concat(), 60, "\n"), "***"),
            (hex.join(":"), "***"),
            (hex.join(":").to_uppercase(), "***"),
            (hex.join("-"), "***"),
            (od.join("\n"), " ***"),
            ("ORUGS4ZANFZSA53FNRWA====\n".to_owned(), "***====\n"),
            ("orugs4zanfzsa53fnrwa".to_owned(), "***"),
        ] {
            let secrets = [secret.as_str(), "this is well"];
            for size in [1, 2, 7, 61, text.len()] {
                assert_eq!(masked(&secrets, &text, size), shown, "{size}: {text}");
            }
        }
    }

    /// Wherever a line ends in it, no more than a few characters are left of an encoded secret.
    #[test]
    fn no_line_break_reveals_an_encoded_secret() {
        let secret = "correct-horse-battery-staple";
        for before in 0..80 {
            let text = format!("{}{secret}!", "x".repeat(before));
            let encoded = STANDARD.encode(&text);
            let inside = &encoded[(before * 4).div_ceil(3)..];
            for width in [60, 64, 76] {
                let lines: Vec<&str> = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(|line| str::from_utf8(line).unwrap())
                    .collect();
                let shown = masked(&[secret], &lines.join("\n"), 11).replace('\n', "");
                let mut windows = inside.as_bytes().windows(8);
                let is_told = windows.any(|part| shown.contains(str::from_utf8(part).unwrap()));
                assert!(!is_told, "{before} {width}: {shown}");
            }
        }
    }

    #[test]
    fn separators_do_not_make_secrets_of_other_text() {
        for text in ["hun\nter2", "h u n t e r 2", "68 75\n\n\n\n6e 74 65 72 32", "aHVu\n dGVyMg"] {
            assert_eq!(masked(&["hunter2"], text, 3), text);
        }
    }

    #[test]
    fn nothing_else_is_held_back() {
        let mut mask = Mask::new(["hunter2"]);
        assert_eq!(mask.feed(b"ready> "), b"ready> ");
        assert_eq!(mask.feed(b"hunt"), b"");
        assert_eq!(mask.feed(b"ing"), b"hunting");
        // The last characters of a line may begin an encoded secret; the line is shown all the
        // same.
        assert_eq!(mask.feed(b"tabla aHV\n"), b"tabla aHV\n");
    }
}
