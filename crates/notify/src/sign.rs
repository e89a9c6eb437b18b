//! Signatures that let a receiver check the sender, the time and the integrity of a message.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix of every secret.
const PREFIX: &str = "whsec_";

/// The secret that sender and receiver share. It never appears in logs.
#[derive(Clone)]
pub struct SigningSecret(Vec<u8>);

/// Why a secret was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret is {PREFIX} followed by 24 to 64 bytes in base64")]
pub struct SecretError;

impl SigningSecret {
    /// Reads `whsec_…`.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(SecretError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError)?;
        if (24..=64).contains(&bytes.len()) { Ok(SigningSecret(bytes)) } else { Err(SecretError) }
    }

    /// The signature of a message, as it stands in the header.
    pub fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of any length.
            return String::new();
        };
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_has_the_published_signature() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_real_secrets_are_taken_and_none_is_shown() {
        for wrong in ["", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!!"] {
            assert!(SigningSecret::parse(wrong).is_err(), "{wrong}");
        }
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
    }
}
