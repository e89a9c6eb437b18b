//! The words of a cluster: what a node is and does, and where a job may be executed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeRole {
    /// It plans, takes over from silent nodes, acknowledges and may lead.
    Scheduler,
    /// It executes.
    Agent,
}

impl NodeRole {
    /// Every role.
    pub const ALL: [NodeRole; 2] = [NodeRole::Scheduler, NodeRole::Agent];

    /// The name at every door.
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Scheduler => "SCHEDULER",
            NodeRole::Agent => "AGENT",
        }
    }

    /// The role of a word, whatever its case; none for a word that is no role.
    pub fn of(name: &str) -> Option<Self> {
        NodeRole::ALL.into_iter().find(|role| role.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a node stands to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// It does its part.
    Active,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// It fell silent. It still counts as registered: it may come back.
    Down,
    /// It left, was removed, or came back as another one.
    Gone,
}

impl NodeState {
    /// The name at every door.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Active => "ACTIVE",
            NodeState::Draining => "DRAINING",
            NodeState::Down => "DOWN",
            NodeState::Gone => "GONE",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where and how a job is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Class {
    /// By any node that executes, without asking anybody.
    #[default]
    LocalSafe,
    /// By the node that leads, and by no other.
    LeaderOnly,
    /// By any node that executes, when a majority of the schedulers has acknowledged the run.
    QuorumRequired,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 3] = [Class::LocalSafe, Class::LeaderOnly, Class::QuorumRequired];

    /// The name at every door.
    pub fn name(self) -> &'static str {
        match self {
            Class::LocalSafe => "LOCAL_SAFE",
            Class::LeaderOnly => "LEADER_ONLY",
            Class::QuorumRequired => "QUORUM_REQUIRED",
        }
    }

    /// Whether it is the one that nobody has to ask for.
    pub fn is_default(&self) -> bool {
        *self == Class::LocalSafe
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The longest key or value of a label.
pub const LABEL_LENGTH_MAX: usize = 63;

/// The most labels of a node or a job.
pub const LABELS_MAX: usize = 32;

/// What is known about a node's place, or asked of it: `zone = eu`, `disk = ssd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

/// Labels that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Something else than `key=value`.
    #[error("{0:?} is not of the form key=value")]
    Form(String),
    /// A key or a value with other characters, or too many of them.
    #[error(
        "{0:?} must have 1 to {LABEL_LENGTH_MAX} letters, digits, dots, hyphens, underscores or slashes"
    )]
    Word(String),
    /// The same key twice.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// More than anybody needs.
    #[error("there are more than {LABELS_MAX} labels")]
    TooMany,
}

impl Labels {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each as `key=value`, in the order of the keys.
    pub fn pairs(&self) -> Vec<String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// The labels of such pairs; what is none is left out.
    pub fn of_pairs(pairs: &[String]) -> Self {
        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
        Labels(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Whether these are among others.
    pub fn within(&self, others: &Labels) -> bool {
        self.0.iter().all(|(key, value)| others.0.get(key) == Some(value))
    }

    /// Whether every key and value is one that can be.
    pub fn check(&self) -> Result<(), LabelError> {
        if self.0.len() > LABELS_MAX {
            return Err(LabelError::TooMany);
        }
        let word = |text: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
            (1..=LABEL_LENGTH_MAX).contains(&text.len()) && text.chars().all(fits)
        };
        let mut words = self.0.iter().flat_map(|(key, value)| [key, value]);
        words.find(|text| !word(text)).map_or(Ok(()), |text| Err(LabelError::Word(text.clone())))
    }
}

impl FromStr for Labels {
    type Err = LabelError;

    /// Reads `key=value` with commas in between.
    fn from_str(text: &str) -> Result<Self, LabelError> {
        let mut labels = Labels::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) =
                item.split_once('=').ok_or_else(|| LabelError::Form(item.to_owned()))?;
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if labels.0.contains_key(&key) {
                return Err(LabelError::Twice(key));
            }
            labels.0.insert(key, value);
        }
        labels.check()?;
        Ok(labels)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pairs().join(","))
    }
}

/// What a node must offer to be handed a run. Most runs ask for nothing.
///
/// What is asked for and what is offered are lists of words. A label is `key=value`; what only the
/// leader offers has no equals sign, so no label can be mistaken for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Vec<String>);

