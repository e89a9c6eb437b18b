//! SCRAM-SHA-256 (RFC 5802, RFC 7677): how a client proves at the SQL interface that it knows a
//! password or a key, without sending it.
//!
//! ```text
//!   client                                server
//!   n,,n=,r=abc                 ──▶
//!                               ◀──       r=abcdef,s=salt,i=16384
//!   c=biws,r=abcdef,p=proof     ──▶                       tries what the user has, one by one
//!                               ◀──       v=signature
//! ```
//!
//! The server sends the salt before it knows which of their secrets a user will use, so all
//! secrets of a user share one: it is made of the user's id and a number that the cluster drew
//! once. An unknown name gets a salt in the same way, and the same refusal.
//!
//! Over TLS a client may bind its proof to the certificate that it was shown. An attacker in the middle
//! who shows another one has a proof that is good for nothing.

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::access::Verifier;
use domain::id::UserId;
use engine::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::problem::{Code, Problem, Result};

mod binding;

pub(crate) use binding::{Binding, end_point};

/// The name of the mechanism in the protocol.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// The same with a proof that is bound to the certificate of the connection.
pub(crate) const BOUND_MECHANISM: &str = "SCRAM-SHA-256-PLUS";

/// How often a secret is hashed. The client does that at each connection, the server once.
pub(crate) const ITERATIONS: u32 = 16_384;

/// The longest nonce of a client, in bytes.
const NONCE_BYTES_MAX: usize = 256;

/// Whether there is a stored verifier with the present number of iterations.
pub(crate) fn is_current(kept: Option<&Verifier>) -> bool {
    kept.is_some_and(|kept| kept.iterations == ITERATIONS)
}

/// A salt.
pub(crate) type Salt = [u8; 16];

/// The salt of a user, derived from the random seed of the cluster.
pub(crate) fn salt_of(drawn: &[u8; 32], whose: &[u8]) -> Salt {
    let mut salt = Salt::default();
    let length = salt.len();
    salt.copy_from_slice(&hmac(drawn, whose)[..length]);
    salt
}

/// The verifier that is stored of a secret.
pub(crate) fn verifier(secret: &str, salt: Salt, iterations: u32) -> Option<Verifier> {
    let salted = salted_password(secret, &salt, iterations)?;
    Some(Verifier {
        iterations,
        stored_key: Sha256::digest(hmac(&salted, b"Client Key")).into(),
        server_key: hmac(&salted, b"Server Key"),
    })
}

/// `Hi(Normalize(password), salt, i)` of RFC 5802. A password that SASLprep refuses is taken as it
/// is, as PostgreSQL does.
fn salted_password(secret: &str, salt: &[u8], iterations: u32) -> Option<[u8; 32]> {
    let prepared = stringprep::saslprep(secret).unwrap_or(secret.into());
    let mut salted = [0; 32];
    let iterations = NonZeroU32::new(iterations)?;
    pbkdf2::derive(PBKDF2_HMAC_SHA256, iterations, salt, prepared.as_bytes(), &mut salted);
    Some(salted)
}

/// The verifier of a user's password or key, computed on a thread that may block.
pub(crate) async fn verifier_of(
    engine: &Engine,
    user: UserId,
    secret: String,
) -> Result<Box<Verifier>> {
    let salt = salt_of(&engine.node().salt().await?, user.0.as_bytes());
    let made = tokio::task::spawn_blocking(move || verifier(&secret, salt, ITERATIONS)).await;
    let failed = || Problem::new(Code::Internal, "a secret could not be hashed");
    made.ok().flatten().map(Box::new).ok_or_else(failed)
}

pub(crate) fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    // A key of any length will do.
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(text).finalize().into_bytes().into(),
        Err(_) => [0; 32],
    }
}

/// A protocol violation of the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// An exchange in which the server has sent the salt.
pub(crate) struct Exchange {
    /// `client-first-message-bare,server-first-message`
    said: String,
    nonce: String,
    /// The channel binding that the client must repeat in its final message.
    binding: String,
}

impl Exchange {
    /// Reads the first message of a client. Answers the exchange and the server's first message.
    pub(crate) fn begin(
        first: &[u8],
        salt: Salt,
        iterations: u32,
        drawn: u128,
        binding: Binding<'_>,
    ) -> std::result::Result<(Self, String), Malformed> {
        let text = std::str::from_utf8(first).map_err(|_| Malformed("is not UTF-8"))?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(author), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Malformed("has no header"));
        };
        let binding = binding.repeated(flag)?;
        if !author.is_empty() {
            return Err(Malformed("names another identity"));
        }
        let mut fields = bare.split(',');
        // The name of the start-up counts, as with PostgreSQL.
        if !fields.next().is_some_and(|name| name.starts_with("n=")) {
            return Err(Malformed("has no name"));
        }
        let nonce = fields.next().and_then(|nonce| nonce.strip_prefix("r="));
        let is_plain = |nonce: &&str| {
            (1..=NONCE_BYTES_MAX).contains(&nonce.len())
                && nonce.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let nonce = nonce.filter(is_plain).ok_or(Malformed("has no good nonce"))?;
        let nonce = format!("{nonce}{}", STANDARD.encode(drawn.to_be_bytes()));
        let reply = format!("r={nonce},s={},i={iterations}", STANDARD.encode(salt));
        Ok((Exchange { said: format!("{bare},{reply}"), nonce, binding }, reply))
    }

    /// Reads the last message of a client.
    pub(crate) fn proof(&self, last: &[u8]) -> std::result::Result<Proof, Malformed> {
        let text = std::str::from_utf8(last).map_err(|_| Malformed("is not UTF-8"))?;
        let (said, proof) = text.rsplit_once(",p=").ok_or(Malformed("has no proof"))?;
        let mut fields = said.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c="));
        if binding != Some(&self.binding) {
            return Err(Malformed("has another channel binding than the first"));
        }
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        if nonce != Some(&self.nonce) {
            return Err(Malformed("has another nonce"));
        }
        let proof = STANDARD.decode(proof).map_err(|_| Malformed("has no good proof"))?;
        let proof = proof.try_into().map_err(|_| Malformed("has a proof of another length"))?;
        Ok(Proof { said: format!("{},{said}", self.said), proof })
    }
}

/// The client's proof that it has a secret.
pub struct Proof {
    said: String,
    proof: [u8; 32],
}

impl Proof {
    /// Checks the proof; answers the server's signature, which proves to the client that the server
    /// has the verifier.
    pub(crate) fn of(&self, verifier: &Verifier) -> Option<String> {
        let signature = hmac(&verifier.stored_key, self.said.as_bytes());
        let mut key = self.proof;
        for (byte, mask) in key.iter_mut().zip(signature) {
            *byte ^= mask;
        }
        let hash: [u8; 32] = Sha256::digest(key).into();
        bool::from(hash.ct_eq(&verifier.stored_key)).then(|| {
            format!("v={}", STANDARD.encode(hmac(&verifier.server_key, self.said.as_bytes())))
        })
    }
}

#[cfg(test)]
mod tests;
