//! How often callers may ask: a bucket of requests for each key, and a bucket of failures for each
//! address that comes without a valid one.
//!
//! A bucket is one instant: the time at which it will be full again. Taking a request moves that
//! time on by what one request takes to come back; when it lies further ahead than the whole
//! bucket takes to fill, nothing is left. A bucket that is full is as good as none, so it can be
//! forgotten.
//!
//! ```text
//!   now ├──────── what was taken ────────┤ full again
//!       ├───────────────── burst / rate ─────────────────┤ the furthest that it may lie
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use jiff::Timestamp;
use uuid::Uuid;

use crate::problem::{Code, Problem, Result};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// The most buckets that are remembered of a kind.
const BUCKETS_MAX: usize = 16_384;

const SECOND_NS: i128 = 1_000_000_000;

/// How often something may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// How often a second in the long run; 0 for no limit.
    pub per_second: u32,
    /// How often at once after a pause; at least 1.
    pub burst: u32,
}

/// The address that a request came from, as the listener saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub IpAddr);

/// The identity whose requests share a token bucket: a key, or a user without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asker(pub Uuid);

/// Token buckets by key, by address and by hook.
#[derive(Default)]
pub(crate) struct Limits {
    keys: Buckets<Asker>,
    unauthenticated: Buckets<IpAddr>,
    hooks: Buckets<Uuid>,
}

impl Limits {
    /// Counts a request with a valid key; answers what is left in its bucket, for the headers of
    /// the response.
    pub fn admit(&self, who: &Asker, rate: Rate, now: Timestamp) -> Result<Option<Left>> {
        let Some(taken) = self.keys.take(who, rate, now) else { return Ok(None) };
        match taken {
            Taken::Yes(left) => Ok(Some(left)),
            Taken::No(left) => Err(left.refusal("requests come too fast for this key")),
        }
    }

    /// A password is tried. It counts as wrong until [`Limits::was_right`]: a crowd that comes
    /// at once is counted too.
    pub fn try_password(&self, caller: Option<Caller>, rate: Rate, now: Timestamp) -> Result<()> {
        let Some(Caller(address)) = caller else { return Ok(()) };
        match self.unauthenticated.take(&neighbourhood(address), rate, now) {
            Some(Taken::No(left)) => Err(left.refusal("too many wrong passwords")),
            _ => Ok(()),
        }
    }

    /// The password was right.
    pub fn was_right(&self, caller: Option<Caller>, rate: Rate) {
        if let Some(Caller(address)) = caller {
            self.unauthenticated.refund(&neighbourhood(address), rate);
        }
    }

    /// A delivery at a hook whose signature is right.
    pub fn admit_delivery(&self, hook: Uuid, rate: Rate, now: Timestamp) -> Result<()> {
        match self.hooks.take(&hook, rate, now) {
            Some(Taken::No(left)) => Err(left.refusal("deliveries come too fast for this hook")),
            _ => Ok(()),
        }
    }

    /// The answer to a request without a valid key.
    pub fn refuse(&self, caller: Option<Caller>, rate: Rate, now: Timestamp) -> Problem {
        let place = caller.map(|Caller(address)| neighbourhood(address));
        match place.and_then(|place| self.unauthenticated.take(&place, rate, now)) {
            Some(Taken::No(left)) => left.refusal("too many requests without a valid key"),
            _ => Problem::unauthenticated(),
        }
    }
}

/// An owner of one address of an IPv6 network has all of them.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// Tokens that are left in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    rate: Rate,
    /// Whole requests.
    requests: u32,
    /// Until the next one can be taken.
    wait_ns: i128,
    /// Until it is full.
    full_in_ns: i128,
}

impl Left {
    /// Tells the caller.
    pub fn tell(&self, headers: &mut HeaderMap) {
        for (name, value) in self.headers() {
            headers.insert(name, value);
        }
    }

    fn headers(&self) -> [(HeaderName, HeaderValue); 2] {
        let Rate { per_second, burst } = self.rate;
        let window = burst.div_ceil(per_second.max(1));
        let policy = format!("\"default\";q={burst};w={window}");
        let state = format!("\"default\";r={};t={}", self.requests, seconds(self.full_in_ns));
        let value =
            |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        [(POLICY, value(policy)), (STATE, value(state))]
    }

    fn refusal(&self, what: &str) -> Problem {
        let wait = seconds(self.wait_ns).max(1);
        let text = format!("{what}; try again in {wait} s");
        let problem = Problem::new(Code::RateLimited, text)
            .with_header(header::RETRY_AFTER, HeaderValue::from(wait));
        self.headers()
            .into_iter()
            .fold(problem, |problem, (name, value)| problem.with_header(name, value))
    }
}

/// Whole seconds, never too few.
fn seconds(ns: i128) -> u64 {
    u64::try_from((ns + SECOND_NS - 1) / SECOND_NS).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Yes(Left),
    No(Left),
}

