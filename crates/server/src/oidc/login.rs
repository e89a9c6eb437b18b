//! How a browser logs in at an issuer: the authorization code flow with PKCE. The answer of the
//! issuer is an ID token, which is then checked like every other token.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::dangerous::insecure_decode_claims;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Oidc;

/// The client that this server is at its issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginClient {
    /// Its id.
    pub id: String,
    /// Its secret, if the issuer demands one.
    pub secret: Option<String>,
    /// Where browsers come back to: the address of `/v1/session/oidc/callback` as they see it.
    pub redirect_url: String,
}

/// Random values that bind the response of an issuer to the browser that started the login. Only
/// its cookie has them.
pub(crate) struct LoginAttempt {
    /// The issuer, by its place in the settings.
    pub(crate) issuer: usize,
    /// `state`: the issuer returns it beside the code.
    pub(crate) state: String,
    /// `nonce`: the ID token contains it.
    pub(crate) nonce: String,
    /// `code_verifier` of PKCE (RFC 7636); the request for the code had its hash.
    pub(crate) verifier: String,
}

/// The endpoints in the discovery document of an issuer.
#[derive(Deserialize)]
struct Endpoints {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

#[derive(Deserialize)]
struct Nonce {
    nonce: Option<String>,
}

impl Oidc {
    /// Lets browsers log in at the issuers.
    pub fn with_login(self, client: LoginClient) -> Self {
        Oidc { client: Some(client), ..self }
    }

    /// The names of the issuers that browsers can log in at.
    pub(crate) fn logins(&self) -> Vec<String> {
        let name = |url: &str| {
            let host = url.split_once("://").map_or(url, |(_, rest)| rest);
            host.split('/').next().unwrap_or(host).to_owned()
        };
        match self.client {
            Some(_) => self.keyrings.iter().map(|keyring| name(&keyring.issuer.url)).collect(),
            None => Vec::new(),
        }
    }

    /// Whether browsers reach this server over HTTPS.
    pub(crate) fn is_https(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.redirect_url.starts_with("https://"))
    }

    /// Where the browser is sent to log in.
    pub(crate) async fn login_address(&self, attempt: &LoginAttempt) -> Result<String, String> {
        let client = self.client.as_ref().ok_or("no client is configured")?;
        let endpoints = self.endpoints(attempt.issuer).await?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(attempt.verifier.as_bytes()));
        let query = encoded(&[
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", &client.redirect_url),
            ("scope", "openid profile email"),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let address = endpoints.authorization_endpoint;
        let joint = if address.contains('?') { '&' } else { '?' };
        Ok(format!("{address}{joint}{query}"))
    }

    /// The ID token that the issuer gives for a code, if it is good.
    pub(crate) async fn redeem_code(
        &self,
        attempt: &LoginAttempt,
        code: &str,
        now: Timestamp,
    ) -> Result<String, String> {
        let client = self.client.as_ref().ok_or("no client is configured")?;
        let endpoints = self.endpoints(attempt.issuer).await?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &client.redirect_url),
            ("code_verifier", &attempt.verifier),
        ];
        let basic = client.secret.as_ref().map(|secret| {
            let (id, secret) = (encoded_text(&client.id), encoded_text(secret));
            format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
        });
        if basic.is_none() {
            form.push(("client_id", &client.id));
        }
        let keyring = self.keyrings.get(attempt.issuer).ok_or("there is no such issuer")?;
        let body = encoded(&form);
        let answer =
            keyring.fetcher.post(&endpoints.token_endpoint, &body, basic.as_deref()).await?;
        let tokens: Tokens = serde_json::from_slice(&answer)
            .map_err(|error| format!("the answer of the issuer has no ID token: {error}"))?;
        if self.check(&tokens.id_token, now).await.is_none() {
            return Err("the ID token is not good, or gives nothing here".to_owned());
        }
        // The signature was checked above.
        let found: Nonce = insecure_decode_claims(&tokens.id_token)
            .map_err(|_| "the claims of the ID token cannot be read")?;
        if found.nonce.as_deref() != Some(attempt.nonce.as_str()) {
            return Err("the ID token was not made for this login".to_owned());
        }
        Ok(tokens.id_token)
    }

    async fn endpoints(&self, issuer: usize) -> Result<Endpoints, String> {
        let keyring = self.keyrings.get(issuer).ok_or("there is no such issuer")?;
        let url = &keyring.issuer.url;
        let place = format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'));
        let body = keyring.fetcher.get(&place).await?;
        let found: Endpoints = serde_json::from_slice(&body)
            .map_err(|error| format!("{place} names no endpoints for a login: {error}"))?;
        if found.issuer != *url {
            return Err(format!("{place} describes {:?}", found.issuer));
        }
        // An issuer that is asked without TLS is on this machine, and so are its endpoints.
        let is_safe = |address: &str| {
            address.starts_with("https://")
                || (url.starts_with("http://") && address.starts_with("http://"))
        };
        match is_safe(&found.authorization_endpoint) && is_safe(&found.token_endpoint) {
            true => Ok(found),
            false => Err(format!("the endpoints of {url} are not protected by TLS")),
        }
    }
}

/// Names and values as `application/x-www-form-urlencoded`.
fn encoded(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", encoded_text(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

fn encoded_text(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
