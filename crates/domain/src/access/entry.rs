//! The stored data of tenants, users, roles, keys and grants.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::privilege::{Privilege, Privileges, UnknownPrivilege};
use crate::fairness::Tier;
use crate::id::{JobId, KeyId, RoleId, TenantId, UserId};
use crate::job_defaults::JobDefaults;

/// The longest name of a tenant, a user or a role.
pub const NAME_BYTES_MAX: usize = 100;

/// The owner of jobs, isolated from all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its identity.
    pub id: TenantId,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its class of service: its weight when tenants compete for slots.
    pub tier: Tier,
    /// The maximum number of jobs; unlimited if absent.
    pub max_jobs: Option<u32>,
    /// The maximum number of concurrent runs, on all nodes together.
    pub max_concurrent: Option<u32>,
    /// The maximum number of requests per second of each of its keys.
    pub requests_per_second: Option<u32>,
    /// Whether its administrators may run commands, and grant that to others.
    #[serde(default)]
    pub external_jobs: bool,
    /// Defaults for fields that its jobs do not set.
    #[serde(default, skip_serializing_if = "JobDefaults::is_empty")]
    pub job_defaults: JobDefaults,
}

/// A person or a program with its own privileges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Their identity.
    pub id: UserId,
    /// The tenant of the user.
    pub tenant: TenantId,
    /// The name of the user, unique in the tenant.
    pub name: String,
    /// The password hash in PHC form. A user without one has only keys.
    pub password: Option<String>,
    /// The SCRAM verifier of the password; absent for a password from before the SQL interface.
    #[serde(default)]
    pub scram: Option<Box<Verifier>>,
    /// Whether the user is disabled; then its jobs do not run either.
    pub disabled: bool,
}

/// A named set of privileges for users and other roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its identity.
    pub id: RoleId,
    /// The tenant of the role.
    pub tenant: TenantId,
    /// Its name, unique in the tenant.
    pub name: String,
    /// A description for people.
    pub description: Option<String>,
    /// Whether jobs of its members may use the database role of the same name. Only a cluster
    /// administrator can set it, because tenants may share a database.
    pub run_as: bool,
}

/// A key of a user. Only its hash is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The id of the key.
    pub id: KeyId,
    /// The tenant of its user.
    pub tenant: TenantId,
    /// The owner of the key.
    pub user: UserId,
    /// A description for people.
    pub label: String,
    /// The SHA-256 of its text.
    pub hash: [u8; 32],
    /// The SCRAM verifier of the key; absent for a key from before the SQL interface.
    #[serde(default)]
    pub scram: Option<Box<Verifier>>,
    /// Restricts the key to these privileges of its user; all if absent.
    pub scopes: Option<Privileges>,
    /// Whether the key can only read.
    pub read_only: bool,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// Whether it was created by a login.
    pub session: bool,
}

/// The verifier of a password or a key for SCRAM-SHA-256 (RFC 5802). It can verify a client that
/// knows the secret, and cannot be used to log in. Its `Debug` output does not contain it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verifier {
    /// The iteration count of the hash.
    pub iterations: u32,
    /// `StoredKey` of RFC 5802.
    pub stored_key: [u8; 32],
    /// `ServerKey` of RFC 5802.
    pub server_key: [u8; 32],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

/// An identity object, with its own version.
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

/// The kind of an entry.
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
    /// The kind of the entry.
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

    /// The tenant of the entry; a tenant belongs to the cluster.
    pub fn tenant(&self) -> TenantId {
        match self {
            Entry::Tenant(_) => TenantId(Uuid::nil()),
            Entry::User(user) => user.tenant,
            Entry::Role(role) => role.tenant,
            Entry::Key(key) => key.tenant,
        }
    }

    /// Its name, unique among entries of the same kind and tenant.
    pub fn name(&self) -> String {
        match self {
            Entry::Tenant(tenant) => tenant.name.clone(),
            Entry::User(user) => user.name.clone(),
            Entry::Role(role) => role.name.clone(),
            Entry::Key(key) => key.id.text(),
        }
    }

    /// Its owner: the entry is deleted with that user.
    pub fn owner(&self) -> Option<UserId> {
        match self {
            Entry::Key(key) => Some(key.user),
            _ => None,
        }
    }

    /// When it expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Entry::Key(key) => key.expires_at,
            _ => None,
        }
    }
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry.
    pub entry: Entry,
    /// The version, from 1, which grows with every change. A change names the version that it is
    /// based on.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A grant to a user or a role. Interfaces call it a grant; in this crate,
/// [`Grant`](crate::run::Grant) is the claim of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Award {
    /// The tenant in which it applies.
    pub tenant: TenantId,
    /// The user or role that has it.
    pub to: Uuid,
    /// The granted privilege, database or role.
    pub what: Awarded,
}

/// Subject of a grant: a privilege, a role or a right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Awarded {
    /// A privilege.
    Privilege(Privilege),
    /// The use of a database of the tenant for SQL and procedure jobs, by name.
    Database(String),
    /// A right to the messages of a queue of the tenant.
    Queue(QueueGrant),
    /// All privileges of a role.
    Role(RoleId),
}

