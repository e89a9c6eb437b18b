//! The forms in which a value may appear in output.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Shorter values are not masked: they would be found everywhere.
pub(super) const BYTES_MIN: usize = 4;

/// Characters that most libraries leave unescaped in a part of a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in a path, and as our own HTTP jobs write it.
const IN_PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// The same in a form.
const IN_FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// Encoded forms from this length on are also found with line breaks or separators in them.
const BROKEN_MIN: usize = 8;

/// Minimum number of characters of an encoded form before a line break in it. Fewer would hold back
/// the ends of many lines.
const BEFORE_BREAK: usize = 4;

/// The most bytes of a line break or separator: the end of a line, and the space that begins the
/// next one.
const BREAK_BYTES_MAX: usize = 3;

/// One form of a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub bytes: Vec<u8>,
    breaks: Breaks,
}

/// Separators that are allowed between the characters of a form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Breaks {
    Nothing,
    /// The ends of lines.
    Lines,
    /// The ends of lines; and between two bytes in hex, a space, a colon or a dash.
    Hex,
}

/// Whether a text begins with a form.
pub(super) enum Found {
    No,
    /// The text ends before the form does.
    Begin,
    /// In so many bytes of the text.
    Whole(usize),
}

impl Form {
    fn may_break(&self, at: usize, byte: u8) -> bool {
        match byte {
            b'\r' | b'\n' => self.breaks != Breaks::Nothing && at >= BEFORE_BREAK,
            b' ' | b':' | b'-' => self.breaks == Breaks::Hex && at > 0 && at.is_multiple_of(2),
            _ => false,
        }
    }

    /// Whether a text begins with this form.
    pub fn find(&self, text: &[u8]) -> Found {
        if self.breaks == Breaks::Nothing {
            return match text.len() < self.bytes.len() {
                true if self.bytes.starts_with(text) => Found::Begin,
                false if text.starts_with(&self.bytes) => Found::Whole(self.bytes.len()),
                _ => Found::No,
            };
        }
        let (mut at, mut broken) = (0, 0);
        for (place, byte) in text.iter().enumerate() {
            if at == self.bytes.len() {
                return Found::Whole(place);
            }
            if self.bytes[at] == *byte {
                (at, broken) = (at + 1, 0);
            } else if broken < BREAK_BYTES_MAX && self.may_break(at, *byte) {
                broken += 1;
            } else {
                return Found::No;
            }
        }
        if at == self.bytes.len() { Found::Whole(text.len()) } else { Found::Begin }
    }
}

/// An encoded form: as it is, and across line breaks. Where a line ends after its first characters,
/// the rest of it is found.
fn encoded(bytes: Vec<u8>, breaks: Breaks) -> Vec<Form> {
    if bytes.len() < BROKEN_MIN {
        return vec![Form { bytes, breaks: Breaks::Nothing }];
    }
    let cut = (1..BEFORE_BREAK).filter(|cut| bytes.len() - cut >= 2 * BROKEN_MIN);
    let mut forms: Vec<Form> =
        cut.map(|cut| Form { bytes: bytes[cut..].to_vec(), breaks }).collect();
    forms.push(Form { bytes, breaks });
    forms
}

/// Every form of a value: as it is, a line of it, in base64 or base32 wherever it begins there, in
/// hex, in a URL, in JSON, in HTML, quoted for a shell, and as languages print a string.
pub(super) fn all(value: &str) -> Vec<Form> {
    let mut found: Vec<Form> = Vec::new();
    let trimmed = value.trim();
    let lines = trimmed.lines().map(str::trim);
    for text in [value, trimmed].into_iter().chain(lines) {
        if text.len() < BYTES_MIN {
            continue;
        }
        let by_bits = base64(text.as_bytes()).into_iter().chain(base32(text.as_bytes()));
        found.extend(by_bits.flat_map(|form| encoded(form, Breaks::Lines)));
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        for hex in [hex.to_uppercase(), hex] {
            found.extend(encoded(hex.into_bytes(), Breaks::Hex));
        }
        let mut forms = vec![text.as_bytes().to_vec()];
        for set in [NON_ALPHANUMERIC, UNRESERVED, IN_PATH, IN_FORM] {
            let encoded = utf8_percent_encode(text, set).to_string();
            forms.push(lower_hex(&encoded).into_bytes());
            forms.push(encoded.replace("%20", "+").into_bytes());
            forms.push(encoded.into_bytes());
        }
        forms.extend(json(text));
        forms.extend(html(text));
        forms.extend(quoted(text));
        found.extend(forms.into_iter().map(|bytes| Form { bytes, breaks: Breaks::Nothing }));
    }
    found.retain(|form| form.bytes.len() >= BYTES_MIN);
    // The longest first: one may begin with another.
    found.sort_by(|a, b| b.bytes.len().cmp(&a.bytes.len()).then_with(|| a.cmp(b)));
    found.dedup();
    found
}

