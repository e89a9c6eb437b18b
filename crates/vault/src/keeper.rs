//! The vault as the doors see it: the same whatever its store. Values go in and never come out.

use std::future::Future;
use std::pin::Pin;

use domain::id::{JobId, TenantId};
use domain::secret::SecretPlace;
use store::{Page, SecretView, Set, StoreError};

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, VaultError>> + Send + 'a>>;

/// What the doors ask of a vault.
pub trait Keeper: Send + Sync + 'static {
    /// Keeps a value. Version `expected` is replaced; 0 stands for one that is not there.
    fn put<'a>(
        &'a self,
        place: &'a SecretPlace,
        value: &'a str,
        expected: u32,
        by: &'a str,
    ) -> Answer<'a, Set>;

    /// Removes a secret if it has the expected version.
    fn remove<'a>(&'a self, place: &'a SecretPlace, expected: u32, by: &'a str) -> Answer<'a, Set>;

    /// What may be known about a secret.
    fn find<'a>(&'a self, place: &'a SecretPlace) -> Answer<'a, Option<SecretView>>;

    /// The secrets of a tenant and its jobs, or those of the cluster.
    fn list<'a>(
        &'a self,
        tenant: Option<TenantId>,
        after: Option<&'a (JobId, String)>,
        limit: u32,
    ) -> Answer<'a, Page<SecretView, (JobId, String)>>;

    /// Makes a new master key and puts every secret under it.
    fn rotate<'a>(&'a self, by: &'a str) -> Answer<'a, Rotated>;

    /// Whether this process can read what is kept.
    fn health(&self) -> Answer<'_, Health>;
}

/// What became of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The name of the new master key.
    pub key: String,
    /// How many secrets were put under it.
    pub rewrapped: u64,
    /// How many could not be read before, and still cannot.
    pub unreadable: u64,
}

/// Whether a process can read what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Secrets that are kept.
    pub kept: u64,
    /// Secrets under master keys that this process does not have, by key.
    pub unreadable: Vec<(String, u64)>,
    /// Secrets under a key that is being replaced.
    pub behind: u64,
}

/// Why a vault cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no master key to seal with.
    #[error("there is no master key: {0}")]
    NoKey(String),
    /// The master key cannot be replaced here.
    #[error("{0}")]
    CannotRotate(String),
}
