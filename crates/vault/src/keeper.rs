//! The vault as the interfaces use it, independent of its store. Values can be written and not
//! read.

use std::future::Future;
use std::pin::Pin;

use domain::id::{JobId, TenantId};
use domain::secret::SecretPlace;
use store::{Page, SecretView, Set, StoreError};

/// A boxed future of a vault operation.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, VaultError>> + Send + 'a>>;

/// The code of a message under a secret.
pub type Mac = [u8; 32];

/// The operations of a vault.
pub trait SecretService: Send + Sync + 'static {
    /// Stores a value as the version after `expected`; 0 means that the secret must not exist.
    fn put<'a>(
        &'a self,
        place: &'a SecretPlace,
        value: &'a str,
        expected: u32,
        by: &'a str,
    ) -> Answer<'a, Set>;

    /// Removes a secret if it has the expected version.
    fn remove<'a>(&'a self, place: &'a SecretPlace, expected: u32, by: &'a str) -> Answer<'a, Set>;

    /// The metadata of a secret.
    fn find<'a>(&'a self, place: &'a SecretPlace) -> Answer<'a, Option<SecretView>>;

    /// The HMAC-SHA256 of a message under a secret, which stays here; none if there is no such
    /// secret. A value that begins with `whsec_` stands for the bytes that it encodes in base64.
    fn mac<'a>(&'a self, place: &'a SecretPlace, message: &'a [u8]) -> Answer<'a, Option<Mac>>;

    /// The secrets of a tenant and its jobs, or those of the cluster.
    fn list<'a>(
        &'a self,
        tenant: Option<TenantId>,
        after: Option<&'a (JobId, String)>,
        limit: u32,
    ) -> Answer<'a, Page<SecretView, (JobId, String)>>;

    /// Creates a new master key and re-encrypts the data key of every secret with it.
    fn rotate<'a>(&'a self, by: &'a str) -> Answer<'a, Rotated>;

    /// Whether this process can decrypt the stored secrets.
    fn health(&self) -> Answer<'_, Health>;
}

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The id of the new master key.
    pub key: String,
    /// The number of re-encrypted data keys.
    pub rewrapped: u64,
    /// The number of secrets that could not be decrypted before, and still cannot.
    pub unreadable: u64,
}

/// Whether a process can decrypt the stored secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The number of stored secrets.
    pub kept: u64,
    /// The number of secrets under each master key that this process does not have.
    pub unreadable: Vec<(String, u64)>,
    /// The number of secrets under a master key that is being replaced.
    pub behind: u64,
}

/// Why a vault operation failed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The store is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no master key to encrypt with.
    #[error("no master key: {0}")]
    NoKey(String),
    /// The master key cannot be rotated here.
    #[error("{0}")]
    CannotRotate(String),
}
