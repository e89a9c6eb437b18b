//! The vault: encrypts secrets for a store and decrypts them.

use std::future::Future;
use std::pin::Pin;

use agent::{SecretError, Secrets};
use domain::action::Assignment;
use domain::id::{JobId, ObjectId, TenantId};
use domain::object::Object;
use domain::secret::{Scope, SecretPlace};
use store::{KeptSecret, Page, SecretView, Set, SharedStore};
use tokio::sync::{Mutex, RwLock};
use zeroize::Zeroizing;

use crate::keeper::{Answer, Health, Mac, Rotated, SecretService, VaultError};
use crate::key::MasterKey;
use crate::mac;
use crate::ring::Ring;
use crate::seal::{self, Randomness};

/// The storage of master keys, and whether a new one can be stored there.
pub trait KeyCustody: Send + Sync + 'static {
    /// Stores exactly these keys, durably, or returns why that is not possible.
    fn keep(&self, ring: &Ring) -> Result<(), String>;
}

/// Encrypts and decrypts secrets.
pub struct Vault {
    pub(crate) store: SharedStore,
    /// Locked for reading while a value is encrypted and written: after the first key was replaced,
    /// no value is encrypted with the old one.
    pub(crate) ring: RwLock<Ring>,
    /// One rotation at a time.
    pub(crate) rotating: Mutex<()>,
    pub(crate) custody: Box<dyn KeyCustody>,
    pub(crate) random: Box<dyn Fn() -> [u8; 32] + Send + Sync>,
}

impl Vault {
    /// The vault of a store. `random` returns fresh random bytes with every call.
    pub fn new(
        store: impl Into<SharedStore>,
        ring: Ring,
        custody: impl KeyCustody,
        random: impl Fn() -> [u8; 32] + Send + Sync + 'static,
    ) -> Self {
        Vault {
            store: store.into(),
            ring: RwLock::new(ring),
            rotating: Mutex::default(),
            custody: Box::new(custody),
            random: Box::new(random),
        }
    }

    pub(crate) fn nonce(&self) -> [u8; 24] {
        let random = (self.random)();
        *random.first_chunk().expect("32 bytes are more than 24")
    }

    async fn seal(
        &self,
        place: &SecretPlace,
        value: &str,
        expected: u32,
        by: &str,
    ) -> Result<Set, VaultError> {
        let ring = self.ring.read().await;
        let master = ring.first().ok_or_else(no_key)?;
        let version = expected.saturating_add(1);
        let random = Randomness {
            data_key: Zeroizing::new((self.random)()),
            nonces: [self.nonce(), self.nonce()],
        };
        let sealed = seal::seal(master, place, version, value, random)
            .map_err(|_| VaultError::NoKey("the value could not be sealed".to_owned()))?;
        let (place, changed_by) = (place.clone(), by.to_owned());
        Ok(self.store.keep_secret(&KeptSecret { place, version, sealed, changed_by }).await?)
    }

    /// The value of the secret with this name that is visible to an assignment.
    async fn open(
        &self,
        assignment: &Assignment,
        name: &str,
    ) -> Result<Option<Zeroizing<String>>, SecretError> {
        let unreadable =
            |problem: String| SecretError::Unreadable { name: name.to_owned(), problem };
        let scopes = Scope::seen_by(assignment.tenant, assignment.job);
        let places = scopes.map(|scope| SecretPlace { scope, name: name.to_owned() });
        // No key is removed between reading and decrypting.
        let ring = self.ring.read().await;
        let found = self.store.secrets(&places).await;
        let mut found = found.map_err(|error| unreadable(error.to_string()))?;
        // The most specific secret hides the others, even if it cannot be decrypted.
        found.sort_by_key(|secret| scopes.iter().position(|scope| *scope == secret.place.scope));
        match found.first() {
            Some(secret) => value(&ring, secret).map(Some).map_err(unreadable),
            None => Ok(None),
        }
    }

