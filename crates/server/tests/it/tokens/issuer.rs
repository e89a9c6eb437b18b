//! An issuer without a network: keys of its own, tokens, and what it publishes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};
use server::{Answer, Fetcher};

pub const URL: &str = "https://id.example.com/realms/a";
const KEYS: &str = "https://id.example.com/keys";

/// A body that was posted, and its Authorization header.
type Posted = (String, Option<String>);

/// Published documents, and the number of requests for them.
#[derive(Clone, Default)]
pub struct Web {
    pages: Arc<Mutex<HashMap<String, String>>>,
    pub asked: Arc<AtomicU32>,
    pub is_down: Arc<AtomicBool>,
    /// The last form that was sent, and who sent it.
    pub posted: Arc<Mutex<Option<Posted>>>,
}

impl Web {
    pub fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
        let mut pages = self.pages.lock().unwrap();
        pages.insert(KEYS.to_owned(), json!({"keys": keys}).to_string());
        let description = json!({"issuer": URL, "jwks_uri": KEYS}).to_string();
        pages.entry(format!("{URL}/.well-known/openid-configuration")).or_insert(description);
    }

    /// Lets browsers log in, and answers this token for their codes.
    pub fn answer_codes(&self, token: &str) {
        self.describe(&json!({
            "issuer": URL, "jwks_uri": KEYS, "authorization_endpoint": format!("{URL}/auth"),
            "token_endpoint": format!("{URL}/token"),
        }));
        let tokens = json!({"access_token": "other", "id_token": token}).to_string();
        self.pages.lock().unwrap().insert(format!("{URL}/token"), tokens);
    }

    pub fn describe(&self, description: &Value) {
        let place = format!("{URL}/.well-known/openid-configuration");
        self.pages.lock().unwrap().insert(place, description.to_string());
    }
}

impl Fetcher for Web {
    fn get<'a>(&'a self, url: &'a str) -> Answer<'a, Vec<u8>, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let page = self.pages.lock().unwrap().get(url).cloned();
        let page = page.filter(|_| !self.is_down.load(Ordering::SeqCst));
        let answer =
            page.map(String::into_bytes).ok_or_else(|| format!("{url}: no server answers"));
        Box::pin(async move {
            // Others get a chance to ask meanwhile.
            tokio::task::yield_now().await;
            answer
        })
    }

    fn post<'a>(
        &'a self,
        url: &'a str,
        form: &'a str,
        authorization: Option<&'a str>,
    ) -> Answer<'a, Vec<u8>, String> {
        let posted = (form.to_owned(), authorization.map(str::to_owned));
        *self.posted.lock().unwrap() = Some(posted);
        let page = self.pages.lock().unwrap().get(url).cloned();
        let answer =
            page.map(String::into_bytes).ok_or_else(|| format!("{url}: no server answers"));
        Box::pin(std::future::ready(answer))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alg {
    Rs256,
    Es256,
    EdDsa,
}

/// A key with a name.
#[derive(Clone)]
pub struct Signer {
    name: String,
    algorithm: Alg,
    pair: Arc<KeyPair>,
}

impl Signer {
    pub fn new(name: &str, algorithm: Alg) -> Self {
        let kind = match algorithm {
            Alg::Rs256 => &rcgen::PKCS_RSA_SHA256,
            Alg::Es256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Alg::EdDsa => &rcgen::PKCS_ED25519,
        };
        let pair = Arc::new(KeyPair::generate_for(kind).unwrap());
        Signer { name: name.to_owned(), algorithm, pair }
    }

    /// The same key under another name.
    pub fn named(&self, name: &str) -> Self {
        Signer { name: name.to_owned(), ..self.clone() }
    }

    fn algorithm(&self) -> Algorithm {
        match self.algorithm {
            Alg::Rs256 => Algorithm::RS256,
            Alg::Es256 => Algorithm::ES256,
            Alg::EdDsa => Algorithm::EdDSA,
        }
    }

    fn key(&self) -> EncodingKey {
        let der = self.pair.serialized_der();
        match self.algorithm {
            Alg::Rs256 => EncodingKey::from_rsa_pem(self.pair.serialize_pem().as_bytes()).unwrap(),
            Alg::Es256 => EncodingKey::from_ec_der(der),
            Alg::EdDsa => EncodingKey::from_ed_der(der),
        }
    }

    pub fn public_der(&self) -> Vec<u8> {
        self.pair.der_bytes().to_vec()
    }

    pub fn public_pem(&self) -> Vec<u8> {
        self.pair.public_key_pem().into_bytes()
    }

    /// The public key as it is published.
    pub fn jwk(&self) -> Value {
        let raw = self.pair.der_bytes();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match self.algorithm {
            Alg::Rs256 => {
                let jwk = Jwk::from_encoding_key(&self.key(), Algorithm::RS256).unwrap();
                serde_json::to_value(jwk).unwrap()
            }
            Alg::Es256 => {
                json!({"kty": "EC", "crv": "P-256", "x": text(&raw[1..33]), "y": text(&raw[33..])})
            }
            Alg::EdDsa => json!({"kty": "OKP", "crv": "Ed25519", "x": text(raw)}),
        };
        jwk["kid"] = json!(self.name);
        jwk["use"] = json!("sig");
        jwk
    }

    fn header(&self, algorithm: Algorithm) -> Header {
        Header { kid: Some(self.name.clone()), ..Header::new(algorithm) }
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(claims, self.algorithm())
    }

    /// With an algorithm that the key is not for.
    pub fn sign_as(&self, claims: &Value, algorithm: Algorithm) -> String {
        encode(&self.header(algorithm), claims, &self.key()).unwrap()
    }

    /// With a secret that is none.
    pub fn sign_hmac(&self, claims: &Value, secret: &[u8]) -> String {
        let key = EncodingKey::from_secret(secret);
        encode(&self.header(Algorithm::HS256), claims, &key).unwrap()
    }

    /// With the key in the token, as if that proved anything.
    pub fn sign_with_its_key(&self, claims: &Value) -> String {
        let jwk = serde_json::from_value(self.jwk()).unwrap();
        let jku = Some("https://evil.example.com/keys".to_owned());
        let header = Header { jwk: Some(jwk), jku, ..self.header(self.algorithm()) };
        encode(&header, claims, &self.key()).unwrap()
    }
}
