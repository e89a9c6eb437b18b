//! Codes of messages under secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::keeper::Mac;

/// Prefix of secrets of Standard Webhooks; the rest is base64.
const PREFIX: &str = "whsec_";

/// The HMAC-SHA256 of a message; none if the value stands for no key.
pub(crate) fn mac(value: &str, message: &[u8]) -> Option<Mac> {
    let key = match value.strip_prefix(PREFIX) {
        Some(encoded) => Zeroizing::new(STANDARD.decode(encoded).ok()?),
        None => Zeroizing::new(value.as_bytes().to_vec()),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(message);
    Some(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples_have_the_published_codes() {
        let signed = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        let code = mac("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", signed).unwrap();
        assert_eq!(STANDARD.encode(code), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let code = mac("It's a Secret to Everybody", b"Hello, World!").unwrap();
        let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
        assert_eq!(mac("whsec_!", b""), None);
    }
}
