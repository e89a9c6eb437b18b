//! Things with a name that jobs and people refer to: databases, channels for alerts,
//! agents and the tokens with which they join.
//!
//! All of them are kept in the same way. What differs is what their bodies say, and that is known
//! to whoever uses them.

use jiff::Timestamp;

use crate::id::{ObjectId, TenantId};

/// The longest name of an object, in bytes.
pub const NAME_BYTES_MAX: usize = 100;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A place where SQL jobs work.
    Database,
    /// A place that alerts are carried to.
    AlertChannel,
    /// A slice of the user's data.
    Shard,
    /// A node elsewhere, which works for the cluster with a credential of its own.
    Agent,
    /// The right to become one, once.
    JoinToken,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [ObjectKind; 5] = [
        ObjectKind::Database,
        ObjectKind::AlertChannel,
        ObjectKind::Shard,
        ObjectKind::Agent,
        ObjectKind::JoinToken,
    ];

    /// The name that a store keeps.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Database => "DATABASE",
            ObjectKind::AlertChannel => "ALERT_CHANNEL",
            ObjectKind::Shard => "SHARD",
            ObjectKind::Agent => "AGENT",
            ObjectKind::JoinToken => "JOIN_TOKEN",
        }
    }

    /// The kind of a name that a store kept.
    pub fn from_name(name: &str) -> Option<Self> {
        ObjectKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A thing with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its identity.
    pub id: ObjectId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What it is.
    pub kind: ObjectKind,
    /// Its name; one of a kind in a tenant.
    pub name: String,
    /// What it says, as JSON.
    pub body: String,
    /// Grows with every change, from 1.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// What is wrong with a name, if something is: it stands in addresses and in SQL.
pub fn check_name(name: &str) -> Result<(), String> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= NAME_BYTES_MAX && name.chars().all(harmless) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is no name: it has 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and \
         underscores, and begins with a letter or digit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "sales", "Sales-2.eu_west", "0", &"n".repeat(100)] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "-a", ".", "..", "a b", "a/b", "ä", "a:test", &"n".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for kind in ObjectKind::ALL {
            assert_eq!(ObjectKind::from_name(kind.name()), Some(kind));
        }
    }
}
