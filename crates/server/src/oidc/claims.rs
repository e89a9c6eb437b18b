//! Maps the claims of a token to a tenant, a user and roles.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Checked, Issuer};

/// How far the clock of an issuer may be off.
const LEEWAY: SignedDuration = SignedDuration::from_secs(30);

/// The longest name that an issuer may have for a user.
const SUBJECT_BYTES_MAX: usize = 255;

/// Roles of one token at most.
const ROLES_MAX: usize = 64;

/// How claims become a tenant and roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Accepted audiences: a token must name one of them.
    pub audiences: Vec<String>,
    /// The claim with the name of the tenant; empty for none.
    pub tenant_claim: String,
    /// The tenant of tokens without one.
    pub tenant: String,
    /// The claim with the roles: a list of words, or words with spaces between them.
    pub roles_claim: String,
    /// The role here of each word there, `*` for all; the one of the same name when empty.
    pub roles: Vec<(String, String)>,
}

impl Mapping {
    pub(super) fn read(
        &self,
        claims: &Value,
        issuer: &Issuer,
        mark: [u8; 32],
        now: Timestamp,
    ) -> Result<Checked, &'static str> {
        if claims["iss"].as_str() != Some(&issuer.url) {
            return Err("its issuer is another one");
        }
        let is_ours = |name: &str| self.audiences.iter().any(|audience| audience == name);
        let meant = match &claims["aud"] {
            Value::String(name) => is_ours(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).any(is_ours),
            _ => false,
        };
        if !meant {
            return Err("it is for another audience");
        }
        let until = instant(&claims["exp"]).ok_or("it has no end")?;
        if now >= until.saturating_add(LEEWAY).unwrap_or(until) {
            return Err("it has ended");
        }
        let soon = now.saturating_add(LEEWAY).unwrap_or(now);
        let begins = match &claims["nbf"] {
            Value::Null => None,
            time => Some(instant(time).ok_or("its beginning cannot be read")?),
        };
        let issued_at = instant(&claims["iat"]).ok_or("it does not say when it was made")?;
        if issued_at > soon || begins.is_some_and(|begins| begins > soon) {
            return Err("it has not begun");
        }
        let subject = claims["sub"].as_str().unwrap_or_default();
        let is_plain = (1..=SUBJECT_BYTES_MAX).contains(&subject.len())
            && subject.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_plain {
            return Err("its subject is missing, or not plain ASCII");
        }
        let holder = engine::Holder {
            name: format!("{}#{subject}", issuer.url),
            tenant: self.tenant_of(claims, issuer)?,
            roles: self.roles_of(claims),
            issued_at,
            mark,
        };
        Ok(Checked { holder, until })
    }

    fn tenant_of(&self, claims: &Value, issuer: &Issuer) -> Result<String, &'static str> {
        if let Some(tenant) = &issuer.tenant {
            return Ok(tenant.clone());
        }
        if self.tenant_claim.is_empty() {
            return Ok(self.tenant.clone());
        }
        match claim(claims, &self.tenant_claim) {
            Some(Value::String(name)) => Ok(name.clone()),
            None if !self.tenant.is_empty() => Ok(self.tenant.clone()),
            _ => Err("it names no tenant"),
        }
    }

    fn roles_of(&self, claims: &Value) -> Vec<String> {
        let said: Vec<&str> = match claim(claims, &self.roles_claim) {
            Some(Value::String(words)) => words.split_whitespace().collect(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut roles: Vec<String> = if self.roles.is_empty() {
            said.iter().map(|word| (*word).to_owned()).collect()
        } else {
            let applies = |word: &str| word == "*" || said.contains(&word);
            let named = self.roles.iter().filter(|(word, _)| applies(word));
            named.map(|(_, role)| role.clone()).collect()
        };
        roles.sort();
        roles.dedup();
        roles.truncate(ROLES_MAX);
        roles
    }
}

/// A claim by its name, or by the names on the way to it with dots between them.
fn claim<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    let found = claims
        .get(name)
        .or_else(|| name.split('.').try_fold(claims, |claims, part| claims.get(part)));
    found.filter(|value| !value.is_null())
}

