//! Tests of databases and alert channels before a job or an alert depends on them.

use std::future::Future;
use std::pin::Pin;

use domain::id::TenantId;
use domain::job::Definition;
use domain::object::Object;

/// Result of a test: the reply, or the reason of the failure.
pub type Tried<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// Whether something is known, or why not.
pub type Known<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Tries things out, as jobs and alerts would use them.
pub trait Trials: Send + Sync + 'static {
    /// Connects to a tenant's database.
    fn database<'a>(&'a self, tenant: TenantId, name: &'a str) -> Tried<'a>;

    /// Whether this server knows a tenant's database, or the default one when the name is absent;
    /// if not, why.
    fn known_database<'a>(&'a self, tenant: TenantId, name: Option<&'a str>) -> Known<'a>;

    /// Why the policy of this server refuses the action of a tenant's job, as far as its definition
    /// shows; none when it permits it.
    fn objection(&self, tenant: TenantId, definition: &Definition) -> Option<String>;

    /// Sends a message through a channel.
    fn channel<'a>(&'a self, channel: &'a Object) -> Tried<'a>;
}
