//! Secrets: sealed before they reach a store, opened at the last moment, and nowhere else.
//!
//! ```text
//!   master key ──wraps──▶ data key ──seals──▶ value
//!   (never stored)        (one for each value)
//! ```
//!
//! This is the only room that has a key and a sealed value in its hands at the same time. It reads
//! no file, no variable and no clock: keys and randomness are handed in, sealed values come from
//! and go to a [`Safe`](store::Safe).

mod keeper;
mod key;
mod ring;
mod rotate;
mod seal;
mod vault;

pub use keeper::{Answer, Health, Keeper, Rotated, VaultError};
pub use key::{BadKey, MasterKey};
pub use ring::Ring;
pub use store::{SecretView, Set};
pub use vault::{Custody, Vault};
