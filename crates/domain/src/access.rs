//! Authorization: tenants, users, roles, keys, privileges, and the one function that decides.
//!
//! An interface authenticates the client and creates an [`Actor`]. All decisions are made here,
//! from the actor and the owner of the object, so every interface has the same answer.

mod actor;
mod entry;
mod privilege;
mod standing;

pub use actor::{Actor, Deed, Refusal, may};
pub use entry::{
    ApiKey, Award, Awarded, Entry, GrantText, Kind, NAME_BYTES_MAX, QueueGrant, QueueRight, Record,
    Role, Tenant, User, Verifier,
};
pub use privilege::{Privilege, Privileges, UnknownPrivilege};
pub use standing::{EffectivePrivileges, Rights};
