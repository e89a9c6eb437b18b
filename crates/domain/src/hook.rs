//! Hooks: addresses at which programs elsewhere trigger a job, with a secret.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{JobId, UserId};

/// How long the secret before a rotation is accepted.
pub const OLD_SECRET_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// How far the time of a delivery may be from the server's.
pub const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// The default of `requests_per_second`.
pub const RATE_DEFAULT: u32 = 10;

/// The greatest rate of a hook.
pub const RATE_MAX: u32 = 1_000;

/// The most parameters that a hook maps.
const MAPPED_MAX: usize = 100;

/// How a delivery proves that its sender knows the secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HookScheme {
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[default]
    Standard,
    /// `X-Hub-Signature-256`, as GitHub signs.
    Github,
    /// The secret itself, as a bearer token.
    Token,
}

impl HookScheme {
    /// Every scheme.
    pub const ALL: [HookScheme; 3] = [HookScheme::Standard, HookScheme::Github, HookScheme::Token];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            HookScheme::Standard => "STANDARD",
            HookScheme::Github => "GITHUB",
            HookScheme::Token => "TOKEN",
        }
    }
}

/// A secret of a hook: the name under which it is sealed, and until when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSecret {
    /// The name of the sealed value.
    pub name: String,
    /// Until when; none for the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The stored properties of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookBody {
    /// The job that it triggers.
    pub job: JobId,
    /// Creator: runs are triggered with the rights of this user.
    pub user: UserId,
    /// How deliveries are checked.
    #[serde(default)]
    pub scheme: HookScheme,
    /// The present secret, and the one before while it is accepted.
    pub secrets: Vec<HookSecret>,
    /// Where parameters are in the body of a delivery: JSON pointers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// How many deliveries it accepts in a second.
    pub requests_per_second: u32,
    /// Whether it refuses every delivery.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl HookBody {
    /// The field that is invalid, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=RATE_MAX).contains(&self.requests_per_second) {
            let problem = format!("must be 1 to {RATE_MAX}");
            return Err(("requests_per_second", problem));
        }
        if self.parameters.len() > MAPPED_MAX {
            return Err(("parameters", format!("a hook maps at most {MAPPED_MAX} parameters")));
        }
        let wrong = |pointer: &&String| !pointer.is_empty() && !pointer.starts_with('/');
        if let Some(pointer) = self.parameters.values().find(wrong) {
            let problem = format!(
                "{pointer:?} is not a JSON pointer: it is empty for the whole body, or begins with a \
                 slash, like /repository/name"
            );
            return Err(("parameters", problem));
        }
        Ok(())
    }

    /// The secrets that are accepted at a time, the present one first.
    pub fn accepted_secrets(&self, now: Timestamp) -> impl Iterator<Item = &HookSecret> {
        self.secrets.iter().filter(move |secret| secret.until.is_none_or(|until| now < until))
    }

    /// Puts a new secret before the present one, which is accepted for a while.
    pub fn rotate(&mut self, name: String, now: Timestamp) {
        let until = now.saturating_add(OLD_SECRET_KEPT).unwrap_or(Timestamp::MAX);
        self.secrets.retain(|secret| secret.until.is_none());
        for secret in &mut self.secrets {
            secret.until = Some(until);
        }
        self.secrets.insert(0, HookSecret { name, until: None });
    }

    /// The parameters of a run, as JSON; none if the body has none of them.
    pub fn map(&self, body: &Value) -> Option<String> {
        let values = self.parameters.iter();
        let values =
            values.filter_map(|(name, at)| Some((name.clone(), body.pointer(at)?.clone())));
        let values: Map<String, Value> = values.collect();
        (!values.is_empty()).then(|| Value::Object(values).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn body() -> HookBody {
        HookBody {
            job: JobId(Uuid::from_u128(1)),
            user: UserId(Uuid::from_u128(2)),
            scheme: HookScheme::Standard,
            secrets: vec![HookSecret { name: "a".to_owned(), until: None }],
            parameters: BTreeMap::new(),
            requests_per_second: RATE_DEFAULT,
            disabled: false,
            description: None,
        }
    }

    #[test]
    fn two_secrets_are_accepted_for_a_while_after_a_rotation() {
        let mut hook = body();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let accepted = |hook: &HookBody, at: Timestamp| -> Vec<String> {
            hook.accepted_secrets(at).map(|secret| secret.name.clone()).collect()
        };
        hook.rotate("b".to_owned(), now);
        assert_eq!(accepted(&hook, now), ["b", "a"]);
        assert_eq!(accepted(&hook, now + OLD_SECRET_KEPT), ["b"]);
        hook.rotate("c".to_owned(), now);
        assert_eq!(accepted(&hook, now), ["c", "b"], "the oldest goes at once");
    }

    #[test]
    fn pointers_find_parameters() {
        let mut hook = body();
        let sent = json!({"repository": {"name": "x"}, "sizes": [1, 2]});
        assert_eq!(hook.map(&sent), None);
        for (name, pointer) in
            [("repo", "/repository/name"), ("size", "/sizes/1"), ("gone", "/nothing")]
        {
            hook.parameters.insert(name.into(), pointer.into());
        }
        assert_eq!(hook.map(&sent).unwrap(), r#"{"repo":"x","size":2}"#);
        hook.parameters = [("all".to_owned(), String::new())].into();
        assert_eq!(hook.map(&json!([1])).unwrap(), r#"{"all":[1]}"#);
        assert!(hook.check().is_ok());
        hook.parameters.insert("bad".into(), "repository".into());
        assert_eq!(hook.check().unwrap_err().0, "parameters");
        hook = HookBody { requests_per_second: 0, ..body() };
        assert_eq!(hook.check().unwrap_err().0, "requests_per_second");
    }
}
