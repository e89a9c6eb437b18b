//! Keys: `pk_<id>_<secret>_<crc>`. The prefix is the kind of the key, the id identifies it, the
//! secret is 32 random bytes, and the checksum finds keys that were copied badly, or leaked into a
//! text, without a request.

use domain::id::KeyId;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// The stored hash of a key.
///
/// It is compared by [`KeyHash::is`] only, in constant time.
#[derive(Clone)]
pub struct KeyHash([u8; 32]);

/// The kind of principal that a key belongs to. A key of one kind is not accepted as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A user, at REST and SQL.
    User,
    /// An agent, at the endpoint for agents.
    Agent,
    /// An agent that enrols, once.
    JoinToken,
}

impl KeyKind {
    /// The prefix of keys of this kind.
    fn prefix(self) -> &'static str {
        match self {
            KeyKind::User => "pk_",
            KeyKind::Agent => "ak_",
            KeyKind::JoinToken => "jt_",
        }
    }
}

/// A key in the form in which it travels. It does not show itself.
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    text: String,
}

impl Key {
    /// A new key of a user. `random` must be 40 bytes of a cryptographic generator.
    pub fn new(random: [u8; 40]) -> Self {
        Key::of_kind(KeyKind::User, random)
    }

    fn of_kind(kind: KeyKind, random: [u8; 40]) -> Self {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&random[..8]);
        let id = KeyId(Uuid::from_bytes(id));
        let body = format!("{}{}_{}", kind.prefix(), id.text(), secret_text(&random[8..]));
        let sum = crc32fast::hash(body.as_bytes());
        Key { id, text: format!("{body}_{sum:08x}") }
    }

    /// A new key of a user, of random numbers.
    pub fn drawn(random: &(dyn Fn() -> u128 + Send + Sync)) -> Self {
        Key::drawn_for(KeyKind::User, random)
    }

    /// A new key of a kind, of random numbers.
    pub fn drawn_for(kind: KeyKind, random: &(dyn Fn() -> u128 + Send + Sync)) -> Self {
        let mut bytes = [0; 40];
        for part in bytes.chunks_mut(16) {
            part.copy_from_slice(&random().to_be_bytes()[..part.len()]);
        }
        Key::of_kind(kind, bytes)
    }

    /// Reads a user's key that was written down; none when it is not one, or a letter is wrong.
    pub fn parse(text: &str) -> Option<Self> {
        Key::parse_of(KeyKind::User, text)
    }

    /// Reads a key of a kind that was written down.
    pub fn parse_of(kind: KeyKind, text: &str) -> Option<Self> {
        let (body, sum) = text.rsplit_once('_')?;
        let (id, secret) = body.strip_prefix(kind.prefix())?.split_once('_')?;
        let id = KeyId::of_text(id)?;
        let is_hex =
            |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let well_formed = sum.len() == 8
            && is_hex(sum)
            && secret.len() == 64
            && secret.bytes().all(|byte| byte.is_ascii_hexdigit())
            && u32::from_str_radix(sum, 16) == Ok(crc32fast::hash(body.as_bytes()));
        well_formed.then(|| Key { id, text: text.to_owned() })
    }

    /// The text, to be written down once.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Which key it is.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The hash that is stored of it.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.text.as_bytes()).into())
    }
}

fn secret_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl From<[u8; 32]> for KeyHash {
    fn from(hash: [u8; 32]) -> Self {
        KeyHash(hash)
    }
}

impl From<KeyHash> for [u8; 32] {
    fn from(hash: KeyHash) -> Self {
        hash.0
    }
}

impl KeyHash {
    /// Whether both are the hash of the same key. The comparison takes constant time.
    pub fn is(&self, other: &KeyHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_a_wrong_letter_is_found() {
        let key = Key::new([7; 40]);
        let text = key.reveal().to_owned();
        assert!(text.starts_with("pk_0707070707070707_"), "{text}");
        assert_eq!(key.id().text(), "0707070707070707");
        assert!(Key::parse(&text).is_some_and(|read| key.hash().is(&read.hash())));
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] ^= 1;
            assert!(Key::parse(&String::from_utf8_lossy(&wrong)).is_none(), "letter {at}");
        }
        for wrong in ["", "pk_", "pk___", "pk_a_b_c", &text[1..], &text[..text.len() - 1]] {
            assert!(Key::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_key_of_one_kind_is_none_of_another() {
        let kinds = [KeyKind::User, KeyKind::Agent, KeyKind::JoinToken];
        for kind in kinds {
            let text = Key::of_kind(kind, [7; 40]).reveal().to_owned();
            for other in kinds {
                assert_eq!(Key::parse_of(other, &text).is_some(), kind == other, "{text}");
            }
        }
    }

    #[test]
    fn keys_are_compared_as_a_whole() {
        let key = Key::new([1; 40]);
        assert!(!key.hash().is(&Key::new([2; 40]).hash()));
        // Wherever it differs, and however little.
        let right: [u8; 32] = key.hash().into();
        for bit in 0..256 {
            let mut wrong = right;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!KeyHash::from(wrong).is(&key.hash()), "bit {bit}");
        }
    }
}
