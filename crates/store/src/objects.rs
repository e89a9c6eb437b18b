//! Things with a name, for the stores that keep them.
//!
//! A store does not read their bodies. A change names the version that it is based on, and a name
//! belongs to one object of a kind in a tenant; both are checked in the write itself.

use std::future::Future;

use domain::audit::{Event, Kind};
use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind};

use crate::{Page, Result, Set, Store};

/// A store that keeps things with a name.
pub trait NamedResources: Store {
    /// Makes an object (`expected` is 0), or gives the one of this id a new name and body if it
    /// still has the version that the change is based on. Version and times are the store's.
    fn put_object(
        &self,
        object: &Object,
        expected: u32,
    ) -> impl Future<Output = Result<Put>> + Send;

    /// Removes an object if it still has the version that was seen, and with it its secrets and
    /// what was recorded of deliveries under its id.
    fn remove_object(
        &self,
        tenant: TenantId,
        id: ObjectId,
        expected: u32,
    ) -> impl Future<Output = Result<Set>> + Send;

    /// An object by its id, whosever it is.
    fn object(&self, id: ObjectId) -> impl Future<Output = Result<Option<Object>>> + Send;

    /// An object by its name.
    fn object_by_name(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object>>> + Send;

    /// A tenant's objects of a kind by name, after the given one.
    fn list_objects(
        &self,
        tenant: TenantId,
        kind: ObjectKind,
        after: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<Object, String>>> + Send;

    /// All tenants' objects of a kind by id, after the given one.
    fn objects_of_kind(
        &self,
        kind: ObjectKind,
        after: Option<ObjectId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Object>>> + Send;
}

/// What became of a change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is this now.
    Done(Object),
    /// It has this version; 0 when it is not there.
    Conflict(u32),
    /// Another one has the name.
    NameTaken,
}

/// A page of what was read with one more than asked for.
pub(crate) fn page(mut items: Vec<Object>, limit: u32) -> Page<Object, String> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| last.name.clone());
    Page { items, next }
}

/// What the audit says about a change of an object; version 0 stands for its removal. What the
/// object holds may be a secret.
pub(crate) fn audit(object: &Object, version: u32, by: &str) -> Event {
    let (kind, name) = (object.kind.name(), &object.name);
    Event {
        tenant: object.tenant,
        actor: by.to_owned(),
        kind: Kind::SettingChanged,
        job: None,
        run: None,
        outcome: if version == 0 { "DELETED" } else { "DONE" }.to_owned(),
        details: serde_json::json!({ "kind": kind, "name": name, "version": version }).to_string(),
    }
}
