//! Passwords: how they are kept, and how a user gets a key for one.
//!
//! A password is tried on one of two threads that do nothing else, so that many logins at once do
//! not hold up the work. After a few wrong ones a name waits longer and longer; how many names are
//! waited for is bounded. An unknown name takes as long as a known one.
//!
//! A login that succeeds is recorded with the key that it creates. A refused one is recorded after
//! the answer, which would otherwise take longer for a known name: each password that was tried,
//! the first attempt that had to wait, and once a minute an unknown name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use axum::http::{HeaderValue, header};
use domain::access::{Actor, ApiKey, EffectivePrivileges, Refusal, User, Verifier};
use domain::audit::{Event, Kind};
use domain::id::{TenantId, UserId};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::actor::Keys;
use crate::app::App;
use crate::key::Key;
use crate::problem::{Code, Problem, Result};
use crate::scram;

/// How long a key of a login is valid.
const SESSION: SignedDuration = SignedDuration::from_hours(12);

/// How long the login link of a first start is valid.
const LOGIN_LINK: SignedDuration = SignedDuration::from_hours(1);

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

/// How often the audit records attempts with unknown names.
const UNKNOWN_NAMES_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// The shortest and the longest password.
const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 8..=256;

/// The fewest different characters of a password.
const DISTINCT_MIN: usize = 5;

/// Passwords that are tried first, as words without what is written behind them.
const COMMON: &[&str] = &[
    "password",
    "passwort",
    "motdepasse",
    "administrator",
    "changeme",
    "letmein",
    "welcome",
    "iloveyou",
    "qwertyui",
    "qwertyuiop",
    "qwerty",
    "qwertz",
    "asdfghjk",
    "asdfghjkl",
    "yxcvbnm",
    "superman",
    "football",
    "baseball",
    "princess",
    "sunshine",
    "whatever",
    "trustno",
    "dragon",
    "monkey",
    "master",
    "shadow",
    "punctual",
    "postgres",
    "admin",
    "secret",
    "test",
    "user",
    "root",
    "1q2w3e4r",
    "1qaz2wsx",
    "abcd1234",
    "q1w2e3r4",
    "1234qwer",
    "qwer1234",
    "a1b2c3d4",
];

/// A request of a key for a password.
pub struct Login {
    /// The name of their tenant.
    pub tenant: String,
    /// Their name.
    pub user: String,
    /// Their password.
    pub password: String,
}

