//! Rotation of the master key while the server works.
//!
//! ```text
//!   stored keys: old ──▶ new, old ──▶ new, old ──▶ new
//!   secrets:     old      old           …          new
//!                  new key  │  rewrap in batches   │ old key is removed
//! ```
//!
//! If the process is killed in between, the stored keys can decrypt everything: the new key is
//! stored before anything is encrypted with it, and the old one is removed when nothing needs it.
//! The next start finds two keys and continues the rotation.

use domain::audit::{Event, Kind};
use domain::cluster::NodeState;
use domain::id::TenantId;
use store::Rewrapped;

use crate::keeper::{Rotated, VaultError};
use crate::key::MasterKey;
use crate::ring::Ring;
use crate::seal;
use crate::vault::{Vault, no_key};

/// The audit event of a rotation.
fn replaced(by: &str) -> Event {
    Event {
        tenant: TenantId::CLUSTER,
        actor: by.to_owned(),
        kind: Kind::SecretChanged,
        job: None,
        run: None,
        outcome: "REQUESTED".to_owned(),
        details: "the master key is replaced".to_owned(),
    }
}

/// The number of data keys per store operation. Small, so that it does not delay others.
const BATCH: u32 = 200;

impl Vault {
    /// Creates a new master key and re-encrypts the data key of every secret with it.
    pub(crate) async fn rotate_master(&self, by: &str) -> Result<Rotated, VaultError> {
        let _alone = self.rotating.lock().await;
        self.alone_with_its_keys().await?;
        // Recorded first: an operation that cannot be recorded does not happen.
        self.store.record(&[replaced(by)]).await?;
        {
            // Nothing is being encrypted now, and later values are encrypted with the new key.
            let mut ring = self.ring.write().await;
            let next = ring.led_by(MasterKey::new((self.random)()));
            self.custody.keep(&next).map_err(VaultError::CannotRotate)?;
            *ring = next;
        }
        self.settle().await
    }

    /// Continues an interrupted rotation, if there is one.
    pub async fn resume(&self) -> Result<Rotated, VaultError> {
        let _alone = self.rotating.lock().await;
        self.settle().await
    }

    /// Re-encrypts everything with the first key, and removes the other keys when nothing needs
    /// them.
    async fn settle(&self) -> Result<Rotated, VaultError> {
        let ring = self.ring.read().await.clone();
        let first = ring.first().ok_or_else(no_key)?;
        let mut rotated = Rotated { key: first.id().to_owned(), rewrapped: 0, unreadable: 0 };
        for old in ring.keys().iter().filter(|key| *key != first) {
            rotated.rewrapped += self.rewrap_all(old, first).await?;
        }
        let left = self.store.secret_keys().await?;
        let left = left.iter().filter(|(key, _)| key != first.id());
        rotated.unreadable = left.map(|(_, count)| count).sum();
        if rotated.unreadable == 0 && ring.keys().len() > 1 {
            let alone = Ring::new([first.clone()]);
            match self.custody.keep(&alone) {
                Ok(()) => *self.ring.write().await = alone,
                // If the keys are managed outside of the process, the administrator removes the old
                // one.
                Err(problem) => {
                    tracing::info!(problem, "the old master key is not needed any more")
                }
            }
        }
        Ok(rotated)
    }

    async fn rewrap_all(&self, old: &MasterKey, new: &MasterKey) -> Result<u64, VaultError> {
        let (mut done, mut after) = (0, None);
        loop {
            let read = self.store.secrets_under(old.id(), after.as_ref(), BATCH).await?;
            let Some(last) = read.last() else { return Ok(done) };
            after = Some(last.place.clone());
            let mut batch = Vec::with_capacity(read.len());
            for secret in &read {
                let (place, version) = (&secret.place, secret.version);
                let data_key = &secret.sealed.data_key;
                match seal::rewrap(old, new, place, version, data_key, self.nonce()) {
                    Ok(data_key) => batch.push(Rewrapped {
                        place: place.clone(),
                        version,
                        from: old.id().to_owned(),
                        key: new.id().to_owned(),
                        data_key,
                    }),
                    Err(_) => tracing::error!(%place, version, "a secret does not open"),
                }
            }
            done += self.store.rewrap(&batch).await?;
        }
    }

    /// Refuses a rotation in a cluster: other nodes do not know a key that is created here, and
    /// could not decrypt the secrets.
    async fn alone_with_its_keys(&self) -> Result<(), VaultError> {
        let now = self.store.now().await?;
        let nodes = self.store.nodes().await?;
        let alive =
            nodes.iter().filter(|node| is_alive(node.state) && node.lease_until > now).count();
        if alive <= 1 {
            return Ok(());
        }
        Err(VaultError::CannotRotate(format!(
            "{alive} nodes share the secrets, and a key that is made here is known to no other: \
             give the new key to all of them with the setting master_key"
        )))
    }
}

fn is_alive(state: NodeState) -> bool {
    matches!(state, NodeState::Active | NodeState::Draining)
}
