//! Cluster types: roles and states of nodes, execution classes, labels, leadership and quorums.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeRole {
    /// Plans, expires dead nodes, acknowledges and may become leader.
    Scheduler,
    /// Executes runs.
    Agent,
}

impl NodeRole {
    /// Every role.
    pub const ALL: [NodeRole; 2] = [NodeRole::Scheduler, NodeRole::Agent];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Scheduler => "SCHEDULER",
            NodeRole::Agent => "AGENT",
        }
    }

    /// The role with this name, in any case.
    pub fn of(name: &str) -> Option<Self> {
        NodeRole::ALL.into_iter().find(|role| role.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of a node in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// The node works.
    Active,
    /// The node finishes its runs and claims no new ones.
    Draining,
    /// The node missed its heartbeats. It still counts as registered: it may come back.
    Down,
    /// The node left, was removed, or restarted with a new id.
    Gone,
}

impl NodeState {
    /// The name in every interface.
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

/// The execution class of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Class {
    /// Any agent executes it, without coordination.
    #[default]
    LocalSafe,
    /// Only the leader executes it.
    LeaderOnly,
    /// Any agent executes it after a majority of the schedulers has acknowledged the run.
    QuorumRequired,
}

impl Class {
    /// Whether it is the default class.
    pub fn is_default(&self) -> bool {
        *self == Class::LocalSafe
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The maximum length of a key or value of a label.
pub const LABEL_LENGTH_MAX: usize = 63;

/// The maximum number of labels of a node or a job.
pub const LABELS_MAX: usize = 32;

/// Labels of a node, or labels that a job requires: `zone = eu`, `disk = ssd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

/// Invalid labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Not of the form `key=value`.
    #[error("{0:?} is not of the form key=value")]
    Form(String),
    /// A key or a value with invalid characters or an invalid length.
    #[error(
        "{0:?} must have 1 to {LABEL_LENGTH_MAX} letters, digits, dots, hyphens, underscores or slashes"
    )]
    Word(String),
    /// A duplicate key.
    #[error("{0:?} is given twice")]
    Twice(String),
    /// Too many labels.
    #[error("there are more than {LABELS_MAX} labels")]
    TooMany,
}

impl Labels {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels as `key=value`, in the order of the keys.
    pub fn pairs(&self) -> Vec<String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// The labels of such pairs; invalid pairs are ignored.
    pub fn of_pairs(pairs: &[String]) -> Self {
        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
        Labels(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Whether all of these are among the others.
    pub fn within(&self, others: &Labels) -> bool {
        self.0.iter().all(|(key, value)| others.0.get(key) == Some(value))
    }

    /// Validates all keys and values.
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

    /// Parses `key=value` pairs separated by commas.
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

/// The placement of a run: the labels and roles that a node must have to claim it. Most runs have
/// no placement.
///
/// Requirements and offers are lists of words. A label is `key=value`. The word of the leader has
/// no equals sign, so no label can be mistaken for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(Vec<String>);

impl Placement {
    /// The word that only the leader offers.
    pub const LEADER: &'static str = "LEADER_ONLY";

    /// The placement of runs with this class and these labels.
    pub fn from_class(class: Class, labels: &Labels) -> Self {
        let leader = (class == Class::LeaderOnly).then(|| Placement::LEADER.to_owned());
        Placement(leader.into_iter().chain(labels.pairs()).collect())
    }

    /// The placement of runs of a shard: only its owner offers this word.
    pub fn from_shard(shard: crate::id::ObjectId) -> Self {
        Placement(vec![Placement::shard_word(shard)])
    }

    /// The word that the owner of a shard offers.
    pub fn shard_word(shard: crate::id::ObjectId) -> String {
        format!("SHARD:{shard}")
    }

    /// The placement with stored words.
    pub fn from_words(words: Vec<String>) -> Self {
        Placement(words)
    }

    /// The required words.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether every agent may execute it.
    pub fn is_anywhere(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether only the leader may execute it.
    pub fn is_leader(&self) -> bool {
        self.0.iter().any(|word| word == Placement::LEADER)
    }

    /// Whether a node that offers these words may execute it.
    pub fn is_offered(&self, offer: &[String]) -> bool {
        self.0.iter().all(|word| offer.contains(word))
    }
}

/// A short hash of a text, the same on every machine.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The leadership of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The epoch, which grows with every change of the leader and never decreases.
    pub epoch: i64,
    /// The leader; none if there is none.
    pub node: Option<crate::id::NodeId>,
}

/// The acknowledgements of a run in the current epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Whether there is a leader. Without one there is no current epoch.
    pub led: bool,
    /// The number of registered schedulers that have acknowledged the run.
    pub acknowledged: u32,
    /// The number of registered schedulers.
    pub schedulers: u32,
}

impl Quorum {
    /// The size of a majority.
    pub fn needed(&self) -> u32 {
        self.schedulers / 2 + 1
    }

    /// Whether a majority has acknowledged the run.
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
        for (text, problem) in [
            ("zone", "\"zone\" is not of the form key=value"),
            ("zone=eu,zone=us", "\"zone\" is given twice"),
            ("=eu", "\"\" must have 1 to 63"),
            ("zone=e u", "\"e u\" must have 1 to 63"),
        ] {
            let error = text.parse::<Labels>().unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn a_placement_is_offered_by_labels_and_by_leadership() {
        let (none, eu): (Labels, Labels) = (Labels::default(), "zone=eu".parse().unwrap());
        assert!(Placement::from_class(Class::LocalSafe, &none).is_anywhere());
        assert!(Placement::from_class(Class::QuorumRequired, &none).is_anywhere());
        let local = Placement::from_class(Class::LocalSafe, &eu);
        assert!(local.is_offered(&["disk=ssd".into(), "zone=eu".into()]));
        assert!(!local.is_offered(&["zone=us".into()]) && !local.is_leader());
        let leader = Placement::from_class(Class::LeaderOnly, &eu);
        assert!(leader.is_leader() && !leader.is_offered(&["zone=eu".into()]));
        assert!(leader.is_offered(&["zone=eu".into(), Placement::LEADER.into()]));
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
    fn names_are_the_same_on_every_interface() {
        for role in NodeRole::ALL {
            assert_eq!(NodeRole::of(&role.name().to_lowercase()), Some(role));
        }
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