/// There is one.
pub struct Session {
    /// The key.
    pub key: Key,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Hash and expiry of the one-time link that logs its first user in as the administrator.
pub(crate) struct LoginLink {
    hash: [u8; 32],
    until: Timestamp,
}

/// The hash and the SCRAM verifier that are stored of a user's password.
pub(crate) async fn kept(
    app: &App,
    user: UserId,
    name: &str,
    password: String,
) -> Result<(Option<String>, Option<Box<Verifier>>)> {
    check_password("password", name, &password)?;
    let hash = hash(password.clone(), (app.random)()).await?;
    let verifier = scram::verifier_of(app.engine.as_ref(), user, password).await?;
    Ok((Some(hash), Some(verifier)))
}

/// The hash that is stored of a password. `salt` must not repeat.
async fn hash(password: String, salt: u128) -> Result<String> {
    let hash = move || hashed(password.as_bytes(), &salt.to_be_bytes());
    let hash = tokio::task::spawn_blocking(hash).await.ok().flatten();
    hash.ok_or_else(|| Problem::new(Code::Internal, "the password could not be hashed"))
}

/// Refuses a password of a wrong length, and one of those that are tried first.
fn check_password(field: &'static str, name: &str, password: &str) -> Result<()> {
    if !PASSWORD_BYTES.contains(&password.len()) {
        let (least, most) = (PASSWORD_BYTES.start(), PASSWORD_BYTES.end());
        return Err(Problem::invalid(field, format!("must have {least} to {most} bytes")));
    }
    match weakness(name, password) {
        None => Ok(()),
        Some(problem) => Err(Problem::invalid(field, problem)),
    }
}

/// Why a password is guessed early; none when it is not known to be.
fn weakness(name: &str, password: &str) -> Option<&'static str> {
    let lower = password.trim().to_lowercase();
    let mut letters: Vec<char> = lower.chars().collect();
    // A sequence with a few characters behind it is one.
    let steps = letters.windows(2).map(|pair| (pair[0] as u32).abs_diff(pair[1] as u32) <= 1);
    let is_run = steps.filter(|is_near| !is_near).count() <= letters.len() / 8;
    letters.sort_unstable();
    letters.dedup();
    if letters.len() < DISTINCT_MIN {
        return Some("must have at least five different characters");
    }
    if is_run {
        return Some("must not be a sequence of characters such as 23456789");
    }
    // Common suffixes and letter substitutions are removed before the comparison.
    let word = lower.trim_end_matches(|c: char| !c.is_alphabetic());
    let plain = |text: &str| text.replace('0', "o").replace('3', "e").replace(['@', '4'], "a");
    let word = plain(word).replace(['1', '!'], "i").replace(['$', '5'], "s");
    // A word that is written twice is no better than the word.
    let parts = 1..=word.len() / 4;
    let mut parts = parts.filter(|count| word.len().is_multiple_of(*count));
    let is_common = parts.any(|count| {
        let part = word.get(..word.len() / count).unwrap_or_default();
        COMMON.contains(&part) && part.repeat(count) == word
    });
    if is_common || COMMON.contains(&word.as_str()) || COMMON.contains(&lower.as_str()) {
        return Some("is one of the passwords that are tried first");
    }
    let name = name.to_lowercase();
    let is_name = !name.is_empty() && lower.contains(&name) && lower.len() < name.len() + 5;
    is_name.then_some("must not be the name of the user")
}

fn hashed(password: &[u8], salt: &[u8]) -> Option<String> {
    let hash: PasswordHash = Argon2::default().hash_password_with_salt(password, salt).ok()?;
    Some(hash.to_string())
}

/// Whether a password has this hash. Without a hash it takes as long and answers `false`. The work
/// is counted where it is done.
fn verify(password: &[u8], hash: Option<&str>, count: &AtomicU64) -> bool {
    static DUMMY_HASH: OnceLock<Option<String>> = OnceLock::new();
    let dummy = DUMMY_HASH.get_or_init(|| hashed(b"dummy", &[0; 16]));
    let text = hash.or(dummy.as_deref()).unwrap_or_default();
    let Ok(parsed) = PasswordHash::new(text) else { return false };
    count.fetch_add(1, Ordering::Relaxed);
    Argon2::default().verify_password(password, &parsed).is_ok() && hash.is_some()
}

/// Backoff of names after wrong passwords, and the limit of passwords that are hashed at a time.
pub(crate) struct Throttle {
    places: Mutex<Vec<LoginFailures>>,
    turns: Arc<Semaphore>,
    unknown_name_at: Mutex<Option<Timestamp>>,
    /// Passwords that were hashed to see whether they are right.
    hashed: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct LoginFailures {
    failures: u32,
    until: Option<Timestamp>,
    /// Whether a client had to wait since the last try.
    waited: bool,
}

/// The client has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    seconds: i64,
    /// Whether this is the first attempt that had to wait since the last try.
    is_first: bool,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            places: Mutex::new(vec![LoginFailures::default(); PLACES]),
            turns: Arc::new(Semaphore::new(TRIES)),
            unknown_name_at: Mutex::default(),
            hashed: AtomicU64::default(),
        }
    }
}

