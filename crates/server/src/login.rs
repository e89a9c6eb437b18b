//! Passwords: how they are kept, and how somebody gets a key for one.
//!
//! A password is tried on one of two threads that do nothing else, so that a crowd at the door does
//! not hold up the work. After a few wrong ones a name waits longer and longer; how many names are
//! waited for is bounded. A name that nobody has takes as long as one that somebody has.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use axum::http::{HeaderValue, header};
use domain::access::ApiKey;
use domain::id::KeyId;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::actor::Keys;
use crate::key::Key;
use crate::problem::{Code, Problem, Result};

/// How long a key of a login is valid.
const SESSION: SignedDuration = SignedDuration::from_hours(12);

/// Wrong passwords that cost nothing but the time to try them.
const FREE: u32 = 5;

/// The longest wait after a wrong password.
const WAIT_SECONDS_MAX: i64 = 60;

/// Names that are waited for at a time. Beyond that, some share a place.
const PLACES: usize = 4096;

/// Passwords that are tried at a time.
const TRIES: usize = 2;

/// How long a try waits for its turn.
const TURN: Duration = Duration::from_secs(10);

/// The shortest and the longest password.
const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 8..=256;

/// Somebody wants a key for a password.
pub struct Login {
    /// The name of their tenant.
    pub tenant: String,
    /// Their name.
    pub user: String,
    /// Their password.
    pub password: String,
}

/// Somebody has one.
pub struct Session {
    /// The key.
    pub key: Key,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// What is kept of a password. `salt` must not repeat.
pub(crate) async fn hash(password: String, salt: u128) -> Result<String> {
    if !PASSWORD_BYTES.contains(&password.len()) {
        let (least, most) = (PASSWORD_BYTES.start(), PASSWORD_BYTES.end());
        return Err(Problem::invalid("password", format!("must have {least} to {most} bytes")));
    }
    let hash = move || hashed(password.as_bytes(), &salt.to_be_bytes());
    let hash = tokio::task::spawn_blocking(hash).await.ok().flatten();
    hash.ok_or_else(|| Problem::new(Code::Internal, "the password could not be hashed"))
}

fn hashed(password: &[u8], salt: &[u8]) -> Option<String> {
    let hash: PasswordHash = Argon2::default().hash_password_with_salt(password, salt).ok()?;
    Some(hash.to_string())
}

/// Whether a password has this hash. Without a hash it takes as long and says no.
fn verify(password: &[u8], hash: Option<&str>) -> bool {
    static NOBODYS: OnceLock<Option<String>> = OnceLock::new();
    let nobodys = NOBODYS.get_or_init(|| hashed(b"nobody has this", &[0; 16]));
    let text = hash.or(nobodys.as_deref()).unwrap_or_default();
    let Ok(parsed) = PasswordHash::new(text) else { return false };
    Argon2::default().verify_password(password, &parsed).is_ok() && hash.is_some()
}

/// Who has to wait, and who is being looked at.
pub(crate) struct Throttle {
    places: Mutex<Vec<Place>>,
    turns: Arc<Semaphore>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    failures: u32,
    until: Option<Timestamp>,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            places: Mutex::new(vec![Place::default(); PLACES]),
            turns: Arc::new(Semaphore::new(TRIES)),
        }
    }
}

impl Throttle {
    fn at<T>(&self, name: &[u8; 32], change: impl FnOnce(&mut Place) -> T) -> T {
        let index = usize::from(u16::from_be_bytes([name[0], name[1]])) % PLACES;
        change(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner)[index])
    }

    /// How long the name has to wait, in seconds. Who may try is counted as having failed until
    /// they have not: those who come at the same time are counted too.
    fn begin(&self, name: &[u8; 32], now: Timestamp) -> std::result::Result<(), i64> {
        self.at(name, |place| {
            if let Some(until) = place.until {
                let left = until.duration_since(now);
                if left.is_positive() {
                    return Err(left.as_secs() + 1);
                }
                // Nobody tried for long: it begins anew.
                if left < SignedDuration::from_mins(-15) {
                    *place = Place::default();
                }
            }
            place.failures = place.failures.saturating_add(1);
            let over = place.failures.saturating_sub(FREE).min(10);
            let wait = if over == 0 { 0 } else { (1_i64 << over).min(WAIT_SECONDS_MAX) };
            place.until = now.checked_add(SignedDuration::from_secs(wait)).ok();
            Ok(())
        })
    }

    fn succeeded(&self, name: &[u8; 32]) {
        self.at(name, |place| *place = Place::default());
    }
}

