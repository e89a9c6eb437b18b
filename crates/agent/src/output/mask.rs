//! Keeps secrets out of what is kept.

/// What stands in the place of a secret.
const STARS: &[u8] = b"***";

/// What is shorter is no secret, and would be found everywhere.
const BYTES_MIN: usize = 4;

/// Replaces secrets in a stream, also where one is cut in two. It helps against accidents: a
/// program that wants to tell a secret writes it backwards.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<Vec<u8>>,
    /// The end of what was fed, when it may be the beginning of a secret.
    held: Vec<u8>,
}

impl Mask {
    /// Hides these values. A value of several lines is hidden line by line too.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut values: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            for value in [secret.trim()].into_iter().chain(secret.lines().map(str::trim)) {
                if value.len() >= BYTES_MIN {
                    values.push(value.as_bytes().to_vec());
                }
            }
        }
        // The longest first: one may begin with another.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Mask { secrets: values, held: Vec::new() }
    }

    /// What may be shown of the stream so far, and was not yet. Nothing is held back but what may
    /// become a secret.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some(at) = self.next_candidate(rest) {
            shown.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            if self
                .secrets
                .iter()
                .any(|secret| secret.len() > rest.len() && secret.starts_with(rest))
            {
                // It ends here and may go on.
                self.held = rest.to_vec();
                return shown;
            }
            match self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                Some(secret) => {
                    shown.extend_from_slice(STARS);
                    rest = &rest[secret.len()..];
                }
                None => {
                    shown.push(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
        shown.extend_from_slice(rest);
        shown
    }

    /// The end of the stream: what was held back and is no secret.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        // A short secret may stand at the beginning of a longer one that did not come.
        let shorter = |secret: &&Vec<u8>| secret.len() <= held.len();
        let secrets = self.secrets.iter().filter(shorter).cloned().collect();
        let mut mask = Mask { secrets, held: Vec::new() };
        let mut shown = mask.feed(&held);
        if !mask.held.is_empty() {
            shown.extend(mask.finish());
        }
        shown
    }

    /// Where a secret may begin.
    fn next_candidate(&self, text: &[u8]) -> Option<usize> {
        if self.secrets.is_empty() {
            return None;
        }
        text.iter().position(|byte| self.secrets.iter().any(|secret| secret[0] == *byte))
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
