//! Classification of PostgreSQL errors for callers.

use deadpool_postgres::PoolError;
use postgres_connect::words;
use tokio_postgres::error::SqlState;

use crate::StoreError;

impl From<tokio_postgres::Error> for StoreError {
    /// Whatever keeps a statement from being applied may pass: a restart, a full disk, a failover,
    /// a lock. Only data that cannot be read stays that way.
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) if is_about_data(db.code()) => StoreError::Unreadable(db.to_string()),
            Some(db) => {
                StoreError::Unavailable(format!("{} (SQLSTATE {})", db.message(), db.code().code()))
            }
            None if is_conversion(&error) => StoreError::Unreadable(words(&error)),
            None => StoreError::Unavailable(words(&error)),
        }
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            other => StoreError::Unavailable(other.to_string()),
        }
    }
}

/// Class 22 is data that does not fit its type.
fn is_about_data(code: &SqlState) -> bool {
    code.code().starts_with("22")
}

fn is_conversion(error: &tokio_postgres::Error) -> bool {
    error.to_string().starts_with("error deserializing column")
}
