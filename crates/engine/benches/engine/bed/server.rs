//! A PostgreSQL server with the peers' rules.

use anyhow::Result;
use testbed::postgres::{Server, Setup};

/// Settings that `../shared/peers` measures with.
const SETTINGS: [&str; 7] = [
    "max_connections=200",
    "shared_buffers=512MB",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "timezone=UTC",
    "log_timezone=UTC",
];

/// A server that ends with the value.
pub fn start() -> Result<Server> {
    let setup = Setup::default().tcp()?;
    Ok(SETTINGS.into_iter().fold(setup, Setup::set).start())
}
