//! Logins of the SQL interface, and how long they last.
//!
//! The challenge of a name is prepared before it is known whether the name exists, and for an
//! unknown name as well. A key is too long to be guessed, so it is tried first and always; a
//! password only if the name has no wait. Guessing passwords does not lock out the owner of a key.

use std::sync::Arc;
use std::time::Duration;

use domain::access::{self, ApiKey, EffectivePrivileges, Privilege, Verifier};
use domain::audit::{Event, Kind};
use domain::id::{KeyId, TenantId, UserId};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::actor::Keys;
use crate::login::name_of;
use crate::problem::Result;
use crate::scram::{self, ITERATIONS, Proof, Salt};

/// Neither the answer nor its time shows whether a name exists.
const CHALLENGE_TAKES: Duration = Duration::from_millis(5);

/// The same for a client that is refused.
const REFUSAL_TAKES: Duration = Duration::from_millis(50);

/// The challenge for a name.
pub struct Challenge {
    tenant: String,
    user: String,
    found: Option<Found>,
    salt: Salt,
}

struct Found {
    standing: Arc<EffectivePrivileges>,
    /// Where they want to act.
    place: TenantId,
    keys: Arc<[ApiKey]>,
    /// Verifier of the key of the data folder.
    admin: Option<Box<Verifier>>,
}

impl Challenge {
    /// The salt and how often to hash.
    pub(crate) fn terms(&self) -> (Salt, u32) {
        (self.salt, ITERATIONS)
    }
}

/// A client that has logged in.
#[derive(Clone, Debug)]
pub struct SqlLogin {
    user: UserId,
    /// Where they act.
    place: TenantId,
    by: By,
}

/// The credential of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// The key of the data folder.
    Folder,
    /// A key.
    Key(KeyId),
    /// A password that is kept like this.
    Password(Box<Verifier>),
}

impl Keys {
    pub(crate) async fn challenge(&self, tenant: &str, user: &str) -> Result<Challenge> {
        let answers_at = Instant::now() + CHALLENGE_TAKES;
        let drawn = self.engine.node().salt().await?;
        let found = match self.who(tenant, user).await? {
            Some((standing, place)) => {
                let keys = self.engine.node().keys_of(&standing.user).await?;
                let admin = match standing.user.id {
                    UserId::ADMIN => Some(self.admin_verifier().await?),
                    _ => None,
                };
                Some(Found { standing, place, keys, admin })
            }
            None => None,
        };
        let salt = match &found {
            Some(found) => scram::salt_of(&drawn, found.standing.user.id.0.as_bytes()),
            None => scram::salt_of(&drawn, &name_of(tenant, user)),
        };
        sleep_until(answers_at).await;
        Ok(Challenge { tenant: tenant.to_owned(), user: user.to_owned(), found, salt })
    }

    /// The user of a name in a tenant; or the administrator of the cluster of that name, who may
    /// act in every tenant that there is.
    async fn who(
        &self,
        tenant: &str,
        user: &str,
    ) -> Result<Option<(Arc<EffectivePrivileges>, TenantId)>> {
        let may_enter = |standing: &Arc<EffectivePrivileges>| !standing.user.disabled;
        if let Some(standing) = self.engine.user_named(tenant, user).await? {
            let place = standing.user.tenant;
            return Ok(Some((standing, place)).filter(|(standing, _)| may_enter(standing)));
        }
        let place = self.engine.node().tenant_named(tenant).await?;
        let elsewhere = self.engine.user_named("default", user).await?;
        let elsewhere = elsewhere.filter(|standing| {
            may_enter(standing) && standing.privileges.has(Privilege::AdministerCluster)
        });
        Ok(elsewhere.zip(place))
    }

    async fn admin_verifier(&self) -> Result<Box<Verifier>> {
        let make = || {
            let secret = self.admin.reveal().to_owned();
            scram::verifier_of(self.engine.as_ref(), UserId::ADMIN, secret)
        };
        Ok(self.admin_verifier.get_or_try_init(make).await?.clone())
    }

    pub(crate) async fn admit(
        &self,
        challenge: &Challenge,
        proof: &Proof,
    ) -> Result<Option<(SqlLogin, String)>> {
        let refused_at = Instant::now() + REFUSAL_TAKES;
        let (tenant, user) = (&challenge.tenant, &challenge.user);
        let proved = match challenge.found.as_ref().and_then(|found| self.key_of(found, proof)) {
            Some(proved) => Some(proved),
            None => {
                let name = name_of(tenant, user);
                self.may_try(&name, tenant, user)?;
                let password = challenge.found.as_ref().and_then(|found| {
                    let kept = found.standing.user.scram.as_ref()?;
                    Some((By::Password(kept.clone()), of(proof, Some(kept))?))
                });
                if password.is_some() {
                    self.throttle.succeeded(&name);
                }
                password
            }
        };
        let (Some(found), Some((by, signature))) = (&challenge.found, proved) else {
            self.note_refusal(tenant, user, "DENIED");
            sleep_until(refused_at).await;
            return Ok(None);
        };
        let login = SqlLogin { user: found.standing.user.id, place: found.place, by };
        // A login that is not recorded is refused.
        self.engine.node().record(arrival(&found.standing, &login)).await?;
        Ok(Some((login, signature)))
    }

    /// The key that was proved.
    fn key_of(&self, found: &Found, proof: &Proof) -> Option<(By, String)> {
        if let Some(signature) = of(proof, found.admin.as_deref()) {
            return Some((By::Folder, signature));
        }
        let now = (self.clock)();
        let live = found.keys.iter().filter(|key| key.expires_at.is_none_or(|end| now < end));
        live.into_iter().find_map(|key| Some((By::Key(key.id), of(proof, key.scram.as_deref())?)))
    }

    pub(crate) async fn actor_of(&self, login: &SqlLogin) -> Result<Option<access::Actor>> {
        let actor = match &login.by {
            By::Folder => Some(access::Actor::admin()),
            By::Key(id) => self.engine.node().key(*id).await?.and_then(|(key, standing)| {
                let is_valid = key.expires_at.is_none_or(|end| (self.clock)() < end);
                is_valid.then(|| standing.actor(Some(&key)))
            }),
            By::Password(kept) => {
                let standing = self.engine.node().standing(login.user).await?;
                let same = |standing: &Arc<EffectivePrivileges>| {
                    !standing.user.disabled && standing.user.scram.as_ref() == Some(kept)
                };
                standing.filter(same).map(|standing| standing.actor(None))
            }
        };
        Ok(actor.and_then(|actor| {
            if actor.tenant == login.place {
                return Some(actor);
            }
            let everywhere = actor.privileges.has(Privilege::AdministerCluster);
            let (run_as, databases, queues) = (Vec::new(), Vec::new(), Vec::new());
            let place = access::Actor { tenant: login.place, run_as, databases, queues, ..actor };
            everywhere.then_some(place)
        }))
    }
}

fn of(proof: &Proof, kept: Option<&Verifier>) -> Option<String> {
    proof.of(kept.filter(|kept| scram::is_current(Some(kept)))?)
}

/// The audit row of a login.
fn arrival(standing: &EffectivePrivileges, login: &SqlLogin) -> Event {
    let mut details = json!({ "interface": "sql" });
    if let By::Key(key) = &login.by {
        details["key"] = key.text().into();
    }
    Event {
        tenant: standing.user.tenant,
        actor: standing.user.name.clone(),
        kind: Kind::Login,
        job: None,
        run: None,
        outcome: "DONE".to_owned(),
        details: details.to_string(),
    }
}
