//! The master keys of a process.

use crate::key::MasterKey;

/// Master keys: the first one encrypts, all of them decrypt.
#[derive(Clone, Debug, Default)]
pub struct Ring(Vec<MasterKey>);

impl Ring {
    /// These keys without duplicates.
    pub fn new(keys: impl IntoIterator<Item = MasterKey>) -> Self {
        let mut ring = Ring::default();
        for key in keys {
            if ring.find(key.id()).is_none() {
                ring.0.push(key);
            }
        }
        ring
    }

    /// The key that encrypts; none if there is no key.
    pub fn first(&self) -> Option<&MasterKey> {
        self.0.first()
    }

    /// All of them.
    pub fn keys(&self) -> &[MasterKey] {
        &self.0
    }

    /// The key with this id.
    pub fn find(&self, id: &str) -> Option<&MasterKey> {
        self.0.iter().find(|key| key.id() == id)
    }

    /// The ring with another key that encrypts; the previous keys still decrypt.
    pub fn led_by(&self, key: MasterKey) -> Self {
        Ring::new(std::iter::once(key).chain(self.0.iter().cloned()))
    }
}