    /// The value of a secret of a resource; none if it does not exist (any more).
    pub async fn open_part(
        &self,
        object: &Object,
        part: &str,
    ) -> Result<Option<Zeroizing<String>>, String> {
        let place = SecretPlace::of_object(object.tenant, object.id, part);
        let ring = self.ring.read().await;
        let found = self.store.secrets(&[place]).await.map_err(|error| error.to_string())?;
        match found.first() {
            Some(secret) => value(&ring, secret).map(Some),
            None => Ok(None),
        }
    }
}

impl Vault {
    /// Whether this node has the master key of the cluster: it can decrypt a value that the first
    /// node encrypted. The first node creates this value here. A rotation re-encrypts it like every
    /// other value.
    pub async fn has_cluster_key(&self) -> Result<bool, VaultError> {
        let place = SecretPlace::of_object(TenantId::CLUSTER, ObjectId(JobId::NONE.0), "check");
        // Of two nodes that start first, one finds the value of the other.
        for _ in 0..2 {
            let ring = self.ring.read().await;
            if let Some(secret) = self.store.secrets(std::slice::from_ref(&place)).await?.first() {
                return Ok(value(&ring, secret).is_ok());
            }
            drop(ring);
            self.seal(&place, "the master key of the cluster opens this", 0, "punctual").await?;
        }
        Ok(false)
    }
}

/// Decrypts a stored secret, or returns why that is not possible.
fn value(ring: &Ring, secret: &KeptSecret) -> Result<Zeroizing<String>, String> {
    let KeptSecret { place, version, sealed, .. } = secret;
    let master: &MasterKey = ring.find(&sealed.key).ok_or_else(|| {
        let key = &sealed.key;
        format!("it is encrypted with the master key {key}, which this node does not have")
    })?;
    seal::open(master, place, *version, sealed)
        .map_err(|_| "it does not open: it was changed".to_owned())
}

pub(crate) fn no_key() -> VaultError {
    VaultError::NoKey("this node was given none".to_owned())
}

impl Secrets for Vault {
    fn get<'a>(
        &'a self,
        assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>> {
        Box::pin(async move {
            let value = self.open(assignment, name).await?;
            Ok(value.map(|value| value.to_string()))
        })
    }
}

impl SecretService for Vault {
    fn put<'a>(
        &'a self,
        place: &'a SecretPlace,
        value: &'a str,
        expected: u32,
        by: &'a str,
    ) -> Answer<'a, Set> {
        Box::pin(self.seal(place, value, expected, by))
    }

    fn remove<'a>(&'a self, place: &'a SecretPlace, expected: u32, by: &'a str) -> Answer<'a, Set> {
        Box::pin(async move { Ok(self.store.remove_secret(place, expected, by).await?) })
    }

    fn find<'a>(&'a self, place: &'a SecretPlace) -> Answer<'a, Option<SecretView>> {
        Box::pin(async move { Ok(self.store.secret_view(place).await?) })
    }

    fn mac<'a>(&'a self, place: &'a SecretPlace, message: &'a [u8]) -> Answer<'a, Option<Mac>> {
        Box::pin(async move {
            let ring = self.ring.read().await;
            let found = self.store.secrets(std::slice::from_ref(place)).await?;
            let Some(secret) = found.first() else { return Ok(None) };
            let value = value(&ring, secret).map_err(VaultError::NoKey)?;
            Ok(mac::mac(&value, message))
        })
    }

    fn list<'a>(
        &'a self,
        tenant: Option<TenantId>,
        after: Option<&'a (JobId, String)>,
        limit: u32,
    ) -> Answer<'a, Page<SecretView, (JobId, String)>> {
        Box::pin(async move { Ok(self.store.list_secrets(tenant, after, limit).await?) })
    }

    fn rotate<'a>(&'a self, by: &'a str) -> Answer<'a, Rotated> {
        Box::pin(self.rotate_master(by))
    }

    fn health(&self) -> Answer<'_, Health> {
        Box::pin(async move {
            let keys = self.store.secret_keys().await?;
            let ring = self.ring.read().await;
            let mut health = Health::default();
            for (key, count) in keys {
                health.kept += count;
                match ring.find(&key) {
                    None => health.unreadable.push((key, count)),
                    found if found != ring.first() => health.behind += count,
                    _ => {}
                }
            }
            Ok(health)
        })
    }
}