/// The same in base32 (RFC 4648), in capital letters and in small ones.
fn base32(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for before in 0..5 {
        let mut padded = vec![0; before];
        padded.extend_from_slice(value);
        let (begin, end) = ((before * 8).div_ceil(5), padded.len() * 8 / 5);
        let bit = |at: usize| padded.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        let letter = |at: usize| {
            let digit = (0..5).fold(0, |digit, n| digit << 1 | bit(at * 5 + n));
            match digit {
                0..26 => b'A' + digit,
                _ => b'2' + (digit - 26),
            }
        };
        // The last character of a value alone may hold fewer bits.
        let end = if before == 0 { (padded.len() * 8).div_ceil(5) } else { end };
        let form: Vec<u8> = (begin..end).map(letter).collect();
        forms.push(form.to_ascii_lowercase());
        if before == 0 {
            let end = padded.len() * 8 / 5;
            forms.extend([form[..end].to_ascii_lowercase(), form[..end].to_vec()]);
        }
        forms.push(form);
    }
    forms
}

/// The value alone, and its encoded part that does not depend on the text before and behind it.
fn base64(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for engine in [&STANDARD, &URL_SAFE] {
        let alone = engine.encode(value);
        forms.push(alone.trim_end_matches('=').as_bytes().to_vec());
        forms.push(alone.into_bytes());
        for before in 0..3 {
            let mut padded = vec![0; before];
            padded.extend_from_slice(value);
            let encoded = engine.encode(&padded).into_bytes();
            // Characters that hold nothing but bits of the value.
            let begin = (before * 8).div_ceil(6);
            let end = padded.len() * 8 / 6;
            forms.push(encoded[begin..end].to_vec());
        }
    }
    forms
}

/// `%2F` as `%2f`.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(part.len().min(2));
        text = format!("{text}%{}{rest}", code.to_ascii_lowercase());
    }
    text
}

/// As a part of a JSON string: with the required escapes, and with all possible ones.
fn json(value: &str) -> Vec<Vec<u8>> {
    let quoted = serde_json::Value::from(value).to_string();
    let plain = quoted[1..quoted.len() - 1].to_owned();
    let ascii = |upper: bool| -> String {
        let mut text = String::with_capacity(plain.len());
        for c in plain.chars() {
            if c.is_ascii() {
                text.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                text += &if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
            }
        }
        text
    };
    // A text in JSON in JSON: a stored response may be quoted once more.
    let twice = serde_json::Value::from(plain.as_str()).to_string();
    let twice = twice[1..twice.len() - 1].to_owned();
    // Some libraries escape what means something in HTML as well.
    let in_html = |text: &str, upper: bool, apostrophe: bool| {
        let code = |c: char| match upper {
            true => format!("\\u{:04X}", c as u32),
            false => format!("\\u{:04x}", c as u32),
        };
        let escaped = |c: char| matches!(c, '<' | '>' | '&') || c == '\'' && apostrophe;
        text.chars().map(|c| if escaped(c) { code(c) } else { c.to_string() }).collect::<String>()
    };
    let mut forms = vec![plain.replace('/', "\\/"), ascii(true), ascii(false), twice];
    for upper in [true, false] {
        for text in [plain.clone(), plain.replace('/', "\\/"), ascii(upper)] {
            forms.extend([true, false].map(|apostrophe| in_html(&text, upper, apostrophe)));
        }
    }
    forms.push(plain);
    forms.into_iter().map(String::into_bytes).collect()
}

/// In HTML and XML: the five characters by name or by number, as libraries write them.
fn html(value: &str) -> Vec<Vec<u8>> {
    let escaped = |quote: &str, apostrophe: &str| {
        let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe).into_bytes()
    };
    let apostrophes = ["'", "&#39;", "&#039;", "&#x27;", "&apos;"];
    let mut forms = vec![escaped("\"", "'")];
    for quote in ["&quot;", "&#34;"] {
        forms.extend(apostrophes.map(|apostrophe| escaped(quote, apostrophe)));
    }
    forms
}

/// How a string is printed that is not ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotAscii {
    AsItIs,
    /// Byte by byte.
    Bytes,
    /// By the number of the character.
    Numbers,
}

