//! Users that authenticate with a token of an issuer that the settings trust.
//!
//! The first token of a person makes a user, so that jobs have an owner, the audit a name, and an
//! administrator an account to disable. The rights of a request are those of the roles of its
//! token, and those granted to the user directly. A job runs when no token is there: the user has
//! the roles of the newest token that was seen, and loses those that it does not name.
//!
//! ```text
//!   token ──▶ roles of the tenant ──▶ none: not authenticated
//!                   │
//!                   ├──▶ the user, made at first sight; disabled: not authenticated
//!                   ├──▶ newest token? the user's roles become these
//!                   └──▶ standing = what these roles reach + the user's own privileges
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::access::{Award, Awarded, EffectivePrivileges, Entry, Kind, User};
use domain::audit::{self, Event};
use domain::id::{RoleId, TenantId, UserId};
use jiff::Timestamp;
use store::{EffectiveGrants, Recorded};
use uuid::Uuid;

use crate::error::Result;
use crate::node::Node;

/// Digest that identifies a token.
pub(crate) type Mark = [u8; 32];

/// Maximum number of tokens that are cached.
const VISITORS_MAX: usize = 10_000;

/// How many awards are read at a time.
const PAGE: u32 = 500;

/// The verified claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Subject of the token, the same for all tokens of a person: the issuer and its name for them.
    pub name: String,
    /// The name of the tenant that they come to.
    pub tenant: String,
    /// The names of the roles that they have there.
    pub roles: Vec<String>,
    /// When the token was made.
    pub issued_at: Timestamp,
    /// Digest that identifies the token.
    pub mark: [u8; 32],
}

/// Tokens that were seen since the process began.
#[derive(Default)]
pub(crate) struct SeenTokens(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    tokens: HashSet<Mark>,
    /// When the newest token of a user was made.
    newest: HashMap<UserId, Timestamp>,
}

impl SeenTokens {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a token was not here before, and whether none of the user's is newer.
    fn look(&self, user: UserId, holder: &Holder) -> (bool, bool) {
        let seen = self.seen();
        let newest = seen.newest.get(&user);
        let is_newest = newest.is_none_or(|newest| holder.issued_at >= *newest);
        (!seen.tokens.contains(&holder.mark), is_newest)
    }

    /// Caches a token.
    fn note(&self, user: UserId, holder: &Holder) {
        let mut seen = self.seen();
        if seen.tokens.len() >= VISITORS_MAX {
            seen.tokens.clear();
        }
        if seen.newest.len() >= VISITORS_MAX {
            seen.newest.clear();
        }
        seen.tokens.insert(holder.mark);
        let newest = seen.newest.entry(user).or_insert(holder.issued_at);
        *newest = holder.issued_at.max(*newest);
    }
}

impl Node {
    /// Authenticates the holder of a token; none when it gives no role here, or the user is
    /// disabled.
    pub(crate) async fn let_in(&self, holder: &Holder) -> Result<Option<EffectivePrivileges>> {
        let Some(tenant) = self.tenant_named(&holder.tenant).await? else { return Ok(None) };
        let mut roles = Vec::new();
        for name in &holder.roles {
            let found = self.store.entry_named(Kind::Role, tenant, name).await?;
            roles.extend(found.map(|record| RoleId(record.entry.id())));
        }
        if roles.is_empty() {
            return Ok(None);
        }
        let Some(user) = self.user_of(tenant, holder).await? else { return Ok(None) };
        if user.disabled {
            return Ok(None);
        }
        let held = self.awards_of(&user).await?;
        let (is_new, is_newest) = self.visitors.look(user.id, holder);
        if is_newest {
            self.give(&user, &held, &roles, &holder.name).await?;
        }
        if is_new {
            self.record(arrival(&user)).await?;
        }
        self.visitors.note(user.id, holder);
        let reach = self.reach_of(&held, roles).await?;
        self.standing_of(user, reach).await
    }

    /// The user of a token, made at first sight.
    async fn user_of(&self, tenant: TenantId, holder: &Holder) -> Result<Option<User>> {
        let id = UserId(Uuid::new_v5(&tenant.0, holder.name.as_bytes()));
        let read = async || {
            let found = self.store.entries(&[id.0]).await?.pop();
            Ok(match found.map(|record| record.entry) {
                Some(Entry::User(user)) => Some(user),
                _ => None,
            })
        };
        if let Some(user) = read().await? {
            return Ok(Some(user));
        }
        let name = holder.name.clone();
        let user = User { id, tenant, name, password: None, scram: None, disabled: false };
        match self.store.put_entry(&Entry::User(user.clone()), None, &holder.name).await? {
            Recorded::Done(_) => {
                self.register.changed();
                Ok(Some(user))
            }
            // Two came at once, or the tenant went.
            Recorded::Taken | Recorded::Conflict(_) => read().await,
        }
    }

    async fn awards_of(&self, user: &User) -> Result<Vec<Award>> {
        let (mut awards, mut after) = (Vec::new(), None);
        loop {
            let to = Some(user.id.0);
            let page = self.store.list_awards(user.tenant, to, after, PAGE).await?;
            awards.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(awards),
            }
        }
    }

    /// Makes the user's roles these, for the jobs that run when no token is there.
    async fn give(&self, user: &User, held: &[Award], roles: &[RoleId], by: &str) -> Result<()> {
        let award = |role: &RoleId| {
            let what = Awarded::Role(*role);
            Award { tenant: user.tenant, to: user.id.0, what }
        };
        let wanted: Vec<Award> = roles.iter().map(award).collect();
        let is_role = |award: &&Award| matches!(award.what, Awarded::Role(_));
        let surplus = held.iter().filter(is_role).filter(|award| !wanted.contains(award));
        let mut is_other = false;
        for award in surplus {
            is_other |= self.store.revoke(award.id(), by).await?;
        }
        for award in wanted.iter().filter(|award| !held.contains(award)) {
            self.store.award(award, by).await?;
            is_other = true;
        }
        if is_other {
            self.register.changed();
        }
        Ok(())
    }

    /// Rights from the user's own grants, roles apart, and from some roles together.
    async fn reach_of(&self, own: &[Award], roles: Vec<RoleId>) -> Result<EffectiveGrants> {
        let (mut privileges, mut databases) = (Vec::new(), Vec::new());
        let mut queues = Vec::new();
        for award in own {
            match &award.what {
                Awarded::Privilege(privilege) => privileges.push(*privilege),
                Awarded::Database(name) => databases.push(name.clone()),
                Awarded::Queue(grant) => queues.push(*grant),
                Awarded::Role(_) => {}
            }
        }
        let mut all = roles.clone();
        for role in roles {
            let reach = self.store.reach(role.0).await?;
            privileges.extend(reach.privileges.iter());
            databases.extend(reach.databases);
            queues.extend(reach.queues);
            all.extend(reach.roles);
        }
        Ok(EffectiveGrants {
            privileges: privileges.into_iter().collect(),
            roles: all,
            databases,
            queues,
        })
    }
}

/// The audit row of a token that was not seen before.
fn arrival(user: &User) -> Event {
    Event {
        tenant: user.tenant,
        actor: user.name.clone(),
        kind: audit::Kind::Login,
        job: None,
        run: None,
        outcome: "DONE".to_owned(),
        details: r#"{"with":"token"}"#.to_owned(),
    }
}
