//! What is kept about tenants, users, roles, keys and grants.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::privilege::{Privilege, Privileges, UnknownPrivilege};
use crate::fairness::Tier;
use crate::id::{KeyId, RoleId, TenantId, UserId};

/// The longest name of a tenant, a user or a role.
pub const NAME_BYTES_MAX: usize = 100;

/// Who jobs belong to, apart from all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its identity.
    pub id: TenantId,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its class of service: its share when tenants compete for slots.
    pub tier: Tier,
    /// The most jobs that it may have; as many as it likes when absent.
    pub max_jobs: Option<u32>,
    /// The most runs that it may have at work at a time, on all nodes together.
    pub max_concurrent: Option<u32>,
    /// The most requests a second of each of its keys.
    pub requests_per_second: Option<u32>,
    /// Whether its administrators may have commands run, and let others do so.
    #[serde(default)]
    pub external_jobs: bool,
}

/// Somebody with rights of their own, a person or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Their identity.
    pub id: UserId,
    /// Where they belong.
    pub tenant: TenantId,
    /// Their name, unique in the tenant.
    pub name: String,
    /// What is kept of their password: its hash in PHC form. Without one they have only keys.
    pub password: Option<String>,
    /// What the SQL door recognises their password by; absent for a password from before it.
    #[serde(default)]
    pub scram: Option<Box<Verifier>>,
    /// Whether they can do nothing for now, and their jobs neither.
    pub disabled: bool,
}

/// A bundle of rights that users and other roles are given together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its identity.
    pub id: RoleId,
    /// Where it belongs.
    pub tenant: TenantId,
    /// Its name, unique in the tenant.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Whether jobs of its members may act as the role of the same name on a database. Only an
    /// administrator of the cluster says so: databases are shared between tenants.
    pub run_as: bool,
}

/// A key of a user. The key itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Which one it is.
    pub id: KeyId,
    /// Where its user belongs.
    pub tenant: TenantId,
    /// Whose it is.
    pub user: UserId,
    /// What it is for.
    pub label: String,
    /// The SHA-256 of its text.
    pub hash: [u8; 32],
    /// What the SQL door recognises it by; absent for a key from before it.
    #[serde(default)]
    pub scram: Option<Box<Verifier>>,
    /// It gives no more than these of the user's rights; all of them when absent.
    pub scopes: Option<Privileges>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// Whether a login made it.
    pub session: bool,
}

/// What is kept of a password or a key for SCRAM-SHA-256 (RFC 5802): enough to recognise whoever
/// knows it, too little to come in. It does not show itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verifier {
    /// How often the secret was hashed.
    pub iterations: u32,
    /// The hash of the client's key.
    pub stored_key: [u8; 32],
    /// The server's key.
    pub server_key: [u8; 32],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

/// Something that is kept about identity, with a version of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Entry {
    /// A tenant.
    Tenant(Tenant),
    /// A user.
    User(User),
    /// A role.
    Role(Role),
    /// A key.
    Key(ApiKey),
}

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A tenant.
    Tenant = 1,
    /// A user.
    User = 2,
    /// A role.
    Role = 3,
    /// A key.
    Key = 4,
}

impl Entry {
    /// What it is about.
    pub fn kind(&self) -> Kind {
        match self {
            Entry::Tenant(_) => Kind::Tenant,
            Entry::User(_) => Kind::User,
            Entry::Role(_) => Kind::Role,
            Entry::Key(_) => Kind::Key,
        }
    }

    /// Its identity.
    pub fn id(&self) -> Uuid {
        match self {
            Entry::Tenant(tenant) => tenant.id.0,
            Entry::User(user) => user.id.0,
            Entry::Role(role) => role.id.0,
            Entry::Key(key) => key.id.0,
        }
    }

    /// Where it belongs; a tenant belongs to the cluster.
    pub fn tenant(&self) -> TenantId {
        match self {
            Entry::Tenant(_) => TenantId(Uuid::nil()),
            Entry::User(user) => user.tenant,
            Entry::Role(role) => role.tenant,
            Entry::Key(key) => key.tenant,
        }
    }

    /// Its name, unique among those of its kind where it belongs.
    pub fn name(&self) -> String {
        match self {
            Entry::Tenant(tenant) => tenant.name.clone(),
            Entry::User(user) => user.name.clone(),
            Entry::Role(role) => role.name.clone(),
            Entry::Key(key) => key.id.text(),
        }
    }

    /// Whose it is: it goes when they go.
    pub fn owner(&self) -> Option<UserId> {
        match self {
            Entry::Key(key) => Some(key.user),
            _ => None,
        }
    }

    /// When it is of no use any more.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Entry::Key(key) => key.expires_at,
            _ => None,
        }
    }
}

/// An entry as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry.
    pub entry: Entry,
    /// Grows with every change, from 1; a change names the version that it is based on.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a user or a role was given. The doors call it a grant; here, a grant is the right to a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Award {
    /// Where it counts.
    pub tenant: TenantId,
    /// The user or the role that has it.
    pub to: Uuid,
    /// What was given.
    pub what: Awarded,
}

/// What can be given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Awarded {
    /// A privilege.
    Privilege(Privilege),
    /// The use of a database of the tenant, by its name, for SQL and procedure jobs.
    Database(String),
    /// All that a role has.
    Role(RoleId),
}

/// What the text of a grant of a database begins with; the database's name follows.
const USE: &str = "USE ON DATABASE ";

impl Awarded {
    /// The text of what is no role: `CREATE JOB`, `USE ON DATABASE sales`.
    pub fn text(&self) -> Option<String> {
        match self {
            Awarded::Privilege(privilege) => Some(privilege.name().to_owned()),
            Awarded::Database(name) => Some(format!("{USE}{name}")),
            Awarded::Role(_) => None,
        }
    }

    /// Reads such a text. The case of a database's name matters, that of the other words does not.
    pub fn from_text(text: &str) -> Result<Self, UnknownPrivilege> {
        match text.split_at_checked(USE.len()) {
            Some((words, name)) if words.eq_ignore_ascii_case(USE) && !name.trim().is_empty() => {
                Ok(Awarded::Database(name.trim().to_owned()))
            }
            _ => text.parse().map(Awarded::Privilege),
        }
    }
}

impl Award {
    /// Its identity: the same is given once.
    pub fn id(&self) -> Uuid {
        match (&self.what, self.what.text()) {
            (Awarded::Role(role), _) => Uuid::new_v5(&self.to, role.0.as_bytes()),
            (_, text) => Uuid::new_v5(&self.to, text.unwrap_or_default().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_as_they_are_written() {
        let sales = Awarded::Database("Sales".into());
        assert_eq!(sales.text().unwrap(), "USE ON DATABASE Sales");
        for (text, what) in [
            ("USE ON DATABASE Sales", Ok(sales.clone())),
            ("use on database Sales", Ok(sales)),
            ("create job", Ok(Awarded::Privilege(Privilege::CreateJob))),
            ("USE ON DATABASE ", Err(())),
            ("USE", Err(())),
            ("use on databas\u{e9} x", Err(())),
        ] {
            assert_eq!(Awarded::from_text(text).map_err(drop), what, "{text}");
        }
    }
}