/// As Python's `repr`, `ascii` and their like print a string or bytes, and as shells quote it.
fn quoted(value: &str) -> Vec<Vec<u8>> {
    let escaped = |quotes: &[char], not_ascii: NotAscii| {
        let mut text = String::with_capacity(value.len());
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                c if quotes.contains(&c) => text.extend(['\\', c]),
                c if c.is_ascii_control() => text += &format!("\\x{:02x}", c as u32),
                c if c.is_ascii() || not_ascii == NotAscii::AsItIs => text.push(c),
                c if not_ascii == NotAscii::Bytes => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        text += &format!("\\x{byte:02x}");
                    }
                }
                c => {
                    text += &match c as u32 {
                        number @ ..=0xff => format!("\\x{number:02x}"),
                        number @ ..=0xffff => format!("\\u{number:04x}"),
                        number => format!("\\U{number:08x}"),
                    }
                }
            }
        }
        text.into_bytes()
    };
    let mut forms = Vec::new();
    for quotes in [&[][..], &['\''], &['"'], &['\'', '"']] {
        let all = [NotAscii::AsItIs, NotAscii::Bytes, NotAscii::Numbers];
        forms.extend(all.map(|not_ascii| escaped(quotes, not_ascii)));
    }
    // In double quotes, and as `printf %q` prints it.
    let backslashed = |is_special: &dyn Fn(char) -> bool| -> Vec<u8> {
        let each = value.chars().map(|c| match is_special(c) {
            true => format!("\\{c}"),
            false => c.to_string(),
        });
        each.collect::<String>().into_bytes()
    };
    forms.push(backslashed(&|c| matches!(c, '"' | '\\' | '$' | '`')));
    let is_plain = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "%+-./:=@_".contains(c);
    forms.push(backslashed(&|c| !is_plain(c)));
    forms.extend(["'\\''", "'\"'\"'"].map(|end| value.replace('\'', end).into_bytes()));
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_wherever_the_value_stands() {
        let value = b"p4ss/w+rd?";
        for (before, behind) in [("", ""), ("u:", ""), ("us:", "!"), ("use:", "\n--"), ("", "xy")] {
            let text = [before.as_bytes(), value, behind.as_bytes()].concat();
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                let found = base64(value).iter().any(|form| {
                    form.len() + 4 >= value.len() * 4 / 3
                        && encoded.contains(std::str::from_utf8(form).unwrap())
                });
                assert!(found, "{before:?} {behind:?} {encoded}");
            }
        }
    }

    #[test]
    fn every_form_is_known() {
        let forms = all(" a\"b/c\\d é%~ ");
        for form in [
            "a\"b/c\\d é%~",
            "a\\\"b/c\\\\d é%~",
            "a\\\"b\\/c\\\\d é%~",
            "a\\\"b/c\\\\d \\u00e9%~",
            "a\\\\\\\"b/c\\\\\\\\d é%~",
            "a%22b%2Fc%5Cd%20%C3%A9%25~",
            "a%22b%2fc%5cd%20%c3%a9%25~",
            "a%22b/c%5Cd%20%C3%A9%25~",
            "a%22b%2Fc%5Cd+%C3%A9%25%7E",
            "6122622f635c6420c3a9257e",
        ] {
            assert!(forms.iter().any(|known| known.bytes == form.as_bytes()), "{form}");
        }
        assert!(all("abc").is_empty());
        let forms = all("a b$c\"\u{20ac}");
        for form in ["a\\ b\\$c\\\"\u{20ac}", "a b\\$c\\\"\u{20ac}", "a b$c\"\\u20ac"] {
            assert!(forms.iter().any(|known| known.bytes == form.as_bytes()), "{form}");
        }
        let forms = all("<a&'b\"\\\u{e9}\tc>");
        for form in [
            "&lt;a&amp;&#39;b&quot;\\\u{e9}\tc&gt;",
            "&lt;a&amp;&#x27;b&quot;\\\u{e9}\tc&gt;",
            "&lt;a&amp;'b\"\\\u{e9}\tc&gt;",
            "<a&\\'b\"\\\\\u{e9}\\tc>",
            "<a&'b\\\"\\\\\\xc3\\xa9\\tc>",
            "<a&'\"'\"'b\"\\\u{e9}\tc>",
            "<a&'\\''b\"\\\u{e9}\tc>",
            "\\u003ca\\u0026'b\\\"\\\\\u{e9}\\tc\\u003e",
            "\\u003Ca\\u0026\\u0027b\\\"\\\\\\u00E9\\tc\\u003E",
            "<a&\\'b\"\\\\\\xe9\\tc>",
        ] {
            assert!(forms.iter().any(|known| known.bytes == form.as_bytes()), "{form}");
        }
    }
}