impl Place {
    /// What the leader offers besides its labels.
    pub const LEADER: &'static str = "LEADER_ONLY";

    /// Where runs of a class with these labels may be executed.
    pub fn of(class: Class, labels: &Labels) -> Self {
        let leader = (class == Class::LeaderOnly).then(|| Place::LEADER.to_owned());
        Place(leader.into_iter().chain(labels.pairs()).collect())
    }

    /// Where runs of a shard may be executed: its owner offers this word, and no other node does.
    pub fn of_shard(shard: crate::id::ObjectId) -> Self {
        Place(vec![Place::shard_word(shard)])
    }

    /// What the owner of a shard offers.
    pub fn shard_word(shard: crate::id::ObjectId) -> String {
        format!("SHARD:{shard}")
    }

    /// The place of words that a store kept.
    pub fn of_words(words: Vec<String>) -> Self {
        Place(words)
    }

    /// What is asked for.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether every node that executes will do.
    pub fn is_anywhere(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether only the leader will do.
    pub fn is_leader(&self) -> bool {
        self.0.iter().any(|word| word == Place::LEADER)
    }

    /// Whether a node that offers these words will do.
    pub fn is_offered(&self, offer: &[String]) -> bool {
        self.0.iter().all(|word| offer.contains(word))
    }
}

/// A short word for a text: the same text has the same one on every machine.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Who leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Grows each time that somebody takes the lead; never goes back.
    pub epoch: i64,
    /// The node that leads; none while nobody does.
    pub node: Option<crate::id::NodeId>,
}

/// How far a run is acknowledged in the present epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Whether somebody leads. Without a leader there is no present epoch.
    pub led: bool,
    /// Registered schedulers that have acknowledged it.
    pub acknowledged: u32,
    /// Registered schedulers.
    pub schedulers: u32,
}

impl Quorum {
    /// How many make a majority.
    pub fn needed(&self) -> u32 {
        self.schedulers / 2 + 1
    }

    /// Whether there are enough.
    pub fn is_reached(&self) -> bool {
        self.led && self.acknowledged >= self.needed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_written_in_one_order() {
        let labels: Labels = " zone=eu, disk=ssd ".parse().unwrap();
        assert_eq!(labels.to_string(), "disk=ssd,zone=eu");
        assert_eq!("".parse(), Ok(Labels::default()));
        for (text, complaint) in [
            ("zone", "\"zone\" is not of the form key=value"),
            ("zone=eu,zone=us", "\"zone\" is there twice"),
            ("=eu", "\"\" must have 1 to 63"),
            ("zone=e u", "\"e u\" must have 1 to 63"),
        ] {
            let error = text.parse::<Labels>().unwrap_err().to_string();
            assert!(error.starts_with(complaint), "{error}");
        }
    }

    #[test]
    fn a_place_is_offered_by_labels_and_by_the_lead() {
        let (none, eu): (Labels, Labels) = (Labels::default(), "zone=eu".parse().unwrap());
        assert!(Place::of(Class::LocalSafe, &none).is_anywhere());
        assert!(Place::of(Class::QuorumRequired, &none).is_anywhere());
        let local = Place::of(Class::LocalSafe, &eu);
        assert!(local.is_offered(&["disk=ssd".into(), "zone=eu".into()]));
        assert!(!local.is_offered(&["zone=us".into()]) && !local.is_leader());
        let leader = Place::of(Class::LeaderOnly, &eu);
        assert!(leader.is_leader() && !leader.is_offered(&["zone=eu".into()]));
        assert!(leader.is_offered(&["zone=eu".into(), Place::LEADER.into()]));
    }

    #[test]
    fn a_majority_is_more_than_half_of_all_that_are_registered() {
        for (schedulers, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            let quorum = Quorum { led: true, acknowledged: needed, schedulers };
            assert!(quorum.is_reached());
            assert!(!Quorum { acknowledged: needed - 1, ..quorum }.is_reached());
            assert!(!Quorum { led: false, ..quorum }.is_reached());
        }
    }

    #[test]
    fn words_are_the_same_at_every_door() {
        for role in NodeRole::ALL {
            assert_eq!(NodeRole::of(&role.name().to_lowercase()), Some(role));
        }
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
