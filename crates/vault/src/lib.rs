//! Secrets: encrypted before they reach a store, and decrypted only for the attempt that needs
//! them.
//!
//! ```text
//!   master key ──encrypts──▶ data key ──encrypts──▶ value
//!   (never stored)           (one for each value)
//! ```
//!
//! This is the only crate that handles keys and encrypted values at the same time. It reads no
//! file, no variable and no clock: keys and randomness are parameters, encrypted values are in a
//! [`SecretStore`](store::Safe).

mod keeper;
mod key;
mod mac;
mod ring;
mod rotate;
mod seal;
mod vault;

pub use keeper::{Answer, Health, Mac, Rotated, SecretService, VaultError};
pub use key::{BadKey, MasterKey};
pub use ring::Ring;
pub use store::{SecretView, Set};
pub use vault::{KeyCustody, Vault};
