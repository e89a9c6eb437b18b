//! Tenants, users, roles, keys and grants, as far as the actor may see or change them.
//!
//! No actor grants or revokes what it does not have: an actor that changes a user, a role or a key
//! must have every privilege that it reaches. So an administrator of a tenant never becomes one of
//! the cluster by way of an account that is.

use domain::access::{
    ApiKey, Award, Awarded, Deed, Entry, GrantText, Kind, NAME_BYTES_MAX, Privileges, QueueGrant,
    Record, Refusal, Rights, User, Verifier,
};
use domain::id::{JobId, TenantId, UserId};
use domain::text::is_plain_name;
use store::{EntryFilter, GrantOutcome, Page, Recorded, Removed};
use uuid::Uuid;

use crate::acting::AuthorizedEngine;
use crate::error::{EngineError, Result};
use crate::register::founding_award;

/// How many keys are looked at at a time.
const PAGE: u32 = 500;

/// The most keys of a user.
const KEYS_MAX: u32 = 1_000;

/// Name of a kind of entry in messages.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Tenant => "tenant",
        Kind::User => "user",
        Kind::Role => "role",
        Kind::Key => "key",
    }
}

fn none(kind: Kind, name: impl std::fmt::Display) -> EngineError {
    EngineError::NotFound(format!("{} {name}", word(kind)))
}

