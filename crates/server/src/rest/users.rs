//! Users: people and programs with rights of their own.

use domain::access::{Deed, Entry, Kind, Record, User};
use domain::id::UserId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryResource, Shown};
use crate::actor::Actor;
use crate::app::App;
use crate::login;
use crate::problem::Result;

/// A user.
#[derive(Serialize, ToSchema)]
pub struct UserView {
    /// Their identity.
    pub user_id: Uuid,
    /// Their name.
    pub name: String,
    /// Whether they can do nothing for now, and their jobs neither.
    pub disabled: bool,
    /// Whether they can log in with a password.
    pub has_password: bool,
    /// Grows with every change.
    pub version: u32,
    /// When they were made.
    pub created_at: Timestamp,
    /// When they were last changed.
    pub updated_at: Timestamp,
}

/// A user.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// Their name, unique in the tenant.
    #[schema(min_length = 1, max_length = 100, example = "ann")]
    pub name: String,
    /// Whether they can do nothing for now.
    #[serde(default)]
    #[schema(required = false)]
    pub disabled: bool,
    /// Their password, 8 to 256 bytes. It is not shown again; null takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only, max_length = 256)]
    pub password: Option<String>,
}

impl Shown for UserView {
    const KIND: Kind = Kind::User;

    fn of(record: &Record) -> Option<Self> {
        let Entry::User(user) = &record.entry else { return None };
        let &Record { version, created_at, updated_at, .. } = record;
        Some(UserView {
            user_id: user.id.0,
            name: user.name.clone(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            version,
            created_at,
            updated_at,
        })
    }

    fn place(&self) -> String {
        format!("/v1/users/{}", self.user_id)
    }
}

impl EntryResource for UserView {
    const WORD: &'static str = "user";
    type Spec = UserSpec;

    async fn made(app: &App, actor: &Actor, spec: UserSpec) -> Result<Entry> {
        let UserSpec { name, disabled, password } = spec;
        // Hashing costs a lot, so callers without the privilege are refused before it.
        actor.may(Deed::ChangeAccess)?;
        let (id, tenant) = (UserId(entry::new_id(app)), actor.tenant);
        let (password, scram) = match password {
            Some(password) => login::kept(app, id, &name, password).await?,
            None => (None, None),
        };
        Ok(Entry::User(User { id, tenant, name, password, scram, disabled }))
    }

    async fn patched(app: &App, actor: &Actor, entry: &Entry, patch: Value) -> Result<Entry> {
        let Entry::User(user) = entry else { return Err(entry::other()) };
        actor.may(Deed::ChangeAccess)?;
        let is_named = patch.get("password").is_some();
        let now = UserSpec { name: user.name.clone(), disabled: user.disabled, password: None };
        let UserSpec { name, disabled, password } = entry::patched(&now, patch)?;
        let (password, scram) = match password {
            Some(password) => login::kept(app, user.id, &name, password).await?,
            None if is_named => (None, None),
            None => (user.password.clone(), user.scram.clone()),
        };
        Ok(Entry::User(User { name, password, scram, disabled, ..user.clone() }))
    }
}