impl Throttle {
    fn at<T>(&self, name: &[u8; 32], change: impl FnOnce(&mut LoginFailures) -> T) -> T {
        let index = usize::from(u16::from_be_bytes([name[0], name[1]])) % PLACES;
        change(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner)[index])
    }

    /// The wait of the name, if there is one. An attempt counts as failed until it has succeeded,
    /// so that concurrent attempts are counted as well.
    fn begin(&self, name: &[u8; 32], now: Timestamp) -> std::result::Result<(), Wait> {
        self.at(name, |place| {
            if let Some(until) = place.until {
                let left = until.duration_since(now);
                if left.is_positive() {
                    let is_first = !std::mem::replace(&mut place.waited, true);
                    return Err(Wait { seconds: left.as_secs() + 1, is_first });
                }
                // No attempt for long: it begins anew.
                if left < SignedDuration::from_mins(-15) {
                    *place = LoginFailures::default();
                }
            }
            place.waited = false;
            place.failures = place.failures.saturating_add(1);
            let over = place.failures.saturating_sub(FREE).min(10);
            let wait = if over == 0 { 0 } else { (1_i64 << over).min(WAIT_SECONDS_MAX) };
            place.until = now.checked_add(SignedDuration::from_secs(wait)).ok();
            Ok(())
        })
    }

    pub(crate) fn succeeded(&self, name: &[u8; 32]) {
        self.at(name, |place| *place = LoginFailures::default());
    }

    /// Whether an unknown name is to be recorded: a client can make up any number of them.
    fn notes_unknown_name(&self, now: Timestamp) -> bool {
        let mut last = self.unknown_name_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last).abs() >= UNKNOWN_NAMES_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// The hash under which the throttle counts a name.
pub(crate) fn name_of(tenant: &str, user: &str) -> [u8; 32] {
    let mut name = Sha256::new();
    name.update(tenant.as_bytes());
    name.update([0]);
    name.update(user.as_bytes());
    name.finalize().into()
}

fn too_many(seconds: i64) -> Problem {
    let wait = HeaderValue::from_str(&seconds.to_string());
    Problem::new(Code::RateLimited, "too many wrong passwords; try again later")
        .with_header(header::RETRY_AFTER, wait.unwrap_or(HeaderValue::from_static("60")))
}

