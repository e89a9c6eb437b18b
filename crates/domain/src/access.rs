//! Who may do what: tenants, users, roles, keys, privileges, and the one function that answers.
//!
//! A door finds out who asks and makes an [`Actor`] of it. Everything else is decided here, from
//! the actor and the owner of what is asked about, so that every door has the same answer.

mod actor;
mod entry;
mod privilege;
mod standing;

pub use actor::{Actor, Deed, Refusal, may};
pub use entry::{
    ApiKey, Award, Awarded, Entry, Kind, NAME_BYTES_MAX, Record, Role, Tenant, User, Verifier,
};
pub use privilege::{Privilege, Privileges, UnknownPrivilege};
pub use standing::{Rights, Standing};
