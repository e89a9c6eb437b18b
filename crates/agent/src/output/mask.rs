//! Keeps secrets out of what is kept.

mod forms;

use std::sync::Arc;

/// The replacement of a secret.
const STARS: &[u8] = b"***";

/// Replaces secrets in a stream, also where one is cut in two. It helps against accidents: a
/// program that wants to tell a secret writes it backwards.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    forms: Arc<Forms>,
    /// The end of what was fed, when it may be the beginning of a secret.
    held: Vec<u8>,
}

/// The secrets to find, in all their forms.
#[derive(Clone, Default)]
struct Forms {
    /// By their first byte, the longest first; empty when there are none.
    by_first: Vec<Vec<Vec<u8>>>,
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
            let alike = &mut forms.by_first[usize::from(form[0])];
            if !alike.contains(&form) {
                alike.push(form);
                alike.sort_by_key(|form| std::cmp::Reverse(form.len()));
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

    /// The end of the stream: what was held back and is no secret.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.show(&held, true)
    }

    /// A text that is whole.
    pub fn text(&self, text: &str) -> String {
        let shown = Mask { forms: Arc::clone(&self.forms), held: Vec::new() };
        let shown = { shown }.show(text.as_bytes(), true);
        // Only whole values are taken out, and stars put in: what is left is text.
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
            let may_go_on = |form: &Vec<u8>| form.len() > rest.len() && form.starts_with(rest);
            if !is_end && forms.iter().any(may_go_on) {
                self.held = rest.to_vec();
                break;
            }
            let step = match forms.iter().find(|form| rest.starts_with(form)) {
                Some(form) => {
                    shown.extend_from_slice(STARS);
                    form.len()
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

    #[test]
    fn nothing_else_is_held_back() {
        let mut mask = Mask::new(["hunter2"]);
        assert_eq!(mask.feed(b"ready> "), b"ready> ");
        assert_eq!(mask.feed(b"hunt"), b"");
        assert_eq!(mask.feed(b"ing"), b"hunting");
    }
}
