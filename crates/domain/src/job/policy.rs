//! Simple policies of a job: fields whose value is a word, a duration, a count, a text, a flag or a
//! list of words. Their kind is all that an interface needs to read and show them.

use std::fmt;

use jiff::SignedDuration;

use super::{Definition, LostAnswer, OnCompletion, OnLost, Overlap};
use crate::cluster::Class;
use crate::dependency::DependencyRule;
use crate::schedule::CatchUpPolicy;

/// How a policy is read, shown and stored.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The kind of its values.
    pub kind: PolicyKind,
    /// Whether it may have no value.
    pub is_optional: bool,
    /// The least and the largest count; of a list, of its members.
    pub range: (Option<u32>, Option<u32>),
    /// The thing that a text names, if it is a name, or a member of the list.
    pub noun: &'static str,
    /// When responses show it.
    pub shown: Shown,
    /// The default in words, where it depends on more than the policy.
    pub default_words: Option<&'static str>,
    /// The value of a definition.
    pub get: fn(&Definition) -> PolicyValue,
    /// Gives a definition a value. A value of another kind changes nothing, and the result is false.
    pub set: fn(&mut Definition, PolicyValue) -> bool,
}

/// The kind of the values of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyKind {
    /// One of a few words.
    Word(&'static WordType),
    /// A duration.
    Duration,
    /// A whole number, at most this one.
    Count(u32),
    /// A text.
    Text,
    /// TRUE or FALSE.
    Flag,
    /// Words without an order.
    List,
}

/// The words of a policy.
#[derive(Debug, PartialEq)]
pub struct WordType {
    /// The name of the type in the description of the REST API.
    pub name: &'static str,
    /// Its description there.
    pub about: &'static str,
    /// The words, as every interface writes them.
    pub words: &'static [&'static str],
}

/// When responses show a policy that has a value.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// Always.
    Always,
    /// If it differs from the default.
    UnlessDefault,
    /// If the definition has a use for it.
    If(fn(&Definition) -> bool),
}

/// A value of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyValue {
    /// None.
    Absent,
    /// A word of its [`WordType`].
    Word(&'static str),
    /// A duration.
    Duration(SignedDuration),
    /// A whole number.
    Count(u32),
    /// A text.
    Text(String),
    /// TRUE or FALSE.
    Flag(bool),
    /// Words.
    List(Vec<String>),
}

impl Policy {
    /// Whether a definition has another value than the default one.
    pub fn differs(&self, definition: &Definition, default: &Definition) -> bool {
        (self.get)(definition) != (self.get)(default)
    }

    /// The value that a response shows.
    pub fn shown(&self, definition: &Definition, default: &Definition) -> Option<PolicyValue> {
        let is_shown = match self.shown {
            Shown::Always => true,
            Shown::UnlessDefault => self.differs(definition, default),
            Shown::If(has_use) => has_use(definition),
        };
        is_shown.then(|| (self.get)(definition)).filter(|value| *value != PolicyValue::Absent)
    }
}

