//! The master keys that a process has.

use crate::key::MasterKey;

/// Master keys: the first one seals, all of them open.
#[derive(Clone, Debug, Default)]
pub struct Ring(Vec<MasterKey>);

impl Ring {
    /// These keys, each once.
    pub fn new(keys: impl IntoIterator<Item = MasterKey>) -> Self {
        let mut ring = Ring::default();
        for key in keys {
            if ring.find(key.id()).is_none() {
                ring.0.push(key);
            }
        }
        ring
    }

    /// The key that seals; none when there is no key at all.
    pub fn first(&self) -> Option<&MasterKey> {
        self.0.first()
    }

    /// All of them.
    pub fn keys(&self) -> &[MasterKey] {
        &self.0
    }

    /// The key of a name.
    pub fn find(&self, id: &str) -> Option<&MasterKey> {
        self.0.iter().find(|key| key.id() == id)
    }

    /// The ring with another key that seals; the ones before it still open.
    pub fn led_by(&self, key: MasterKey) -> Self {
        Ring::new(std::iter::once(key).chain(self.0.iter().cloned()))
    }
}