impl AuthorizedEngine<'_> {
    /// Where entries of a kind belong that the actor sees.
    fn place(&self, kind: Kind) -> TenantId {
        if kind == Kind::Tenant { TenantId(Uuid::nil()) } else { self.actor.tenant }
    }

    /// Whether the actor sees an entry; entries that it does not see do not exist for it.
    fn sees_entry(&self, entry: &Entry) -> bool {
        let is_admin = self.may(Deed::SeeAccess).is_ok();
        match entry {
            Entry::Tenant(tenant) => {
                self.may(Deed::SeeCluster).is_ok() || is_admin && tenant.id == self.actor.tenant
            }
            Entry::User(user) => {
                user.tenant == self.actor.tenant && (is_admin || user.id == self.actor.user)
            }
            Entry::Role(role) => role.tenant == self.actor.tenant && is_admin,
            Entry::Key(key) => {
                key.user == self.actor.user || is_admin && key.tenant == self.actor.tenant
            }
        }
    }

    /// Entries of the tenant by name; a user's own keys, or all if they administer.
    pub async fn list_entries(
        &self,
        kind: Kind,
        owner: Option<UserId>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Record, String>> {
        let is_own = kind == Kind::Key && owner == Some(self.actor.user);
        if !is_own {
            self.may(Deed::SeeAccess)?;
        }
        if kind == Kind::Tenant && self.may(Deed::SeeCluster).is_err() {
            // An administrator of one tenant sees only that tenant.
            let own = self.node().store.entries(&[self.actor.tenant.0]).await?;
            let own =
                own.into_iter().filter(|it| after.is_none_or(|after| *it.entry.name() > *after));
            return Ok(Page { items: own.collect(), next: None });
        }
        let tenant = match owner {
            Some(owner) if is_own => self.home_of(owner).await?,
            _ => self.place(kind),
        };
        let filter = EntryFilter { kind, tenant, owner };
        Ok(self.node().store.list_entries(&filter, after, limit).await?)
    }

    async fn home_of(&self, user: UserId) -> Result<TenantId> {
        let standing = self.node().standing(user).await?;
        Ok(standing.map_or(self.actor.tenant, |standing| standing.user.tenant))
    }

    /// An entry by its name or id.
    pub async fn entry(&self, kind: Kind, text: &str) -> Result<Record> {
        let store = &self.node().store;
        let of_kind =
            |record: &Record| record.entry.kind() == kind && self.sees_entry(&record.entry);
        let id = match kind {
            Kind::Key => domain::id::KeyId::of_text(text).map(|key| key.0),
            _ => text.parse::<Uuid>().ok(),
        };
        if let Some(id) = id
            && let Some(record) = store.entries(&[id]).await?.pop().filter(of_kind)
        {
            return Ok(record);
        }
        let named = match kind {
            Kind::Key => None,
            kind => store.entry_named(kind, self.place(kind), text).await?,
        };
        named.filter(of_kind).ok_or_else(|| none(kind, format_args!("{text:?}")))
    }

    /// Rights of a user or a role in a tenant, direct and inherited. The role itself counts.
    pub(crate) async fn rights_of(&self, id: Uuid, tenant: TenantId) -> Result<Rights> {
        let store = &self.node().store;
        let reach = store.reach(id).await?;
        let mut ids: Vec<Uuid> = reach.roles.iter().map(|role| role.0).collect();
        ids.extend([id, tenant.0]);
        let (mut external_jobs, mut run_as) = (false, Vec::new());
        for record in store.entries(&ids).await? {
            match record.entry {
                Entry::Tenant(tenant) => external_jobs = tenant.external_jobs,
                Entry::Role(role) if role.run_as => run_as.push(role.name),
                _ => {}
            }
        }
        let privileges = reach.privileges.expanded(external_jobs);
        Ok(Rights { privileges, run_as, databases: reach.databases, queues: reach.queues })
    }

    /// Refuses what concerns rights that the actor does not have.
    fn covers(&self, rights: &Rights) -> Result<()> {
        if self.actor.covers(rights) { Ok(()) } else { Err(Refusal::BeyondOwn.into()) }
    }

    /// Whether the actor may make, change or remove an entry.
    async fn may_touch(&self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Tenant(_) => self.may(Deed::ChangeCluster),
            Entry::User(user) => {
                self.may(Deed::ChangeAccess)?;
                self.covers(&self.rights_of(user.id.0, user.tenant).await?)
            }
            Entry::Role(role) => {
                self.may(Deed::ChangeAccess)?;
                if role.run_as {
                    // Databases are shared between tenants.
                    self.may(Deed::ChangeCluster)?;
                }
                self.covers(&self.rights_of(role.id.0, role.tenant).await?)
            }
            Entry::Key(key) => {
                if self.actor.read_only {
                    return Err(Refusal::ReadOnly.into());
                }
                let rights = self.rights_of(key.user.0, key.tenant).await?;
                if key.user != self.actor.user {
                    self.may(Deed::ChangeAccess)?;
                    return self.covers(&rights);
                }
                // A narrow key may not change wider ones.
                let is_itself = self.actor.key == Some(key.id);
                let scopes = key.scopes.unwrap_or(Privileges::ALL);
                if is_itself { Ok(()) } else { self.covers(&scoped(rights, scopes)) }
            }
        }
    }

    /// The number of keys is limited: each has a rate limit of its own.
    async fn has_room_for(&self, key: &ApiKey) -> Result<()> {
        let filter = EntryFilter { kind: Kind::Key, tenant: key.tenant, owner: Some(key.user) };
        let page = self.node().store.list_entries(&filter, None, KEYS_MAX).await?;
        if (page.items.len() as u32) < KEYS_MAX {
            return Ok(());
        }
        let text = format!("the user has {KEYS_MAX} keys; revoke some that are not needed");
        Err(EngineError::WrongState(text))
    }

    /// A key has no more rights than the key that it was made with, and no longer validity; neither
    /// has one that was made with a token. Only a session with a password makes keys that outlive
    /// it.
    async fn may_make(&self, key: &ApiKey) -> Result<()> {
        let rights = self.rights_of(key.user.0, key.tenant).await?;
        self.covers(&scoped(rights, key.scopes.unwrap_or(Privileges::ALL)))?;
        let end = match self.actor.key {
            None => self.actor.until,
            Some(own) => {
                let own = self.node().key(own).await?;
                own.and_then(|(own, _)| own.expires_at.filter(|_| !own.session))
            }
        };
        match end {
            Some(end) if key.expires_at.is_none_or(|at| at > end) => Err(Refusal::BeyondOwn.into()),
            _ => Ok(()),
        }
    }

    /// Makes an entry, or changes the one of the expected version.
    pub async fn put_entry(&self, entry: Entry, expected: Option<u32>) -> Result<Record> {
        let kind = entry.kind();
        if kind != Kind::Tenant && entry.tenant() != self.actor.tenant && !self.sees_entry(&entry) {
            return Err(none(kind, entry.name()));
        }
        self.may_touch(&entry).await?;
        if let Entry::Key(key) = &entry {
            self.may_make(key).await?;
            if expected.is_none() {
                self.has_room_for(key).await?;
            }
        }
        let mut is_other_password = false;
        if expected.is_none() {
            check_name(&entry)?;
        } else {
            let old = self.node().store.entries(&[entry.id()]).await?.pop();
            let old = old.ok_or_else(|| none(kind, entry.name()))?.entry;
            self.may_touch(&old).await?;
            check_founders(&old, Some(&entry))?;
            // The name of a user of an issuer was not chosen here.
            if old.name() != entry.name() {
                check_name(&entry)?;
            }
            match (&old, &entry) {
                (Entry::User(old), Entry::User(new)) => {
                    is_other_password = old.password != new.password;
                }
                (Entry::Key(old), Entry::Key(new))
                    if old.session && new.expires_at.is_none_or(|at| Some(at) > old.expires_at) =>
                {
                    let text = "the key of a login keeps its end";
                    return Err(EngineError::WrongState(text.to_owned()));
                }
                _ => {}
            }
        }
        match self.node().store.put_entry(&entry, expected, self.author()).await? {
            Recorded::Done(record) => {
                if is_other_password {
                    self.end_sessions(record.entry.id(), record.entry.tenant(), None).await?;
                }
                self.node().register.changed();
                Ok(record)
            }
            Recorded::Taken => Err(EngineError::EntryTaken(word(kind))),
            Recorded::Conflict(0) => Err(none(kind, entry.name())),
            Recorded::Conflict(current) => {
                Err(EngineError::VersionConflict { expected: expected.unwrap_or(0), current })
            }
        }
    }

    /// Gives the actor another password than the one that was found to be theirs: both are kept as
    /// hashes. Keys of other logins end.
    pub async fn change_own_password(
        &self,
        old: Option<&str>,
        new: String,
        verifier: Box<Verifier>,
    ) -> Result<()> {
        let id = self.actor.user.0;
        let gone = || none(Kind::User, &self.actor.name);
        let found = self.node().store.entries(&[id]).await?.pop().ok_or_else(gone)?;
        let Entry::User(user) = found.entry else { return Err(gone()) };
        if user.password.as_deref() != old {
            let text = "the password was changed by another request at the same time".to_owned();
            return Err(EngineError::WrongState(text));
        }
        let tenant = user.tenant;
        // Field by field: nothing of the old password may stay.
        let User { id: user, name, disabled, .. } = user;
        let (password, scram) = (Some(new), Some(verifier));
        let entry = Entry::User(User { id: user, tenant, name, password, scram, disabled });
        match self.node().store.put_entry(&entry, Some(found.version), self.author()).await? {
            Recorded::Done(_) => {}
            Recorded::Taken | Recorded::Conflict(0) => return Err(gone()),
            Recorded::Conflict(current) => {
                return Err(EngineError::VersionConflict { expected: found.version, current });
            }
        }
        self.end_sessions(id, tenant, self.actor.key).await?;
        self.node().register.changed();
        Ok(())
    }

    /// Ends all sessions of the old password, except for one key.
    async fn end_sessions(
        &self,
        user: Uuid,
        tenant: TenantId,
        but: Option<domain::id::KeyId>,
    ) -> Result<()> {
        let store = &self.node().store;
        let filter = EntryFilter { kind: Kind::Key, tenant, owner: Some(UserId(user)) };
        let mut after = None;
        loop {
            let page = store.list_entries(&filter, after.as_deref(), PAGE).await?;
            for record in page.items {
                if matches!(&record.entry, Entry::Key(key) if key.session && Some(key.id) != but) {
                    store.remove_entry(record.entry.id(), None, self.author()).await?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Removes an entry with what belongs to it.
    pub async fn remove_entry(&self, entry: &Entry, expected: Option<u32>) -> Result<()> {
        let kind = entry.kind();
        self.may_touch(entry).await?;
        check_founders(entry, None)?;
        let removed = self.node().store.remove_entry(entry.id(), expected, self.author()).await?;
        self.node().register.changed();
        match removed {
            Removed::Done => Ok(()),
            Removed::Conflict(0) => Err(none(kind, entry.name())),
            Removed::Conflict(current) => {
                Err(EngineError::VersionConflict { expected: expected.unwrap_or(0), current })
            }
            Removed::InUse => Err(EngineError::WrongState(
                "the tenant still has jobs, users, roles or keys; remove them first".to_owned(),
            )),
        }
    }

    /// Rights that the grant would give.
    async fn worth(&self, award: &Award) -> Result<Rights> {
        match &award.what {
            Awarded::Privilege(privilege) => {
                let tenant = self.node().store.entries(&[award.tenant.0]).await?.pop();
                let external_jobs = matches!(
                    tenant.map(|record| record.entry),
                    Some(Entry::Tenant(tenant)) if tenant.external_jobs
                );
                let privileges = Privileges::from_iter([*privilege]).expanded(external_jobs);
                Ok(Rights { privileges, ..Rights::default() })
            }
            Awarded::Database(name) => {
                Ok(Rights { databases: vec![name.clone()], ..Rights::default() })
            }
            Awarded::Queue(grant) => Ok(Rights { queues: vec![*grant], ..Rights::default() }),
            Awarded::Role(role) => self.rights_of(role.0, award.tenant).await,
        }
    }

    /// Gives a privilege or a role to a user or a role of the tenant. Returns whether it is new.
    pub async fn award(&self, award: Award) -> Result<bool> {
        self.may(Deed::ChangeAccess)?;
        if award.tenant != self.actor.tenant {
            return Err(EngineError::NotFound("grantee".to_owned()));
        }
        self.covers(&self.worth(&award).await?)?;
        let given = self.node().store.award(&award, self.author()).await?;
        self.node().register.changed();
        match given {
            GrantOutcome::Done => Ok(true),
            GrantOutcome::Known => Ok(false),
            GrantOutcome::Cycle => Err(EngineError::Invalid {
                field: "role",
                problem: "the role would contain itself".to_owned(),
            }),
            GrantOutcome::Absent => Err(EngineError::NotFound("grantee".to_owned())),
        }
    }

    /// Grant from its text. The queue that it names must exist.
    pub async fn granted(&self, text: &GrantText) -> Result<Awarded> {
        Ok(match text {
            GrantText::Privilege(privilege) => Awarded::Privilege(*privilege),
            GrantText::Database(name) => Awarded::Database(name.clone()),
            GrantText::Queue(right, name) => {
                Awarded::Queue(QueueGrant { right: *right, queue: self.queue(name).await?.id })
            }
        })
    }

    /// The texts of grants that are not roles, in their order, with the names that queues have now.
    pub async fn grant_texts(&self, awards: &[Award]) -> Result<Vec<Option<String>>> {
        let queues: Vec<JobId> = awards.iter().filter_map(|award| award.what.queue()).collect();
        let queues = match queues.is_empty() {
            true => Vec::new(),
            false => self.node().store.jobs_by_id(&queues).await?,
        };
        let name = |id: JobId| {
            let found = queues.iter().find(|queue| queue.id == id);
            found.map_or_else(|| id.to_string(), |queue| queue.name.clone())
        };
        let text =
            |award: &Award| award.what.text_with(&award.what.queue().map(name).unwrap_or_default());
        Ok(awards.iter().map(text).collect())
    }

    /// An award of the tenant by its id.
    pub async fn award_by_id(&self, id: Uuid) -> Result<Award> {
        self.may(Deed::SeeAccess)?;
        let found = self.node().store.award_by_id(id).await?;
        let found = found.filter(|award| award.tenant == self.actor.tenant);
        found.ok_or_else(|| EngineError::NotFound(format!("grant {id}")))
    }

    /// The grants of the tenant, of all grantees or of one.
    pub async fn list_awards(
        &self,
        to: Option<Uuid>,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Page<Award, Uuid>> {
        self.may(Deed::SeeAccess)?;
        Ok(self.node().store.list_awards(self.actor.tenant, to, after, limit).await?)
    }

    /// Takes an award away.
    pub async fn revoke(&self, id: Uuid) -> Result<()> {
        let award = self.award_by_id(id).await?;
        self.may(Deed::ChangeAccess)?;
        self.covers(&self.worth(&award).await?)?;
        if award == founding_award() {
            return Err(EngineError::WrongState(
                "the user admin stays the administrator of the cluster".to_owned(),
            ));
        }
        let gone = self.node().store.revoke(id, self.author()).await?;
        self.node().register.changed();
        if gone { Ok(()) } else { Err(EngineError::NotFound(format!("grant {id}"))) }
    }
}

/// Rights of a user, limited to the scopes of a key.
fn scoped(rights: Rights, scopes: Privileges) -> Rights {
    Rights { privileges: rights.privileges.within(scopes), ..rights }
}

/// Validates names that users choose.
fn check_name(entry: &Entry) -> Result<()> {
    let name = entry.name();
    let well = |c: char| c.is_alphanumeric() || "-_.@ ".contains(c);
    let is_good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        // Some letters are not seen.
        && is_plain_name(&name)
        && name.chars().all(well)
        // It would be taken for an id.
        && name.parse::<Uuid>().is_err();
    if is_good {
        return Ok(());
    }
    let problem = format!(
        "a name has 1 to {NAME_BYTES_MAX} bytes of letters, digits, spaces inside, and any of -_.@"
    );
    Err(EngineError::Invalid { field: "name", problem })
}

/// The tenant and the user of the first start stay, so that there is always a way in.
fn check_founders(old: &Entry, new: Option<&Entry>) -> Result<()> {
    let stays = |what: &str| {
        Err(EngineError::WrongState(format!("{what} is there from the first start and stays")))
    };
    match (old, new) {
        (Entry::Tenant(tenant), None) if tenant.id == TenantId::DEFAULT => stays("this tenant"),
        (Entry::User(user), None) if user.id == UserId::ADMIN => stays("this user"),
        (Entry::User(old), Some(Entry::User(new)))
            if old.id == UserId::ADMIN && (new.disabled || new.name != old.name) =>
        {
            stays("this user")
        }
        _ => Ok(()),
    }
}

/// Login of users.
impl crate::run::Engine {
    /// The user of a name in a tenant, for an interface that checks their password.
    pub async fn user_named(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<Option<std::sync::Arc<domain::access::EffectivePrivileges>>> {
        let Some(tenant) = self.node().tenant_named(tenant).await? else { return Ok(None) };
        let found = self.node().store.entry_named(Kind::User, tenant, name).await?;
        match found {
            Some(record) => self.node().standing(UserId(record.entry.id())).await,
            None => Ok(None),
        }
    }

    /// Stores the verifier of a password or a key for the SQL interface, if it was not changed
    /// meanwhile.
    pub async fn keep_verifier(&self, id: Uuid, verifier: Box<Verifier>, by: &str) -> Result<()> {
        let store = &self.node().store;
        let Some(record) = store.entries(&[id]).await?.pop() else { return Ok(()) };
        let mut entry = record.entry;
        let place = match &mut entry {
            Entry::User(user) => &mut user.scram,
            Entry::Key(key) => &mut key.scram,
            Entry::Tenant(_) | Entry::Role(_) => return Ok(()),
        };
        *place = Some(verifier);
        store.put_entry(&entry, Some(record.version), by).await?;
        self.node().register.changed();
        Ok(())
    }

    /// Keeps the key that a login made.
    pub async fn open_session(&self, key: ApiKey, by: &str) -> Result<Record> {
        match self.node().store.put_entry(&Entry::Key(key), None, by).await? {
            Recorded::Done(record) => Ok(record),
            _ => Err(EngineError::NotFound("user".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let user = |name: &str| {
            Entry::User(domain::access::User {
                id: UserId::ADMIN,
                tenant: TenantId::DEFAULT,
                name: name.to_owned(),
                password: None,
                scram: None,
                disabled: false,
            })
        };
        for name in ["ann", "Zo\u{eb}", "ann.b@example.com", "night shift", "a-b_c"] {
            assert!(check_name(&user(name)).is_ok(), "{name}");
        }
        let long = "x".repeat(101);
        let id = Uuid::nil().to_string();
        for name in [
            "",
            " ann",
            "ann ",
            "a\nb",
            "a\"; DROP",
            "a/b",
            "\u{202e}ann",
            "\u{3164}",
            "a\u{115f}b",
            &long,
            &id,
        ] {
            assert!(check_name(&user(name)).is_err(), "{name:?}");
        }
    }
}
