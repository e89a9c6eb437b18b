//! Encryption with XChaCha20-Poly1305 and random nonces, which are safe at any volume.
//!
//! Each value is encrypted with its own data key, and the data key with the master key. Both are
//! bound to the scope, name and version of the secret, and the wrapped data key also to the id of
//! the master key: a row that was moved, swapped or changed cannot be decrypted.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use domain::secret::SecretPlace;
use store::Sealed;
use zeroize::Zeroizing;

use crate::key::{BYTES, MasterKey};

const NONCE_BYTES: usize = 24;

/// Random bytes for a key and two nonces.
pub(crate) struct Randomness {
    pub data_key: Zeroizing<[u8; BYTES]>,
    pub nonces: [[u8; NONCE_BYTES]; 2],
}

/// The value cannot be decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DoesNotOpen;

/// Encrypts a value with a new data key, and the data key with the master key.
pub(crate) fn seal(
    master: &MasterKey,
    place: &SecretPlace,
    version: u32,
    value: &str,
    random: Randomness,
) -> Result<Sealed, DoesNotOpen> {
    let binding = place.binding(version);
    let [for_key, for_value] = random.nonces;
    Ok(Sealed {
        key: master.id().to_owned(),
        data_key: encrypt(
            master.bytes(),
            for_key,
            random.data_key.as_slice(),
            &wrapping(master, &binding),
        )?,
        value: encrypt(&random.data_key, for_value, value.as_bytes(), &binding)?,
    })
}

/// Decrypts the value of a secret.
pub(crate) fn open(
    master: &MasterKey,
    place: &SecretPlace,
    version: u32,
    sealed: &Sealed,
) -> Result<Zeroizing<String>, DoesNotOpen> {
    let binding = place.binding(version);
    let data_key = unwrap(master, &binding, &sealed.data_key)?;
    let value = decrypt(&data_key, &sealed.value, &binding)?;
    String::from_utf8(value.to_vec()).map(Zeroizing::new).map_err(|_| DoesNotOpen)
}

/// Re-encrypts a data key with another master key.
pub(crate) fn rewrap(
    from: &MasterKey,
    to: &MasterKey,
    place: &SecretPlace,
    version: u32,
    data_key: &[u8],
    nonce: [u8; NONCE_BYTES],
) -> Result<Vec<u8>, DoesNotOpen> {
    let binding = place.binding(version);
    let data_key = unwrap(from, &binding, data_key)?;
    encrypt(to.bytes(), nonce, data_key.as_slice(), &wrapping(to, &binding))
}

fn unwrap(
    master: &MasterKey,
    binding: &[u8],
    data_key: &[u8],
) -> Result<Zeroizing<[u8; BYTES]>, DoesNotOpen> {
    let data_key = decrypt(master.bytes(), data_key, &wrapping(master, binding))?;
    data_key.as_slice().try_into().map(Zeroizing::new).map_err(|_| DoesNotOpen)
}

/// The associated data of a wrapped data key.
fn wrapping(master: &MasterKey, binding: &[u8]) -> Vec<u8> {
    [b"data key ", master.id().as_bytes(), b" ", binding].concat()
}

/// Encrypts a text; returns the nonce followed by the ciphertext.
fn encrypt(
    key: &[u8; BYTES],
    nonce: [u8; NONCE_BYTES],
    msg: &[u8],
    aad: &[u8],
) -> Result<Vec<u8>, DoesNotOpen> {
    let sealed = XChaCha20Poly1305::new(key.into())
        .encrypt(&XNonce::from(nonce), Payload { msg, aad })
        .map_err(|_| DoesNotOpen)?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn decrypt(key: &[u8; BYTES], bytes: &[u8], aad: &[u8]) -> Result<Zeroizing<Vec<u8>>, DoesNotOpen> {
    let (nonce, msg) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(DoesNotOpen)?;
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), Payload { msg, aad })
        .map(Zeroizing::new)
        .map_err(|_| DoesNotOpen)
}

#[cfg(test)]
mod tests {
    use domain::id::{JobId, TenantId};
    use domain::secret::Scope;
    use uuid::Uuid;

    use super::*;

    fn random(n: u8) -> Randomness {
        Randomness {
            data_key: Zeroizing::new([n; BYTES]),
            nonces: [[n; NONCE_BYTES], [n + 1; NONCE_BYTES]],
        }
    }

    fn place(scope: Scope, name: &str) -> SecretPlace {
        SecretPlace { scope, name: name.to_owned() }
    }

    #[test]
    fn what_was_sealed_opens_where_it_was_sealed_and_nowhere_else() {
        let master = MasterKey::new([1; 32]);
        let job = JobId(Uuid::from_u128(5));
        let it = place(Scope::Job(TenantId::DEFAULT, job), "A");
        let sealed = seal(&master, &it, 3, "pässword", random(9)).unwrap();
        let plain = open(&master, &it, 3, &sealed).map(|value| value.to_string());
        assert_eq!(plain.as_deref(), Ok("pässword"));
        let elsewhere = JobId(Uuid::from_u128(6));
        for (master, place, version) in [
            (MasterKey::new([2; 32]), it.clone(), 3),
            (master.clone(), it.clone(), 4),
            (master.clone(), place(it.scope, "B"), 3),
            (master.clone(), place(Scope::Job(TenantId::DEFAULT, elsewhere), "A"), 3),
            (master.clone(), place(Scope::Job(TenantId(Uuid::from_u128(9)), job), "A"), 3),
            (master.clone(), place(Scope::Tenant(TenantId::DEFAULT), "A"), 3),
            (master.clone(), place(Scope::Cluster, "A"), 3),
        ] {
            assert_eq!(open(&master, &place, version, &sealed), Err(DoesNotOpen), "{place}");
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let master = MasterKey::new([1; 32]);
        let it = place(Scope::Cluster, "A");
        let sealed = seal(&master, &it, 1, "value", random(9)).unwrap();
        for at in 0..sealed.value.len() {
            let mut other = sealed.clone();
            other.value[at] ^= 1;
            assert_eq!(open(&master, &it, 1, &other), Err(DoesNotOpen), "value {at}");
        }
        for at in 0..sealed.data_key.len() {
            let mut other = sealed.clone();
            other.data_key[at] ^= 1;
            assert_eq!(open(&master, &it, 1, &other), Err(DoesNotOpen), "data key {at}");
        }
        for length in 0..sealed.value.len() {
            let other = Sealed { value: sealed.value[..length].to_vec(), ..sealed.clone() };
            assert_eq!(open(&master, &it, 1, &other), Err(DoesNotOpen), "cut {length}");
        }
    }

    #[test]
    fn a_rewrapped_secret_opens_under_the_new_key_only() {
        let (old, new) = (MasterKey::new([1; 32]), MasterKey::new([2; 32]));
        let it = place(Scope::Cluster, "A");
        let sealed = seal(&old, &it, 1, "value", random(9)).unwrap();
        let data_key = rewrap(&old, &new, &it, 1, &sealed.data_key, [5; NONCE_BYTES]).unwrap();
        let moved = Sealed { key: new.id().to_owned(), data_key, value: sealed.value.clone() };
        assert_eq!(open(&new, &it, 1, &moved).map(|value| value.to_string()), Ok("value".into()));
        assert_eq!(open(&old, &it, 1, &moved), Err(DoesNotOpen));
        let wrong = rewrap(&new, &old, &it, 1, &sealed.data_key, [5; NONCE_BYTES]);
        assert_eq!(wrong, Err(DoesNotOpen));
    }
}
