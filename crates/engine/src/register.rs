//! Cache of identities, valid as long as the store's generation does not change.
//!
//! ```text
//!   question ──▶ looked within a second? ──yes──▶ memory ──▶ answer
//!                        │ no                        ▲
//!                        ▼                           │ miss: read and remember
//!                 generation changed? ──yes──▶ forget everything
//! ```
//!
//! The store is read for one number a second, whatever the number of requests and runs, and a right
//! that was revoked on another node is revoked here a second later. While the store is unreachable,
//! the cache is used for a few seconds; a node that does not reach the store for longer stops by
//! itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::access::{
    Actor, ApiKey, Award, Awarded, EffectivePrivileges, Entry, Kind, NAME_BYTES_MAX, Privilege,
    Tenant, User,
};
use domain::fairness::Tier;
use domain::id::{KeyId, TenantId, UserId};
use domain::job::Job;
use domain::job_defaults::JobDefaults;
use store::{EffectiveGrants, EntryFilter, GrantOutcome, Recorded, SYSTEM};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Result;
use crate::holder::{Holder, Mark};
use crate::node::Node;

/// How long the generation is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// How long memory is used when the store does not answer.
const STALE_MAX: Duration = Duration::from_secs(5);

/// How many keys are read at a time.
const KEYS_PAGE: u32 = 500;

/// Maximum number of cached entries of a kind; beyond that, all are read anew.
const REMEMBERED_MAX: usize = 10_000;

/// Entries that were read since the last change.
#[derive(Default)]
pub(crate) struct IdentityCache(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    generation: i64,
    looked_at: Option<Instant>,
    standings: HashMap<UserId, Option<Arc<EffectivePrivileges>>>,
    keys: HashMap<KeyId, Option<Arc<ApiKey>>>,
    /// By whose they are.
    all_keys: HashMap<UserId, Arc<[ApiKey]>>,
    tenants: HashMap<String, Option<TenantId>>,
    /// Effective privileges by the digest of the token.
    holders: HashMap<Mark, Option<Arc<EffectivePrivileges>>>,
    /// Secret that salts are derived from; it never changes.
    salt: Option<[u8; 32]>,
}

impl Memory {
    /// Whether it was looked at a moment ago.
    fn is_fresh(&self) -> bool {
        self.looked_at.is_some_and(|at| at.elapsed() < BELIEVED)
    }

    fn forget(&mut self) {
        self.standings.clear();
        self.keys.clear();
        self.all_keys.clear();
        self.tenants.clear();
        self.holders.clear();
    }
}

impl IdentityCache {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cached entry, if the cache was checked within its time.
    fn fresh<T>(&self, known: impl FnOnce(&Memory) -> Option<T>) -> Option<T> {
        let memory = self.memory();
        if memory.is_fresh() { known(&memory) } else { None }
    }

    /// Identity was changed here: the next question asks the store.
    pub(crate) fn changed(&self) {
        self.memory().looked_at = None;
    }
}

fn remember<K: std::hash::Hash + Eq, V>(memory: &mut HashMap<K, V>, key: K, value: V) {
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
    memory.insert(key, value);
}

impl Node {
    /// Makes sure that the cache is of the current generation, as far as that can be known. Returns
    /// the generation, under which the next reads may be cached.
    async fn look(&self) -> Result<i64> {
        let (known, age) = {
            let memory = self.register.memory();
            (memory.generation, memory.looked_at.map(|at| at.elapsed()))
        };
        if age.is_some_and(|age| age < BELIEVED) {
            return Ok(known);
        }
        let asked_at = Instant::now();
        match self.store.generation().await {
            Ok(generation) => {
                let mut memory = self.register.memory();
                if generation != memory.generation {
                    memory.forget();
                    memory.generation = generation;
                }
                memory.looked_at = Some(asked_at);
                Ok(generation)
            }
            Err(_) if age.is_some_and(|age| age < STALE_MAX) => Ok(known),
            Err(error) => Err(error.into()),
        }
    }

    /// Caches an entry unless identity has changed since the read began.
    fn keep(&self, generation: i64, keep: impl FnOnce(&mut Memory)) {
        let mut memory = self.register.memory();
        if memory.generation == generation {
            keep(&mut memory);
        }
    }

