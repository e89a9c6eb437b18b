//! Named resources: databases, alert channels, shards, agents, join tokens, calendars, blackouts,
//! pauses, pools, hooks, status pages and preferences of users.
//!
//! All of them are stored in the same way; only their bodies differ.

use jiff::Timestamp;

use crate::id::{ObjectId, TenantId};

/// The longest name of an object, in bytes.
pub const NAME_BYTES_MAX: usize = 100;

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A database of SQL jobs.
    Database,
    /// A destination of alerts.
    AlertChannel,
    /// A slice of the user's data.
    Shard,
    /// A remote agent with its own key.
    Agent,
    /// A token to join as an agent, once.
    JoinToken,
    /// A set of days that jobs include or exclude.
    Calendar,
    /// A window of time in which no tick starts.
    Blackout,
    /// A pause of all jobs.
    Pause,
    /// A limit across jobs.
    Pool,
    /// An address at which programs elsewhere trigger a job.
    Hook,
    /// A page that shows the state of jobs with chosen tags, to everyone if it is public.
    StatusPage,
    /// Dashboard preferences of a user: the object's name is the user's id.
    Preferences,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [ObjectKind; 12] = [
        ObjectKind::Database,
        ObjectKind::AlertChannel,
        ObjectKind::Shard,
        ObjectKind::Agent,
        ObjectKind::JoinToken,
        ObjectKind::Calendar,
        ObjectKind::Blackout,
        ObjectKind::Pause,
        ObjectKind::Pool,
        ObjectKind::Hook,
        ObjectKind::StatusPage,
        ObjectKind::Preferences,
    ];

    /// The stored name.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Database => "DATABASE",
            ObjectKind::AlertChannel => "ALERT_CHANNEL",
            ObjectKind::Shard => "SHARD",
            ObjectKind::Agent => "AGENT",
            ObjectKind::JoinToken => "JOIN_TOKEN",
            ObjectKind::Calendar => "CALENDAR",
            ObjectKind::Blackout => "BLACKOUT",
            ObjectKind::Pause => "PAUSE",
            ObjectKind::Pool => "POOL",
            ObjectKind::Hook => "HOOK",
            ObjectKind::StatusPage => "STATUS_PAGE",
            ObjectKind::Preferences => "PREFERENCES",
        }
    }

    /// The kind with a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        ObjectKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A named resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its identity.
    pub id: ObjectId,
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name, unique for its kind and tenant.
    pub name: String,
    /// Its body, as JSON.
    pub body: String,
    /// The version, from 1, which grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// Validates a name, which is used in paths and in SQL.
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
