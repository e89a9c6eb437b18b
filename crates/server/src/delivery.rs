//! Deliveries at hooks: the headers that authenticate a delivery, and the id that identifies it.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::hook::{HookScheme, TOLERANCE};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// The signed parts of a delivery.
pub(crate) struct Delivery {
    /// The bytes over which the sender's and the server's code must agree.
    pub message: Vec<u8>,
    /// The codes that the sender shows.
    pub shown: Vec<Vec<u8>>,
    /// Id of the delivery. A delivery with the same id triggers no second run.
    pub id: Option<String>,
}

/// The message of the scheme that shows its secret: both sides make the code of it.
pub(crate) const TOKEN_MESSAGE: &[u8] = b"punctual hook token";

/// Reads the headers of a delivery; none if they prove nothing, or are too old. `mac` makes the code
/// of a message under a key that the sender shows.
pub(crate) fn read(
    scheme: HookScheme,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    mac: impl Fn(&[u8], &[u8]) -> Vec<u8>,
) -> Option<Delivery> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match scheme {
        HookScheme::Standard => {
            let (id, sent_at) = (header("webhook-id")?, header("webhook-timestamp")?);
            let at = Timestamp::from_second(sent_at.parse().ok()?).ok()?;
            if now.duration_since(at).abs() > TOLERANCE {
                return None;
            }
            let signatures = header("webhook-signature")?.split(' ');
            let shown = signatures.filter_map(|it| STANDARD.decode(it.strip_prefix("v1,")?).ok());
            let message = [id.as_bytes(), b".", sent_at.as_bytes(), b".", body].concat();
            Some(Delivery { message, shown: shown.collect(), id: Some(id.to_owned()) })
        }
        HookScheme::Github => {
            let signature = header("x-hub-signature-256")?.strip_prefix("sha256=")?;
            let shown = from_hex(signature)?;
            // The signature covers the body and nothing else, so the body names the delivery: to
            // send it again under another number triggers nothing.
            Some(Delivery { message: body.to_vec(), shown: vec![shown], id: Some(hash(body)) })
        }
        HookScheme::Token => {
            let token = header("authorization")?;
            let (word, token) = token.split_once(' ')?;
            if !word.eq_ignore_ascii_case("bearer") {
                return None;
            }
            let shown = vec![mac(token.trim().as_bytes(), TOKEN_MESSAGE)];
            let id = header("idempotency-key").or_else(|| header("webhook-id"));
            let id = id.map(ToOwned::to_owned);
            Some(Delivery { message: TOKEN_MESSAGE.to_vec(), shown, id })
        }
    }
}

impl Delivery {
    /// Whether one of the shown codes is the right one. The time does not depend on where they
    /// differ.
    pub fn shows(&self, code: &[u8]) -> bool {
        let same = |shown: &Vec<u8>| {
            let differ = shown.iter().zip(code).fold(0, |differ, (a, b)| differ | (a ^ b));
            shown.len() == code.len() && differ == 0
        };
        self.shown.iter().filter(|shown| same(shown)).count() > 0
    }
}

/// The hash of a text, as text.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|it| it.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        list.iter().map(|(name, text)| (name.parse().unwrap(), value(text))).collect()
    }

    /// A code that shows its parts.
    fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
        [key, b"|", message].concat()
    }

    #[test]
    fn each_scheme_has_its_headers() {
        let now = Timestamp::from_second(1_614_265_330).unwrap();
        let standard = |at: &str| {
            let list = [
                ("webhook-id", "msg_1"),
                ("webhook-timestamp", at),
                ("webhook-signature", "v1a,YQ== v1,YWJj v1,ZGVm"),
            ];
            read(HookScheme::Standard, &headers(&list), b"body", now, mac)
        };
        let delivery = standard("1614265330").unwrap();
        assert_eq!(delivery.message, b"msg_1.1614265330.body");
        assert_eq!(delivery.id.as_deref(), Some("msg_1"));
        assert!(delivery.shows(b"abc") && delivery.shows(b"def"));
        assert!(!delivery.shows(b"abd") && !delivery.shows(b"ab") && !delivery.shows(b""));
        assert!(standard("1614265030").is_some() && standard("1614265029").is_none());
        assert!(standard("1614265630").is_some() && standard("1614265631").is_none());
        assert!(standard("soon").is_none());

        let github = headers(&[("x-hub-signature-256", "sha256=00ff10")]);
        let delivery = read(HookScheme::Github, &github, b"{}", now, mac).unwrap();
        assert!(delivery.shows(&[0, 255, 16]) && delivery.message == b"{}");
        assert_eq!(delivery.id, Some(hash(b"{}")));
        let wrong = headers(&[("x-hub-signature-256", "sha256=0g")]);
        assert!(read(HookScheme::Github, &wrong, b"{}", now, mac).is_none());

        let token = headers(&[("authorization", "Bearer abc"), ("idempotency-key", "k")]);
        let delivery = read(HookScheme::Token, &token, b"", now, mac).unwrap();
        assert!(delivery.shows(&mac(b"abc", TOKEN_MESSAGE)));
        assert_eq!(delivery.id.as_deref(), Some("k"));
        for scheme in HookScheme::ALL {
            assert!(read(scheme, &HeaderMap::new(), b"", now, mac).is_none());
        }
    }
}
