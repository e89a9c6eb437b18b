//! The output of an attempt that was given secrets: they are taken out on their way.

use std::sync::{Arc, Mutex};

use domain::run::AttemptResult;

use super::{Mask, Output, Stream, locked};

/// Takes the output of one attempt and masks the secrets that the attempt got so far. The output of
/// every executor passes here.
#[derive(Clone, Default)]
pub(crate) struct Masked {
    output: Output,
    masks: Arc<Mutex<Masks>>,
}

/// One for each stream, and one for texts that are whole.
#[derive(Default)]
struct Masks {
    stdout: Mask,
    stderr: Mask,
    texts: Mask,
}

impl Masks {
    fn of(&mut self, stream: Stream) -> &mut Mask {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

impl Masked {
    pub fn new(output: Output) -> Self {
        Masked { output, masks: Arc::default() }
    }

    /// Hides a value from now on.
    pub fn hide(&self, secret: &str) {
        let mut masks = locked(&self.masks);
        masks.texts.hide(secret);
        masks.stdout.hide(secret);
        masks.stderr.hide(secret);
    }

    /// Takes some bytes, and returns the part of the stream that can be shown by now.
    pub fn write(&self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let mut masks = locked(&self.masks);
        let shown = masks.of(stream).feed(bytes);
        self.output.write(stream, &shown);
        shown
    }

    /// The stream has ended: text that was held back is no secret. Returns it.
    pub fn end(&self, stream: Stream) -> Vec<u8> {
        let mut masks = locked(&self.masks);
        let shown = masks.of(stream).finish();
        self.output.write(stream, &shown);
        shown
    }

    /// Ends the streams, and masks secrets in all texts of a result.
    pub fn result(&self, result: AttemptResult) -> AttemptResult {
        self.end(Stream::Stdout);
        self.end(Stream::Stderr);
        let texts = locked(&self.masks).texts.clone();
        AttemptResult {
            message: texts.text(&result.message),
            result: result.result.map(|result| json(&texts, result)),
            details: result.details.map(|details| json(&texts, details)),
            ..result
        }
    }
}

/// JSON stays JSON: where a value was no string, or stood next to a backslash, the rest becomes
/// one.
fn json(mask: &Mask, text: String) -> String {
    let masked = mask.text(&text);
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if masked == text || is_json(&masked) || !is_json(&text) {
        return masked;
    }
    serde_json::Value::String(masked).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_result_says_is_masked_and_stays_json() {
        let masked = Masked::default();
        masked.hide("12345678");
        masked.hide("nabcd");
        for (result, shown) in [
            ("{\"a\":\"12345678\"}", "{\"a\":\"***\"}"),
            ("[12345678]", "\"[***]\""),
            ("\"\\nabcd\"", "\"\\\"\\\\***\\\"\""),
            ("\"MTIzNDU2Nzg=\"", "\"***\""),
        ] {
            let answer = masked.result(AttemptResult {
                message: "got 12345678 for %31 12345678".into(),
                result: Some(result.into()),
                details: Some(result.into()),
                ..AttemptResult::completed()
            });
            assert_eq!(answer.result.as_deref(), Some(shown));
            assert_eq!(answer.details.as_deref(), Some(shown));
            assert_eq!(answer.message, "got *** for %31 ***");
        }
    }

    #[test]
    fn a_value_that_comes_late_is_hidden_from_then_on() {
        let masked = Masked::default();
        assert_eq!(masked.write(Stream::Stdout, b"later"), b"later");
        masked.hide("later");
        assert_eq!(masked.write(Stream::Stdout, b" la"), b" ");
        assert_eq!(masked.write(Stream::Stderr, b"ter"), b"ter");
        assert_eq!(masked.write(Stream::Stdout, b"ter"), b"***");
        assert_eq!(masked.write(Stream::Stdout, b"late"), b"");
        assert_eq!(masked.end(Stream::Stdout), b"late");
    }
}