/// A time of a token: seconds, perhaps with a fraction.
fn instant(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))?;
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping() -> Mapping {
        Mapping {
            audiences: vec!["punctual".into(), "api://punctual".into()],
            tenant_claim: "org".into(),
            tenant: String::new(),
            roles_claim: "realm.roles".into(),
            roles: Vec::new(),
        }
    }

    fn issuer() -> Issuer {
        Issuer { url: "https://id.example.com".into(), tenant: None }
    }

    fn claims(changes: Value) -> Value {
        let mut claims = json!({
            "iss": "https://id.example.com", "aud": "punctual", "sub": "ann|7", "exp": 2_000,
            "iat": 1_000, "org": "acme", "realm": {"roles": ["b", "a", "a"]},
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    fn read(mapping: &Mapping, changes: Value, now: i64) -> Result<Checked, &'static str> {
        let now = Timestamp::from_second(now).unwrap();
        mapping.read(&claims(changes), &issuer(), [0; 32], now)
    }

    #[test]
    fn only_a_whole_token_for_us_and_now_counts() {
        for (changes, now, expected) in [
            (json!({}), 1_500, ""),
            (json!({"aud": ["x", "api://punctual"]}), 1_500, ""),
            (json!({"iss": "https://id.example.com/"}), 1_500, "its issuer is another one"),
            (json!({"aud": "punctual2"}), 1_500, "it is for another audience"),
            (json!({"aud": []}), 1_500, "it is for another audience"),
            (json!({"aud": null}), 1_500, "it is for another audience"),
            (json!({"aud": {"punctual": 1}}), 1_500, "it is for another audience"),
            (json!({"exp": null}), 1_500, "it has no end"),
            (json!({"exp": "2000"}), 1_500, "it has no end"),
            (json!({}), 2_029, ""),
            (json!({}), 2_030, "it has ended"),
            (json!({}), 970, ""),
            (json!({}), 969, "it has not begun"),
            (json!({"iat": null}), 1_500, "it does not say when it was made"),
            (json!({"nbf": 1_530}), 1_500, ""),
            (json!({"nbf": 1_531}), 1_500, "it has not begun"),
            (json!({"nbf": "x"}), 1_500, "its beginning cannot be read"),
            (json!({"sub": ""}), 1_500, "its subject is missing, or not plain ASCII"),
            (json!({"sub": "a\nb"}), 1_500, "its subject is missing, or not plain ASCII"),
            (json!({"sub": "\u{202e}a"}), 1_500, "its subject is missing, or not plain ASCII"),
            (json!({"sub": "a".repeat(256)}), 1_500, "its subject is missing, or not plain ASCII"),
            (json!({"org": null}), 1_500, "it names no tenant"),
            (json!({"org": ["acme"]}), 1_500, "it names no tenant"),
        ] {
            let problem = read(&mapping(), changes.clone(), now).err().unwrap_or_default();
            assert_eq!(problem, expected, "{changes} at {now}");
        }
    }

    #[test]
    fn claims_become_a_tenant_and_roles() {
        let holder = |mapping: &Mapping, changes| {
            let holder = read(mapping, changes, 1_500).ok().unwrap().holder;
            (holder.tenant, holder.roles.join(" "))
        };
        let plain = mapping();
        assert_eq!(holder(&plain, json!({})), ("acme".into(), "a b".into()));
        let words = json!({"realm": {"roles": "x  y"}});
        assert_eq!(holder(&plain, words).1, "x y");
        let mapped = Mapping {
            roles: vec![("a".into(), "developers".into()), ("*".into(), "guests".into())],
            tenant: "others".into(),
            ..mapping()
        };
        assert_eq!(holder(&mapped, json!({})).1, "developers guests");
        let stranger = json!({"realm": 7, "org": null});
        assert_eq!(holder(&mapped, stranger), ("others".into(), "guests".into()));
        // A claim whose name has dots is found before a way.
        let dotted = Mapping { roles_claim: "https://example.com/roles".into(), ..mapping() };
        assert_eq!(holder(&dotted, json!({"https://example.com/roles": ["z"]})).1, "z");
        // An issuer of one tenant leads to no other.
        let issuer = Issuer { tenant: Some("globex".into()), ..issuer() };
        let now = Timestamp::from_second(1_500).unwrap();
        let read = plain.read(&claims(json!({})), &issuer, [0; 32], now);
        let holder = read.ok().unwrap().holder;
        assert_eq!(
            (holder.tenant, holder.name),
            ("globex".into(), "https://id.example.com#ann|7".into())
        );
    }
}