    /// A user with all that they have; none when they are not there.
    pub async fn standing(&self, user: UserId) -> Result<Option<Arc<EffectivePrivileges>>> {
        if let Some(known) = self.register.fresh(|memory| memory.standings.get(&user).cloned()) {
            return Ok(known);
        }
        let generation = self.look().await?;
        if let Some(known) = self.register.memory().standings.get(&user) {
            return Ok(known.clone());
        }
        let standing = self.read_standing(user).await?.map(Arc::new);
        self.keep(generation, |memory| remember(&mut memory.standings, user, standing.clone()));
        Ok(standing)
    }

    async fn read_standing(&self, id: UserId) -> Result<Option<EffectivePrivileges>> {
        let found = self.store.entries(&[id.0]).await?.pop();
        let Some(Entry::User(user)) = found.map(|record| record.entry) else { return Ok(None) };
        let reach = self.store.reach(id.0).await?;
        self.standing_of(user, reach).await
    }

    /// A user with effective grants; none when their tenant does not exist.
    pub(crate) async fn standing_of(
        &self,
        user: User,
        reach: EffectiveGrants,
    ) -> Result<Option<EffectivePrivileges>> {
        let mut ids: Vec<Uuid> = reach.roles.iter().map(|role| role.0).collect();
        ids.push(user.tenant.0);
        let (mut home, mut run_as) = (None, Vec::new());
        for record in self.store.entries(&ids).await? {
            match record.entry {
                Entry::Tenant(tenant) => home = Some(tenant),
                Entry::Role(role) if role.run_as => run_as.push(role.name),
                _ => {}
            }
        }
        run_as.sort();
        Ok(home.map(|tenant| {
            let privileges = reach.privileges.expanded(tenant.external_jobs);
            let (databases, queues) = (reach.databases, reach.queues);
            EffectivePrivileges { user, tenant, privileges, run_as, databases, queues }
        }))
    }

    /// A key and its user; none when either is not there, or the user is disabled. Whether the key
    /// is the right one, and has not expired, is for the interface to check.
    pub async fn key(&self, id: KeyId) -> Result<Option<(Arc<ApiKey>, Arc<EffectivePrivileges>)>> {
        let both = |memory: &Memory| {
            let key = memory.keys.get(&id)?.clone()?;
            let standing = memory.standings.get(&key.user)?.clone()?;
            Some((key, standing))
        };
        let active = |standing: &Arc<EffectivePrivileges>| !standing.user.disabled;
        if let Some((key, standing)) = self.register.fresh(both) {
            return Ok(active(&standing).then_some((key, standing)));
        }
        let generation = self.look().await?;
        let known = self.register.memory().keys.get(&id).cloned();
        let key = match known {
            Some(known) => known,
            None => {
                let found = self.store.entries(&[id.0]).await?.pop();
                let key = match found.map(|record| record.entry) {
                    Some(Entry::Key(key)) => Some(Arc::new(key)),
                    _ => None,
                };
                self.keep(generation, |memory| remember(&mut memory.keys, id, key.clone()));
                key
            }
        };
        let Some(key) = key else { return Ok(None) };
        let standing = self.standing(key.user).await?;
        Ok(standing.filter(active).map(|standing| (key, standing)))
    }

    /// All keys of a user. Which of them have expired is for the interface to check.
    pub async fn keys_of(&self, user: &User) -> Result<Arc<[ApiKey]>> {
        let generation = self.look().await?;
        if let Some(known) = self.register.memory().all_keys.get(&user.id) {
            return Ok(Arc::clone(known));
        }
        let filter = EntryFilter { kind: Kind::Key, tenant: user.tenant, owner: Some(user.id) };
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list_entries(&filter, after.as_deref(), KEYS_PAGE).await?;
            keys.extend(page.items.into_iter().filter_map(|record| match record.entry {
                Entry::Key(key) => Some(key),
                _ => None,
            }));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let keys: Arc<[ApiKey]> = keys.into();
        self.keep(generation, |memory| {
            remember(&mut memory.all_keys, user.id, Arc::clone(&keys));
        });
        Ok(keys)
    }

    /// Secret that the salts of all users are derived from.
    pub async fn salt(&self) -> Result<[u8; 32]> {
        let known = self.register.memory().salt;
        if let Some(known) = known {
            return Ok(known);
        }
        let mut drawn = [0; 32];
        for part in drawn.chunks_mut(16) {
            part.copy_from_slice(&(self.parts.random)().to_be_bytes());
        }
        let kept = self.store.salt(drawn).await?;
        self.register.memory().salt = Some(kept);
        Ok(kept)
    }