fn too_many(seconds: i64) -> Problem {
    let wait = HeaderValue::from_str(&seconds.to_string());
    Problem::new(Code::RateLimited, "too many wrong passwords; try again later")
        .with_header(header::RETRY_AFTER, wait.unwrap_or(HeaderValue::from_static("60")))
}

impl Keys {
    pub(crate) async fn log_in(&self, login: Login) -> Result<Session> {
        let wrong = || {
            Problem::new(Code::Unauthenticated, "tenant, user or password is wrong")
                .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        };
        let mut name = Sha256::new();
        name.update(login.tenant.as_bytes());
        name.update([0]);
        name.update(login.user.as_bytes());
        let name: [u8; 32] = name.finalize().into();
        let now = (self.clock)();
        self.throttle.begin(&name, now).map_err(too_many)?;
        let found = self.scheduler.user_named(&login.tenant, &login.user).await?;
        let turn = Arc::clone(&self.throttle.turns).acquire_owned();
        let turn = tokio::time::timeout(TURN, turn).await.map_err(|_| too_many(1))?;
        let found = found.filter(|standing| !standing.user.disabled);
        let hash = found.as_ref().and_then(|standing| standing.user.password.clone());
        let tried = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let fits = *PASSWORD_BYTES.end() >= login.password.len();
            fits && verify(login.password.as_bytes(), hash.as_deref())
        });
        let is_right = tried.await.unwrap_or(false);
        let standing = found.filter(|_| is_right).ok_or_else(wrong)?;
        self.throttle.succeeded(&name);
        let key = self.new_key();
        let expires_at = now.saturating_add(SESSION).unwrap_or(now);
        let kept = ApiKey {
            id: KeyId::of_text(key.id()).ok_or_else(wrong)?,
            tenant: standing.user.tenant,
            user: standing.user.id,
            label: "login".to_owned(),
            hash: key.hash().into(),
            scopes: None,
            read_only: false,
            expires_at: Some(expires_at),
            session: true,
        };
        self.scheduler.open_session(kept).await?;
        Ok(Session { key, expires_at })
    }

    fn new_key(&self) -> Key {
        Key::drawn(self.random.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_recognised_by_its_hash() {
        let hash = hashed(b"correct horse", &[7; 16]).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$"), "{hash}");
        assert!(verify(b"correct horse", Some(&hash)));
        assert!(!verify(b"correct hors", Some(&hash)));
        assert!(!verify(b"nobody has this", None));
        assert!(!verify(b"x", Some("not a hash")));
    }

    #[test]
    fn wrong_passwords_cost_more_and_more_time() {
        let throttle = Throttle::default();
        let (name, other) = ([1; 32], [2; 32]);
        let mut now = Timestamp::UNIX_EPOCH;
        for _ in 0..FREE {
            assert_eq!(throttle.begin(&name, now), Ok(()));
        }
        let mut waited = Vec::new();
        for _ in 0..8 {
            assert_eq!(throttle.begin(&name, now), Ok(()));
            let left = throttle.begin(&name, now).unwrap_err();
            waited.push(left);
            now += SignedDuration::from_secs(left);
        }
        assert_eq!(waited, [3, 5, 9, 17, 33, 61, 61, 61]);
        assert_eq!(throttle.begin(&other, now), Ok(()));
        throttle.succeeded(&name);
        assert_eq!(throttle.begin(&name, now), Ok(()));
        // A hundred at once are not a hundred tries.
        let crowd = (0..100).filter(|_| throttle.begin(&[3; 32], now).is_ok()).count();
        assert_eq!(crowd, FREE as usize + 1);
    }
}
