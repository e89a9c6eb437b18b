//! The public keys of an issuer: fetched when they are needed, kept, fetched again when they are
//! old or a token names one that is not among them, and never more often than twice a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::{Fetcher, Issuer};

/// Keys are fetched anew after this time.
const FRESH: SignedDuration = SignedDuration::from_mins(15);

/// Keys are used for so long when their issuer does not answer.
const USABLE: SignedDuration = SignedDuration::from_hours(24);

/// The least time between two tries to fetch them.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// Keys of an issuer at most.
const KEYS_MAX: usize = 100;

/// The algorithms that are accepted; all of them have a key that can be published.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// The algorithm, if it is accepted.
pub(super) fn known(algorithm: Algorithm) -> Option<Algorithm> {
    ALGORITHMS.contains(&algorithm).then_some(algorithm)
}

/// A key with the one algorithm that it is for.
struct Pinned {
    id: Option<String>,
    algorithm: Algorithm,
    key: Arc<DecodingKey>,
}

#[derive(Default)]
struct State {
    keys: Vec<Pinned>,
    fetched_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
}

/// An issuer and its keys.
pub(super) struct Keyring {
    pub issuer: Issuer,
    pub fetcher: Arc<dyn Fetcher>,
    state: Mutex<State>,
    /// One at a time fetches.
    turn: tokio::sync::Mutex<()>,
}

/// Whether something was less than a time ago. A clock that was set back makes nothing last longer.
fn within(at: Option<Timestamp>, span: SignedDuration, now: Timestamp) -> bool {
    at.is_some_and(|at| now.duration_since(at).abs() < span)
}

impl State {
    fn find(&self, id: Option<&str>, algorithm: Algorithm, now: Timestamp) -> Option<&Pinned> {
        if !within(self.fetched_at, USABLE, now) {
            return None;
        }
        match id {
            Some(_) => {
                self.keys.iter().find(|key| key.id.as_deref() == id && key.algorithm == algorithm)
            }
            // Without a name, only if nothing can be mistaken.
            None => match self.keys.as_slice() {
                [only] if only.algorithm == algorithm => Some(only),
                _ => None,
            },
        }
    }
}

impl Keyring {
    pub fn new(issuer: Issuer, fetcher: Arc<dyn Fetcher>) -> Self {
        Keyring { issuer, fetcher, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of an id for an algorithm.
    pub async fn key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Option<Arc<DecodingKey>> {
        let look = || self.state().find(id, algorithm, now).map(|found| Arc::clone(&found.key));
        let known = look();
        let is_fresh = within(self.state().fetched_at, FRESH, now);
        let _turn = match &known {
            Some(_) if is_fresh => return known,
            // The known keys can be used while another request fetches.
            Some(_) => match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(_) => return known,
            },
            None => self.turn.lock().await,
        };
        // Another request may have fetched it meanwhile.
        let known = look();
        let is_due = known.is_none() || !within(self.state().fetched_at, FRESH, now);
        if is_due && !within(self.state().tried_at, PAUSE, now) {
            self.state().tried_at = Some(now);
            match self.fetch().await {
                Ok(keys) => {
                    let mut state = self.state();
                    state.keys = keys;
                    state.fetched_at = Some(now);
                }
                Err(problem) => {
                    let issuer = &self.issuer.url;
                    tracing::warn!(issuer, problem, "the keys of an issuer cannot be fetched");
                }
            }
        }
        look()
    }

    async fn fetch(&self) -> Result<Vec<Pinned>, String> {
        #[derive(Deserialize)]
        struct Discovery {
            issuer: String,
            jwks_uri: String,
        }
        #[derive(Deserialize)]
        struct KeySet {
            keys: Vec<Value>,
        }
        let url = &self.issuer.url;
        let place = format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'));
        let body = self.fetcher.get(&place).await?;
        let found: Discovery = serde_json::from_slice(&body)
            .map_err(|error| format!("{place} is not a description of an issuer: {error}"))?;
        if found.issuer != *url {
            return Err(format!("{place} describes {:?}", found.issuer));
        }
        // An issuer without TLS is on this machine, and so are its keys.
        if !found.jwks_uri.starts_with("https://") && !url.starts_with("http://") {
            return Err(format!("the keys at {:?} are not protected by TLS", found.jwks_uri));
        }
        let body = self.fetcher.get(&found.jwks_uri).await?;
        let set: KeySet = serde_json::from_slice(&body)
            .map_err(|error| format!("{:?} is not a set of keys: {error}", found.jwks_uri))?;
        Ok(set.keys.into_iter().take(KEYS_MAX).filter_map(pinned).collect())
    }
}

/// A key of a set; none when it is for something else, or not understood.
fn pinned(key: Value) -> Option<Pinned> {
    let key: Jwk = serde_json::from_value(key).ok()?;
    let algorithm = match &key.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            Algorithm::EdDSA
        }
        _ => return None,
    };
    let common = &key.common;
    let fits = common.key_algorithm.is_none_or(|named| named == algorithm.into())
        && common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    if !fits {
        return None;
    }
    let decoding = DecodingKey::from_jwk(&key).ok()?;
    Some(Pinned { id: key.common.key_id, algorithm, key: Arc::new(decoding) })
}
