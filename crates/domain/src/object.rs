//! Named resources: databases, alert channels, shards, agents, join tokens, calendars, blackouts,
//! pauses, pools, hooks, status pages and preferences of users.
//!
//! All of them are stored in the same way; only their bodies differ.

use jiff::Timestamp;

use crate::access::Deed;
use crate::id::{ObjectId, TenantId};

/// The longest name of an object, in bytes.
pub const NAME_BYTES_MAX: usize = 100;

/// Kinds, each with its stored name, the word in messages, and the privilege to change one.
macro_rules! object_kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $word:literal $deed:ident;)*) => {
        /// The kind of a resource.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ObjectKind {
            $($(#[$doc])* $kind,)*
        }

        impl ObjectKind {
            /// Every kind.
            pub const ALL: [ObjectKind; [$($name),*].len()] = [$(ObjectKind::$kind),*];

            /// The stored name.
            pub fn name(self) -> &'static str {
                match self {
                    $(ObjectKind::$kind => $name,)*
                }
            }

            /// The word in messages.
            pub fn word(self) -> &'static str {
                match self {
                    $(ObjectKind::$kind => $word,)*
                }
            }

            /// What a user who changes one does.
            pub fn changing(self) -> Deed {
                match self {
                    $(ObjectKind::$kind => Deed::$deed,)*
                }
            }
        }
    };
}

object_kinds! {
    /// A database of SQL jobs: an address that this machine connects to, or a file of it.
    Database "DATABASE" "database" ChangeCluster;
    /// A destination of alerts.
    AlertChannel "ALERT_CHANNEL" "alert channel" ChangeAccess;
    /// A slice of the user's data.
    Shard "SHARD" "shard" ChangeCluster;
    /// A remote agent with its own key.
    Agent "AGENT" "agent" ChangeCluster;
    /// A token to join as an agent, once.
    JoinToken "JOIN_TOKEN" "join token" ChangeCluster;
    /// A set of days that jobs include or exclude.
    Calendar "CALENDAR" "calendar" ChangeAccess;
    /// A window of time in which no tick starts.
    Blackout "BLACKOUT" "blackout" ChangeAccess;
    /// A pause of all jobs.
    Pause "PAUSE" "pause" ChangeAccess;
    /// A limit across jobs.
    Pool "POOL" "pool" ChangeAccess;
    /// An address at which programs elsewhere trigger a job.
    Hook "HOOK" "hook" ChangeAccess;
    /// A page that shows the state of jobs with chosen tags, to everyone if it is public.
    StatusPage "STATUS_PAGE" "status page" ChangeAccess;
    /// Dashboard preferences of a user: the object's name is the user's id.
    Preferences "PREFERENCES" "preferences of a user" ChangeCluster;
}

impl ObjectKind {
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