    /// The tenant of a name.
    pub async fn tenant_named(&self, name: &str) -> Result<Option<TenantId>> {
        // Names from unauthenticated clients are cached: none of them may be long.
        if name.len() > NAME_BYTES_MAX {
            return Ok(None);
        }
        let generation = self.look().await?;
        if let Some(known) = self.register.memory().tenants.get(name) {
            return Ok(*known);
        }
        let found = self.store.entry_named(Kind::Tenant, TenantId(Uuid::nil()), name).await?;
        let id = found.map(|record| TenantId(record.entry.id()));
        self.keep(generation, |memory| remember(&mut memory.tenants, name.to_owned(), id));
        Ok(id)
    }

    /// Default values of job fields in the actor's tenant.
    pub(crate) async fn job_defaults(&self, actor: &Actor) -> Result<JobDefaults> {
        if let Some(standing) = self.standing(actor.user).await?
            && standing.tenant.id == actor.tenant
        {
            return Ok(standing.tenant.job_defaults);
        }
        let found = self.store.entries(&[actor.tenant.0]).await?.pop();
        Ok(match found.map(|record| record.entry) {
            Some(Entry::Tenant(tenant)) => tenant.job_defaults,
            _ => JobDefaults::default(),
        })
    }

    /// Why a job may not run with the rights of its owner; none when it may.
    pub async fn obstacle(&self, job: &Job) -> Result<Option<String>> {
        if has_every_right(job) {
            return Ok(None);
        }
        Ok(match self.standing(job.owner).await? {
            Some(standing) => standing.obstacle(job, self.default_database(job.tenant)),
            None => Some("the job's owner does not exist any more".to_owned()),
        })
    }

    /// The database of SQL jobs of a tenant that name none. Those of the settings are for the
    /// tenant `default` alone.
    pub(crate) fn default_database(&self, tenant: TenantId) -> Option<&str> {
        self.settings.default_database.as_deref().filter(|_| tenant == TenantId::DEFAULT)
    }

    /// Makes the tenant and the user that are there from the first start.
    pub(crate) async fn found(&self) -> store::Result<()> {
        let tenant = Entry::Tenant(Tenant {
            id: TenantId::DEFAULT,
            name: "default".to_owned(),
            tier: Tier::default(),
            max_jobs: None,
            max_concurrent: None,
            requests_per_second: None,
            external_jobs: false,
            job_defaults: Default::default(),
        });
        let admin = Entry::User(User {
            id: UserId::ADMIN,
            tenant: TenantId::DEFAULT,
            name: "admin".to_owned(),
            password: None,
            scram: None,
            disabled: false,
        });
        if self.store.entries(&[admin.id()]).await?.is_empty() {
            for entry in [tenant, admin] {
                if let Recorded::Conflict(_) = self.store.put_entry(&entry, None, SYSTEM).await? {
                    tracing::error!(?entry, "cannot be made");
                }
            }
        }
        match self.store.award(&founding_award(), SYSTEM).await? {
            GrantOutcome::Done | GrantOutcome::Known => {}
            refused => tracing::error!(?refused, "the administrator lacks the privilege"),
        }
        Ok(())
    }
}

impl Node {
    /// The holder of a token with the privileges of its roles; none when it has no role here, or
    /// they are disabled.
    pub async fn holder(&self, holder: &Holder) -> Result<Option<Arc<EffectivePrivileges>>> {
        let generation = self.look().await?;
        if let Some(known) = self.register.memory().holders.get(&holder.mark) {
            return Ok(known.clone());
        }
        let standing = self.let_in(holder).await?.map(Arc::new);
        self.keep(generation, |memory| {
            remember(&mut memory.holders, holder.mark, standing.clone());
        });
        Ok(standing)
    }
}

/// Whether the rights of a job's owner need no look: this one cannot be disabled, and has every
/// privilege for ever.
pub(crate) fn has_every_right(job: &Job) -> bool {
    job.owner == UserId::ADMIN
}

/// Grant that makes the first user the administrator of the cluster.
pub(crate) fn founding_award() -> Award {
    Award {
        tenant: TenantId::DEFAULT,
        to: UserId::ADMIN.0,
        what: Awarded::Privilege(Privilege::AdministerCluster),
    }
}
