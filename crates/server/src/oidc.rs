//! Tokens (JWT) of issuers that the settings trust, as OpenID Connect has them.
//!
//! ```text
//!   token ─▶ its header: RS256, ES256 or EdDSA ─▶ its issuer: one of the settings
//!         ─▶ the issuer's key of that id, for that algorithm and no other ─▶ signature
//!         ─▶ audience, times, subject ─▶ tenant and roles by the settings ─▶ Holder
//! ```
//!
//! Claims and headers that say where the key of a token is found are ignored. The reason why a
//! token is invalid is in the log only; the response is the same for every invalid token.

mod claims;
mod keyring;
mod login;

use jiff::Timestamp;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::actor::Answer;

pub use claims::Mapping;
use keyring::Keyring;
pub(crate) use login::LoginAttempt;
pub use login::LoginClient;

/// The longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Fetches what an issuer publishes.
pub trait Fetcher: Send + Sync + 'static {
    /// The body at an address, or why there is none.
    fn get<'a>(&'a self, url: &'a str) -> Answer<'a, Vec<u8>, String>;

    /// The answer to a form, with an `Authorization` header if one is given, or why there is none.
    fn post<'a>(
        &'a self,
        url: &'a str,
        form: &'a str,
        authorization: Option<&'a str>,
    ) -> Answer<'a, Vec<u8>, String>;
}

/// A trusted issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its address, letter by letter as its tokens name it.
    pub url: String,
    /// The one tenant that its tokens lead to; what their claim says when absent.
    pub tenant: Option<String>,
}

/// The trusted issuers, and what their tokens mean here.
pub struct Oidc {
    keyrings: Vec<Keyring>,
    mapping: Mapping,
    client: Option<LoginClient>,
}

/// The verified contents of a token.
pub(crate) struct Checked {
    pub holder: engine::Holder,
    /// When it ends.
    pub until: Timestamp,
}

#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

impl Oidc {
    /// Believes these issuers. Their keys are fetched when the first token comes.
    pub fn new(issuers: Vec<Issuer>, mapping: Mapping, fetcher: impl Fetcher) -> Self {
        let fetcher = std::sync::Arc::new(fetcher);
        let keyring = |issuer| Keyring::new(issuer, fetcher.clone());
        Oidc { keyrings: issuers.into_iter().map(keyring).collect(), mapping, client: None }
    }

    /// Verifies a token; none if it is invalid.
    pub(crate) async fn check(&self, token: &str, now: Timestamp) -> Option<Checked> {
        match self.read(token, now).await {
            Ok(checked) => Some(checked),
            Err(problem) => {
                tracing::debug!(problem, "a token was refused");
                None
            }
        }
    }

    async fn read(&self, token: &str, now: Timestamp) -> Result<Checked, &'static str> {
        if token.len() > TOKEN_BYTES_MAX || token.matches('.').count() != 2 {
            return Err("it is no token, or too long");
        }
        let header = decode_header(token).map_err(|_| "its header cannot be read")?;
        let algorithm = keyring::known(header.alg).ok_or("its algorithm is not accepted")?;
        if header.crit.is_some() {
            return Err("it demands what is not known here");
        }
        // Only to find the keys: the issuer is read again from what the signature covers.
        let Unverified { iss } =
            insecure_decode_claims(token).map_err(|_| "its claims cannot be read")?;
        let keyring = self.keyrings.iter().find(|keyring| keyring.issuer.url == iss);
        let keyring = keyring.ok_or("its issuer is not one of the settings")?;
        let key = keyring.key(header.kid.as_deref(), algorithm, now).await;
        let key = key.ok_or("its issuer has no such key")?;
        let mut validation = Validation::new(algorithm);
        // The claims are looked at below, with the clock of this server.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let claims = decode::<Value>(token, &key, &validation);
        let claims = claims.map_err(|_| "its signature is wrong")?.claims;
        let mark = Sha256::digest(token.as_bytes()).into();
        self.mapping.read(&claims, &keyring.issuer, mark, now)
    }
}
