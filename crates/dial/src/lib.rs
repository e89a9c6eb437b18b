//! How a PostgreSQL server is called: what an address means, whom it trusts, and TLS.
//!
//! The store and the SQL jobs of an agent connect through it, and neither may know the other. It
//! makes no connection itself and knows nothing of what is said over one.
//!
//! ```text
//!   postgres://user:password@host-1,host-2/name?sslmode=verify-full&sslrootcert=ca.pem&port=…
//!                                               └────────── ours ──────────────────┘ └ the driver's
//! ```
//!
//! Parameters mean what they mean to libpq, psql and most drivers. What would be ignored is
//! refused. No error repeats a password.

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

/// A driver's error with its causes: its own words say only "error connecting to server".
pub fn words(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let words = cause.to_string();
        // An error of IO repeats the one that it wraps.
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}