/// Buckets by whose they are: when each will be full again, in nanoseconds.
struct Buckets<K> {
    full_at: Mutex<HashMap<K, i128>>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Buckets { full_at: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    /// Takes one out of a bucket; none when there is no limit.
    fn take(&self, whose: &K, rate: Rate, now: Timestamp) -> Option<Taken> {
        if rate.per_second == 0 {
            return None;
        }
        let now = now.as_nanosecond();
        let one = SECOND_NS / i128::from(rate.per_second);
        let all = one * i128::from(rate.burst.max(1));
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back must not make a client wait for what it was set back by.
        let before = buckets.get(whose).map_or(now, |full_at| *full_at).clamp(now, now + all);
        let after = before + one;
        let left = |full_at: i128| Left {
            rate,
            requests: u32::try_from((now + all - full_at) / one).unwrap_or(0),
            wait_ns: (full_at + one - all - now).max(0),
            full_in_ns: full_at - now,
        };
        if after > now + all {
            buckets.insert(whose.clone(), before);
            return Some(Taken::No(left(before)));
        }
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(whose) {
            forget(&mut buckets, now);
        }
        buckets.insert(whose.clone(), after);
        Some(Taken::Yes(left(after)))
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Puts one back.
    fn refund(&self, whose: &K, rate: Rate) {
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full_at) = buckets.get_mut(whose).filter(|_| rate.per_second > 0) {
            *full_at -= SECOND_NS / i128::from(rate.per_second);
        }
    }
}

/// Makes room: full buckets go, and then those that are nearest to it, until a quarter is free.
fn forget<K: Clone + Eq + Hash>(buckets: &mut HashMap<K, i128>, now: i128) {
    buckets.retain(|_, full_at| *full_at > now);
    let keep = BUCKETS_MAX / 4 * 3;
    if buckets.len() > keep {
        let mut times: Vec<i128> = buckets.values().copied().collect();
        let surplus = times.len() - keep;
        let (_, last_to_go, _) = times.select_nth_unstable(surplus - 1);
        let last_to_go = *last_to_go;
        let mut surplus = surplus;
        buckets.retain(|_, full_at| {
            let goes = *full_at <= last_to_go && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2, burst: 3 };

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
    }

    /// Tokens that are left after each request; the wait in milliseconds, negative, if refused.
    fn play(rate: Rate, times_ms: &[i64]) -> Vec<i64> {
        let buckets = Buckets::default();
        let take = |ms: &i64| match buckets.take(&"someone", rate, at(*ms)) {
            Some(Taken::Yes(left)) => i64::from(left.requests),
            Some(Taken::No(left)) => -i64::try_from(left.wait_ns / 1_000_000).unwrap(),
            None => i64::MAX,
        };
        times_ms.iter().map(take).collect()
    }

    #[test]
    fn a_bucket_empties_and_fills_again() {
        for (times, expected) in [
            (&[0, 0, 0, 0, 0][..], &[2, 1, 0, -500, -500][..]),
            (&[0, 0, 0, 499, 500, 500], &[2, 1, 0, -1, 0, -500]),
            // Never more than the burst, however long the pause.
            (&[0, 0, 0, 3_600_000, 3_600_000], &[2, 1, 0, 2, 1]),
            // At the sustained rate it goes on for ever.
            (&[0, 500, 1_000, 1_500, 2_000], &[2, 2, 2, 2, 2]),
            // A clock that is set back makes no client wait longer than for one request.
            (&[0, 0, 0, -3_600_000, -3_599_500], &[2, 1, 0, -500, 0]),
        ] {
            assert_eq!(play(RATE, times), expected, "{times:?}");
        }
        assert_eq!(play(Rate { per_second: 0, burst: 1 }, &[0, 0]), [i64::MAX, i64::MAX]);
        assert_eq!(play(Rate { per_second: 1, burst: 0 }, &[0, 0]), [0, -1_000]);
    }

    #[test]
    fn a_right_password_costs_no_attempt() {
        let limits = Limits::default();
        let caller = Some(Caller("192.0.2.1".parse().unwrap()));
        for _ in 0..100 {
            assert!(limits.try_password(caller, RATE, at(0)).is_ok());
            limits.was_right(caller, RATE);
        }
        let tried = (0..100).filter(|_| limits.try_password(caller, RATE, at(0)).is_ok()).count();
        assert_eq!(tried, 3);
        let other = Some(Caller("192.0.2.2".parse().unwrap()));
        assert!(limits.try_password(other, RATE, at(0)).is_ok());
        assert!(limits.try_password(None, RATE, at(0)).is_ok());
    }

    #[test]
    fn strangers_without_number_find_a_memory_with_an_end() {
        let buckets = Buckets::default();
        let taken = |n: usize| buckets.take(&n, RATE, at(0));
        // A client that exceeds its rate is remembered among many that sent one request.
        for _ in 0..3 {
            taken(0);
        }
        for n in 1..4 * BUCKETS_MAX {
            taken(n);
        }
        assert!(buckets.full_at.lock().unwrap().len() <= BUCKETS_MAX);
        assert!(matches!(taken(0), Some(Taken::No(_))));
        // Buckets that are full again are evicted first.
        buckets.take(&usize::MAX, RATE, at(60_000));
        for n in 0..BUCKETS_MAX {
            buckets.take(&n, RATE, at(60_000));
        }
        assert!(buckets.full_at.lock().unwrap().len() <= BUCKETS_MAX);
    }

    #[test]
    fn a_network_of_version_six_is_one_stranger() {
        let place = |text: &str| neighbourhood(text.parse().unwrap());
        assert_eq!(place("2001:db8::1"), place("2001:db8::ffff:1"));
        assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
        assert_ne!(place("192.0.2.1"), place("192.0.2.2"));
        assert_eq!(place("::ffff:192.0.2.1"), place("192.0.2.1"));
    }
}