/// A short text: `SKIP`, `1h30m`, `none`.
impl fmt::Display for PolicyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyValue::Absent => f.write_str("none"),
            PolicyValue::Word(word) => f.write_str(word),
            PolicyValue::Duration(length) => f.write_str(&format!("{length:#}").replace(' ', "")),
            PolicyValue::Count(count) => write!(f, "{count}"),
            PolicyValue::Text(text) => f.write_str(text),
            PolicyValue::Flag(is_set) => write!(f, "{is_set}"),
            PolicyValue::List(words) if words.is_empty() => f.write_str("none"),
            PolicyValue::List(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// A type of a field of [`Definition`] that a [`PolicyValue`] can hold.
pub(super) trait PolicyType: Sized {
    const KIND: PolicyKind;
    const IS_OPTIONAL: bool = false;

    fn to_value(&self) -> PolicyValue;
    fn from_value(value: PolicyValue) -> Option<Self>;
}

/// The kind of the field that a function reads.
pub(super) const fn kind_of<T: PolicyType>(_: fn(&Definition) -> &T) -> (PolicyKind, bool) {
    (T::KIND, T::IS_OPTIONAL)
}

/// The policy of a field of [`Definition`].
macro_rules! policy {
    ($($path:ident).+) => {{
        let (kind, is_optional) = kind_of(|it| &it.$($path).+);
        Policy {
            kind,
            is_optional,
            range: (None, None),
            noun: "",
            shown: Shown::Always,
            default_words: None,
            get: |it| it.$($path).+.to_value(),
            set: |it, value| match PolicyType::from_value(value) {
                Some(value) => {
                    it.$($path).+ = value;
                    true
                }
                None => false,
            },
        }
    }};
}
pub(super) use policy;

macro_rules! policy_types {
    ($($type:ty: $variant:ident, $kind:expr, $to:expr, $from:expr;)*) => {
        $(impl PolicyType for $type {
            const KIND: PolicyKind = $kind;

            fn to_value(&self) -> PolicyValue {
                let to: fn(&$type) -> _ = $to;
                PolicyValue::$variant(to(self))
            }

            fn from_value(value: PolicyValue) -> Option<Self> {
                let from: fn(_) -> Option<$type> = $from;
                match value {
                    PolicyValue::$variant(value) => from(value),
                    _ => None,
                }
            }
        })*
    };
}

policy_types! {
    SignedDuration: Duration, PolicyKind::Duration, |it| *it, Some;
    u32: Count, PolicyKind::Count(u32::MAX), |it| *it, Some;
    u8: Count, PolicyKind::Count(u8::MAX as u32), |it| u32::from(*it), |it: u32| it.try_into().ok();
    String: Text, PolicyKind::Text, String::clone, Some;
    bool: Flag, PolicyKind::Flag, |it| *it, Some;
    Vec<String>: List, PolicyKind::List, Vec::clone, Some;
}

impl<T: PolicyType> PolicyType for Option<T> {
    const KIND: PolicyKind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn to_value(&self) -> PolicyValue {
        self.as_ref().map_or(PolicyValue::Absent, T::to_value)
    }

    fn from_value(value: PolicyValue) -> Option<Self> {
        match value {
            PolicyValue::Absent => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

macro_rules! words {
    ($type:ty, $name:literal, $about:literal { $($variant:ident $word:literal),* }) => {
        impl $type {
            /// Every value.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The name in every interface.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }
        }

        impl PolicyType for $type {
            const KIND: PolicyKind = PolicyKind::Word(&WordType {
                name: $name,
                about: $about,
                words: &[$($word),*],
            });

            fn to_value(&self) -> PolicyValue {
                PolicyValue::Word(self.name())
            }

            fn from_value(value: PolicyValue) -> Option<Self> {
                Self::ALL.into_iter().find(|it| PolicyValue::Word(it.name()) == value)
            }
        }
    };
}

words!(Class, "JobClass", "Where and how a job is executed." {
    LocalSafe "LOCAL_SAFE", LeaderOnly "LEADER_ONLY", QuorumRequired "QUORUM_REQUIRED"
});
words!(CatchUpPolicy, "CatchUp", "The policy for missed times." {
    None "NONE", Last "LAST", All "ALL"
});
words!(DependencyRule, "DependencyRule",
    "How many of the jobs that a job depends on must have ended." { All "ALL", Any "ANY" });
words!(Overlap, "Overlap", "The policy when a run is due and earlier ones have not ended." {
    Allow "ALLOW", Skip "SKIP", Queue "QUEUE", CancelPrevious "CANCEL_PREVIOUS"
});
words!(OnCompletion, "OnCompletion", "The policy for a one-time job when its run has ended." {
    Preserve "PRESERVE", Drop "DROP"
});
words!(OnLost, "OnLost", "The policy for a run whose node was lost." {
    Retry "RETRY", Fail "FAIL", Ask "ASK"
});
words!(LostAnswer, "LostAnswer",
    "The decision about a run that is HELD because its node was lost." {
    Retry "RETRY", Fail "FAIL", Complete "COMPLETE"
});