impl Keys {
    /// The user of this name and password, if there is one.
    async fn proven(&self, login: &Login) -> Result<Option<Arc<EffectivePrivileges>>> {
        let name = name_of(&login.tenant, &login.user);
        self.may_try(&name, &login.tenant, &login.user)?;
        let found = self.engine.user_named(&login.tenant, &login.user).await?;
        let turn = Arc::clone(&self.throttle.turns).acquire_owned();
        let Ok(turn) = tokio::time::timeout(TURN, turn).await else {
            self.note_refusal(&login.tenant, &login.user, "THROTTLED");
            return Err(too_many(1));
        };
        let found = found.filter(|standing| !standing.user.disabled);
        let hash = found.as_ref().and_then(|standing| standing.user.password.clone());
        let password = login.password.clone();
        let throttle = Arc::clone(&self.throttle);
        let tried = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let fits = *PASSWORD_BYTES.end() >= password.len();
            fits && verify(password.as_bytes(), hash.as_deref(), &throttle.hashed)
        });
        let is_right = tried.await.unwrap_or(false);
        let found = found.filter(|_| is_right);
        match &found {
            Some(_) => self.throttle.succeeded(&name),
            None => self.note_refusal(&login.tenant, &login.user, "DENIED"),
        }
        Ok(found)
    }

    /// How many passwords were hashed to see whether they are right: one for each that was tried,
    /// whether the name is taken or not.
    pub fn passwords_hashed(&self) -> u64 {
        self.throttle.hashed.load(Ordering::Relaxed)
    }

    pub(crate) async fn log_in(&self, login: Login) -> Result<Session> {
        let wrong = || {
            Problem::new(Code::Unauthenticated, "tenant, user or password is wrong")
                .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        };
        let standing = self.proven(&login).await?.ok_or_else(wrong)?;
        let user = standing.user.id;
        if !scram::is_current(standing.user.scram.as_deref()) {
            self.remember(user, user.0, login.password, &standing.user.name);
        }
        self.open_session(&standing.user).await
    }

    /// Makes the token of a link that lets its first user in as the bootstrap administrator,
    /// within an hour. A link made before is worth nothing from then on.
    pub fn make_login_link(&self) -> String {
        let token = format!("{:032x}{:032x}", (self.random)(), (self.random)());
        let until = (self.clock)().saturating_add(LOGIN_LINK).unwrap_or(Timestamp::MIN);
        let link = LoginLink { hash: Sha256::digest(&token).into(), until };
        *self.login_link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        token
    }

    pub(crate) async fn redeem_login_link(&self, token: &str) -> Result<Session> {
        let shown: [u8; 32] = Sha256::digest(token).into();
        let is_right = {
            let mut link = self.login_link.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |link: &mut LoginLink| {
                bool::from(link.hash.ct_eq(&shown)) && (self.clock)() < link.until
            };
            link.take_if(fits).is_some()
        };
        let admin = match is_right {
            true => self.engine.node().standing(UserId::ADMIN).await?,
            false => None,
        };
        let wrong = || {
            Problem::new(Code::Unauthenticated, "login link was used before or is too old")
                .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        };
        self.open_session(&admin.ok_or_else(wrong)?.user).await
    }

    /// Makes a key of some hours for a user who has proved who they are.
    async fn open_session(&self, owner: &User) -> Result<Session> {
        let user = owner.id;
        let (key, now) = (self.new_key(), (self.clock)());
        let expires_at = now.saturating_add(SESSION).unwrap_or(now);
        let secret = key.reveal().to_owned();
        let scram = scram::verifier_of(self.engine.as_ref(), user, secret).await?;
        let kept = ApiKey {
            id: key.id(),
            tenant: owner.tenant,
            user,
            label: "login".to_owned(),
            hash: key.hash().into(),
            scram: Some(scram),
            scopes: None,
            read_only: false,
            expires_at: Some(expires_at),
            session: true,
        };
        // The store records the login with the key.
        self.engine.open_session(kept, &owner.name).await?;
        Ok(Session { key, expires_at })
    }

    /// Changes the password of a user who knows the present one. Every other session that was opened
    /// with the old one is out.
    pub(crate) async fn change_own(&self, actor: &Actor, old: String, new: String) -> Result<()> {
        if actor.read_only {
            return Err(engine::EngineError::from(Refusal::ReadOnly).into());
        }
        let standing = self.engine.node().standing(actor.user).await?;
        let standing = standing.ok_or_else(Problem::unauthenticated)?;
        check_password("new_password", &standing.user.name, &new)?;
        let (tenant, user) = (standing.tenant.name.clone(), standing.user.name.clone());
        let known = self.proven(&Login { tenant, user, password: old }).await?;
        let wrong = || Problem::field(Code::Forbidden, "old_password", "is wrong");
        let known = known.filter(|known| known.user.id == actor.user).ok_or_else(wrong)?;
        let engine = self.engine.as_ref();
        let verifier = scram::verifier_of(engine, actor.user, new.clone()).await?;
        let (old, new) = (known.user.password.as_deref(), hash(new, (self.random)()).await?);
        Ok(engine.by(actor).change_own_password(old, new, verifier).await?)
    }

    /// Counts a try of a name, or says how long it has to wait.
    pub(crate) fn may_try(&self, name: &[u8; 32], tenant: &str, user: &str) -> Result<()> {
        self.throttle.begin(name, (self.clock)()).map_err(|wait| {
            if wait.is_first {
                self.note_refusal(tenant, user, "THROTTLED");
            }
            too_many(wait.seconds)
        })
    }

    /// Keeps what the SQL interface recognises a password or a key by that is from before that interface.
    /// No request waits for it, and if it fails, the next start of the server will do as well.
    pub(crate) fn remember(&self, user: UserId, entry: Uuid, secret: String, name: &str) {
        if !self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(entry) {
            return;
        }
        let (engine, name) = (Arc::clone(&self.engine), name.to_owned());
        tokio::spawn(async move {
            if let Ok(verifier) = scram::verifier_of(engine.as_ref(), user, secret).await {
                let kept = engine.keep_verifier(entry, verifier, &name).await;
                if let Err(error) = kept {
                    tracing::warn!(%error, "a login is not prepared for SQL");
                }
            }
        });
    }

    /// Records a refusal. An unknown name is not recorded: people type
    /// passwords there.
    pub(crate) fn note_refusal(&self, tenant: &str, user: &str, outcome: &'static str) {
        let (tenant, user) = (tenant.to_owned(), user.to_owned());
        let (engine, throttle) = (Arc::clone(&self.engine), Arc::clone(&self.throttle));
        let now = (self.clock)();
        tokio::spawn(async move {
            let note = async {
                let (tenant, actor, details) = match engine.user_named(&tenant, &user).await? {
                    Some(found) => (found.user.tenant, found.user.name.clone(), String::new()),
                    None if !throttle.notes_unknown_name(now) => return Ok(()),
                    None => {
                        let details = json!({ "problem": "unknown name" }).to_string();
                        (TenantId::CLUSTER, String::new(), details)
                    }
                };
                let outcome = outcome.to_owned();
                let kind = Kind::Login;
                let event = Event { tenant, actor, kind, job: None, run: None, outcome, details };
                engine.node().record(event).await
            };
            if let Err(error) = note.await {
                tracing::error!(%error, "a refused login could not be recorded");
            }
        });
    }

    fn new_key(&self) -> Key {
        Key::drawn(self.random.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_guessed_first_are_refused() {
        for password in [
            "short",
            "12345678",
            "87654321",
            "abcdefgh",
            "ABCDEFGH1",
            "aaaaaaaa",
            "11111112",
            "          ",
            "password",
            "Password1",
            "P@ssw0rd!!!",
            "passwordpassword",
            "admin123",
            "adminadmin1",
            "qwertyuiop",
            "letmein1",
            "welcome2024",
            "trustno1",
            "barbara1",
            "Barbara99",
            &"x1y2z".repeat(60),
        ] {
            assert!(check_password("password", "barbara", password).is_err(), "{password}");
        }
        for password in ["correct horse", "tr0ub4dor&3", "barbara's long one", "zq9-mt4-vk7"] {
            assert!(check_password("password", "barbara", password).is_ok(), "{password}");
        }
    }

    #[test]
    fn a_password_is_recognised_by_its_hash() {
        let hash = hashed(b"correct horse", &[7; 16]).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$"), "{hash}");
        let count = AtomicU64::default();
        let verify = |password: &[u8], hash| verify(password, hash, &count);
        assert!(verify(b"correct horse", Some(&hash)));
        assert!(!verify(b"correct hors", Some(&hash)));
        assert!(!verify(b"dummy", None));
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(!verify(b"x", Some("not a hash")));
        // An unknown name costs what a known name costs.
        let cost = |hash: &str| hash.split('$').nth(3).map(str::to_owned);
        assert_eq!(cost(&hash), cost(&hashed(b"dummy", &[0; 16]).unwrap()));
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
            let Wait { seconds: left, is_first } = throttle.begin(&name, now).unwrap_err();
            assert!(is_first);
            // Only the first gets a row.
            for _ in 0..10 {
                let again = throttle.begin(&name, now);
                assert_eq!(again, Err(Wait { seconds: left, is_first: false }));
            }
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

    #[test]
    fn unknown_names_are_recorded_once_a_minute() {
        let throttle = Throttle::default();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let noted =
            |second: i64| throttle.notes_unknown_name(start + SignedDuration::from_secs(second));
        let seconds: Vec<_> = (0..200).filter(|second| noted(*second)).collect();
        assert_eq!(seconds, [0, 60, 120, 180]);
    }
}
