//! Roles: bundles of rights with a name.

use domain::access::{Entry, Kind, Record, Role};
use domain::id::{RoleId, TenantId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::{self, EntryResource, Shown};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::Result;

/// A role.
#[derive(Serialize, ToSchema)]
pub struct RoleView {
    /// Its identity.
    pub role_id: Uuid,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Whether jobs of its members may act as the role of the same name on a database.
    pub run_as: bool,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A role.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSpec {
    /// Its name, unique in the tenant.
    #[schema(min_length = 1, max_length = 100, example = "operators")]
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether jobs of its members may act as the role of the same name on a database. Only an
    /// administrator of the cluster sets it.
    #[serde(default)]
    #[schema(required = false)]
    pub run_as: bool,
}

impl Shown for RoleView {
    const KIND: Kind = Kind::Role;

    fn of(record: &Record) -> Option<Self> {
        let Entry::Role(role) = &record.entry else { return None };
        let &Record { version, created_at, updated_at, .. } = record;
        let RoleSpec { name, description, run_as } = RoleSpec::of(role);
        let role_id = role.id.0;
        Some(RoleView { role_id, name, description, run_as, version, created_at, updated_at })
    }

    fn place(&self) -> String {
        format!("/v1/roles/{}", self.role_id)
    }
}

impl RoleSpec {
    fn of(role: &Role) -> Self {
        let Role { name, description, run_as, .. } = role.clone();
        RoleSpec { name, description, run_as }
    }

    fn entry(self, id: RoleId, tenant: TenantId) -> Entry {
        let RoleSpec { name, description, run_as } = self;
        Entry::Role(Role { id, tenant, name, description, run_as })
    }
}

impl EntryResource for RoleView {
    const WORD: &'static str = "role";
    type Spec = RoleSpec;

    async fn made(app: &App, actor: &Actor, spec: RoleSpec) -> Result<Entry> {
        Ok(spec.entry(RoleId(entry::new_id(app)), actor.tenant))
    }

    async fn patched(_: &App, _: &Actor, entry: &Entry, patch: Value) -> Result<Entry> {
        let Entry::Role(role) = entry else { return Err(entry::other()) };
        Ok(entry::patched(&RoleSpec::of(role), patch)?.entry(role.id, role.tenant))
    }
}
