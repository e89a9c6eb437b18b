//! The master key and its id.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The length of a key.
pub(crate) const BYTES: usize = 32;

/// A key that encrypts data keys. It is wiped from memory when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey {
    bytes: [u8; BYTES],
    #[zeroize(skip)]
    id: String,
}

/// The text is not a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 64 random hex digits")]
pub struct BadKey;

impl MasterKey {
    /// The key with these random bytes.
    pub fn new(bytes: [u8; BYTES]) -> Self {
        let hash = Sha256::new().chain_update(b"punctual master key").chain_update(bytes);
        let id = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        MasterKey { bytes, id }
    }

    /// Its id: it distinguishes keys and reveals nothing about them.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key in text form.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(self.bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }
}

impl FromStr for MasterKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let text = text.trim().as_bytes();
        let mut bytes = [0; BYTES];
        if text.len() != 2 * BYTES || !text.iter().all(u8::is_ascii_hexdigit) {
            return Err(BadKey);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| BadKey)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadKey)?;
        }
        // A placeholder that was not replaced by a key.
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            bytes.zeroize();
            return Err(BadKey);
        }
        Ok(MasterKey::new(bytes))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_text_and_is_not_printed() {
        let key = MasterKey::new(std::array::from_fn(|n| n as u8));
        assert_eq!(key.reveal().parse(), Ok(key.clone()));
        let printed = format!("{key:?}");
        assert!(printed.starts_with("MasterKey(") && !printed.contains(&key.reveal()[..16]));
        assert_ne!(key.id(), MasterKey::new([8; 32]).id());
        for text in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32), &"00".repeat(32)]
        {
            assert_eq!(text.parse::<MasterKey>(), Err(BadKey), "{text}");
        }
    }
}
