//! Who there is and what they were given: tenants, users, roles, keys and awards.
//!
//! Changes of identity come one after the other, each makes the generation grow, and what was
//! checked in one (a name is free, a role does not contain itself, nothing is left of a tenant) is
//! still true when it is written. Each is recorded in the audit with it; what goes along with
//! something that is removed has no row of its own, and neither has a key that expired.

use std::future::Future;

use domain::access::{Award, Awarded, Entry, Kind, Privilege, Privileges, QueueGrant, Record};
use domain::audit;
use domain::id::{RoleId, TenantId, UserId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Page, Result, Store, StoreError};

/// A store that knows who there is.
pub trait Identity: Store {
    /// Grows with every change: what was read at one generation is true as long as it lasts.
    fn generation(&self) -> impl Future<Output = Result<i64>> + Send;

    /// Entries by id, in no particular order; unknown ones are left out.
    fn entries(&self, ids: &[Uuid]) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// The entry of a name, within a tenant; a tenant's own belongs to the zero id.
    fn entry_named(
        &self,
        kind: Kind,
        tenant: TenantId,
        name: &str,
    ) -> impl Future<Output = Result<Option<Record>>> + Send;

    /// Entries by name, after the given one.
    fn list_entries(
        &self,
        filter: &EntryFilter,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Record, String>>> + Send;

    /// Makes an entry, or changes the one of the expected version.
    fn put_entry(
        &self,
        entry: &Entry,
        expected: Option<u32>,
    ) -> impl Future<Output = Result<Recorded>> + Send;

    /// Removes an entry with all that belongs to it: keys of a user, awards to and of a role.
    fn remove_entry(
        &self,
        id: Uuid,
        expected: Option<u32>,
    ) -> impl Future<Output = Result<Removed>> + Send;

    /// Gives something to a user or a role.
    fn award(&self, award: &Award) -> impl Future<Output = Result<Given>> + Send;

    /// Takes an award away. Answers whether it was there.
    fn revoke(&self, id: Uuid) -> impl Future<Output = Result<bool>> + Send;

    /// An award by its id.
    fn award_by_id(&self, id: Uuid) -> impl Future<Output = Result<Option<Award>>> + Send;

    /// What was given in a tenant, to everybody or to one, by id after the given one.
    fn list_awards(
        &self,
        tenant: TenantId,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Award, Uuid>>> + Send;

    /// All that a user or a role has, directly or by way of roles.
    fn reach(&self, id: Uuid) -> impl Future<Output = Result<Reach>> + Send;

    /// What the salts of all users are made of. The first that is offered is kept for ever.
    fn salt(&self, offered: [u8; 32]) -> impl Future<Output = Result<[u8; 32]>> + Send;

    /// Forgets keys that expired a day ago or earlier, at most `limit`; answers how many.
    fn forget_keys(&self, limit: u32) -> impl Future<Output = Result<u64>> + Send;
}

/// Which entries a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFilter {
    /// Of this kind.
    pub kind: Kind,
    /// Of this tenant.
    pub tenant: TenantId,
    /// Of this user.
    pub owner: Option<UserId>,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is this now.
    Done(Record),
    /// Another one has its name, or its id.
    Taken,
    /// It has this version; 0 when it, its tenant or its owner is not there.
    Conflict(u32),
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Done,
    /// It has this version; 0 when it is not there.
    Conflict(u32),
    /// Jobs, users or roles belong to the tenant.
    InUse,
}

/// What became of an award.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It is given.
    Done,
    /// It was given before.
    Known,
    /// The role would contain itself.
    Cycle,
    /// Who shall have it, or the role, is not there.
    Absent,
}

/// All that a user or a role has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Its privileges.
    pub privileges: Privileges,
    /// The roles that it has, in no particular order.
    pub roles: Vec<RoleId>,
    /// The databases that jobs may work in, by name, in no particular order.
    pub databases: Vec<String>,
    /// Rights to the messages of queues, in no particular order.
    pub queues: Vec<QueueGrant>,
}

/// An expired key is forgotten after this time.
pub(crate) const EXPIRED_TTL_US: i64 = 24 * 3_600 * 1_000_000;

pub(crate) fn body_of(entry: &Entry) -> Result<String> {
    serde_json::to_string(entry).map_err(|error| StoreError::Unreadable(error.to_string()))
}

pub(crate) fn entry_of(body: &str) -> Result<Entry> {
    serde_json::from_str(body)
        .map_err(|error| StoreError::Unreadable(format!("an entry of identity: {error}")))
}

/// What was given, of two columns.
pub(crate) fn awarded(role: Option<Uuid>, privilege: Option<&str>) -> Result<Awarded> {
    match (role, privilege) {
        (Some(role), None) => Ok(Awarded::Role(RoleId(role))),
        (None, Some(name)) => {
            let wrong = |error| StoreError::Unreadable(format!("a grant: {error}"));
            Awarded::from_text(name).map_err(wrong)
        }
        _ => Err(StoreError::Unreadable("a grant of nothing".to_owned())),
    }
}

/// The columns of what is given.
pub(crate) fn columns(what: &Awarded) -> (Option<Uuid>, Option<String>) {
    match what {
        Awarded::Role(role) => (Some(role.0), None),
        other => (None, other.text()),
    }
}

/// What the audit calls a change of an entry. A key that a login made is the login.
pub(crate) fn audit_kind(entry: &Entry, is_new: bool) -> audit::Kind {
    match entry {
        Entry::Tenant(_) => audit::Kind::TenantChanged,
        Entry::User(_) => audit::Kind::UserChanged,
        Entry::Role(_) => audit::Kind::RoleChanged,
        Entry::Key(key) if key.session && is_new => audit::Kind::Login,
        Entry::Key(_) => audit::Kind::KeyChanged,
    }
}

/// What the audit says about an entry as it is now: nothing that lets anybody in.
pub(crate) fn audit_state(entry: &Entry) -> Value {
    match entry {
        Entry::Tenant(tenant) => json!({
            "max_concurrent": tenant.max_concurrent,
            "max_jobs": tenant.max_jobs,
            "requests_per_second": tenant.requests_per_second,
            "external_jobs": tenant.external_jobs,
            "tier": tenant.tier,
        }),
        Entry::User(user) => {
            json!({ "disabled": user.disabled, "has_password": user.password.is_some() })
        }
        Entry::Role(role) => json!({ "run_as": role.run_as }),
        Entry::Key(key) => {
            let scopes = key.scopes.as_ref();
            json!({
                "expires_at": key.expires_at,
                "label": key.label,
                "read_only": key.read_only,
                "scopes": scopes.map(|scopes| scopes.iter().map(Privilege::name).collect::<Vec<_>>()),
            })
        }
    }
}

/// Adds up what a search found.
pub(crate) fn reached(rows: impl Iterator<Item = Result<Awarded>>) -> Result<Reach> {
    let (mut privileges, mut roles) = (Vec::new(), Vec::new());
    let (mut databases, mut queues) = (Vec::new(), Vec::new());
    for row in rows {
        match row? {
            Awarded::Privilege(privilege) => privileges.push(privilege),
            Awarded::Database(name) => databases.push(name),
            Awarded::Queue(grant) => queues.push(grant),
            Awarded::Role(role) => roles.push(role),
        }
    }
    Ok(Reach { privileges: privileges.into_iter().collect(), roles, databases, queues })
}

/// A page of what was asked for with one more than its limit.
pub(crate) fn page<T, K>(mut items: Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Page<T, K> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(key) } else { None };
    Page { items, next }
}