/// Grant as it is written in a statement. It names a queue, of which the stored grant keeps only
/// the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantText {
    /// A privilege.
    Privilege(Privilege),
    /// The use of a database, by name.
    Database(String),
    /// A right to the messages of a queue, by its name or id.
    Queue(QueueRight, String),
}

/// A right to the messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueRight {
    /// Send messages.
    Send,
    /// Lease messages and report about them.
    Consume,
}

impl QueueRight {
    /// Every right.
    pub const ALL: [QueueRight; 2] = [QueueRight::Send, QueueRight::Consume];

    /// The text of a grant of this right to a queue.
    fn text(self, queue: &str) -> String {
        format!("{} ON QUEUE {queue}", self.name())
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            QueueRight::Send => "SEND",
            QueueRight::Consume => "CONSUME",
        }
    }
}

/// A right to the messages of one queue. It follows the queue when that is renamed, and ends with
/// it: another queue of the same name has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueGrant {
    /// The right.
    pub right: QueueRight,
    /// The queue.
    pub queue: JobId,
}

/// The prefix of the text of a database grant; the name of the database follows.
const USE: &str = "USE ON DATABASE ";

impl Awarded {
    /// The text of a grant that is not a role, as it is stored: `CREATE JOB`, `USE ON DATABASE
    /// sales`, `SEND ON QUEUE` with the id of the queue.
    pub fn text(&self) -> Option<String> {
        match self {
            Awarded::Queue(grant) => Some(grant.right.text(&grant.queue.to_string())),
            other => other.text_with(""),
        }
    }

    /// The text that users read, with the name of its queue if it has one.
    pub fn text_with(&self, queue: &str) -> Option<String> {
        match self {
            Awarded::Privilege(privilege) => Some(privilege.name().to_owned()),
            Awarded::Database(name) => Some(format!("{USE}{name}")),
            Awarded::Queue(grant) => Some(grant.right.text(queue)),
            Awarded::Role(_) => None,
        }
    }

    /// Parses the text that is stored.
    pub fn from_text(text: &str) -> Result<Self, UnknownPrivilege> {
        Ok(match text.parse()? {
            GrantText::Privilege(privilege) => Awarded::Privilege(privilege),
            GrantText::Database(name) => Awarded::Database(name),
            GrantText::Queue(right, queue) => {
                let queue = queue.parse().map_err(|_| UnknownPrivilege(text.to_owned()))?;
                Awarded::Queue(QueueGrant { right, queue })
            }
        })
    }

    /// The queue whose messages it is about.
    pub fn queue(&self) -> Option<JobId> {
        match self {
            Awarded::Queue(grant) => Some(grant.queue),
            Awarded::Privilege(_) | Awarded::Database(_) | Awarded::Role(_) => None,
        }
    }
}

impl FromStr for GrantText {
    type Err = UnknownPrivilege;

    /// The name of a database or a queue is case-sensitive, the other words are not.
    fn from_str(text: &str) -> Result<Self, UnknownPrivilege> {
        let name_after = |prefix: &str| {
            let (words, name) = text.split_at_checked(prefix.len())?;
            let name = name.trim();
            (words.eq_ignore_ascii_case(prefix) && !name.is_empty()).then(|| name.to_owned())
        };
        if let Some(name) = name_after(USE) {
            return Ok(GrantText::Database(name));
        }
        for right in QueueRight::ALL {
            if let Some(queue) = name_after(&right.text("")) {
                return Ok(GrantText::Queue(right, queue));
            }
        }
        text.parse().map(GrantText::Privilege)
    }
}

impl Award {
    /// Its id, computed from its content: the same grant exists once.
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
            ("USE ON DATABASE Sales", Ok(GrantText::Database("Sales".into()))),
            ("use on database Sales", Ok(GrantText::Database("Sales".into()))),
            ("create job", Ok(GrantText::Privilege(Privilege::CreateJob))),
            ("SEND ON QUEUE Mail", Ok(GrantText::Queue(QueueRight::Send, "Mail".into()))),
            ("consume on queue Mail", Ok(GrantText::Queue(QueueRight::Consume, "Mail".into()))),
            ("CONSUME ON QUEUE", Err(())),
            ("USE ON DATABASE ", Err(())),
            ("USE", Err(())),
            ("use on databas\u{e9} x", Err(())),
        ] {
            assert_eq!(text.parse::<GrantText>().map_err(drop), what, "{text}");
        }
        let queue = JobId(Uuid::from_u128(7));
        let mail = Awarded::Queue(QueueGrant { right: QueueRight::Send, queue });
        assert_eq!(mail.text_with("Mail").unwrap(), "SEND ON QUEUE Mail");
        for what in [mail, sales, Awarded::Privilege(Privilege::CreateJob)] {
            assert_eq!(Awarded::from_text(&what.text().unwrap()).map_err(drop), Ok(what));
        }
        assert!(Awarded::from_text("SEND ON QUEUE Mail").is_err(), "a name is not kept");
    }
}
