//! Connecting to PostgreSQL: addresses, trusted certificates and TLS.
//!
//! The store and the SQL jobs of an agent connect through this crate, and neither may depend on the
//! other. It opens no connection itself and knows nothing of what is sent over one.
//!
//! ```text
//!   postgres://user:password@host-1,host-2/name?sslmode=verify-full&sslrootcert=ca.pem&port=…
//!                                               └────────── this crate ────────────┘ └ the driver
//! ```
//!
//! Parameters mean what they mean to libpq, psql and most drivers. Parameters that would be ignored
//! are refused. No error contains a password.

mod address;
mod parameters;
mod tls;
mod trouble;
mod verifier;

pub use address::{Address, AddressError, Manner};
pub use tls::Tls;
pub use trouble::{POOLER, Trouble};

use std::error::Error;

/// An error and its causes.
pub fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| {
        let error: &'e (dyn Error + 'static) = *error;
        error.source()
    })
}

/// The message of a driver's error with its causes: the error itself only reads "error connecting
/// to server".
pub fn words(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let words = cause.to_string();
        // An IO error repeats the error that it wraps.
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}
