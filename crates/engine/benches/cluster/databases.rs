//! Databases on a PostgreSQL server of our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::Server;
use tokio_postgres::{Client, NoTls};

use crate::server;

pub struct Databases {
    server: Server,
    count: AtomicU32,
}

impl Databases {
    pub fn start() -> Result<Self> {
        Ok(Databases { server: server::start()?, count: AtomicU32::new(0) })
    }

    /// An empty database, or a copy of one that has no connections.
    pub async fn fresh(&self, of: Option<&str>) -> Result<String> {
        let name = format!("bench{}", self.count.fetch_add(1, Ordering::Relaxed));
        let of = of.unwrap_or("template0");
        let admin = connect(&self.url("postgres")).await?;
        let leave = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        admin.execute(leave, &[&of]).await?;
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {of}")).await?;
        admin.batch_execute("CHECKPOINT").await?;
        Ok(name)
    }

    /// Drops a database, with all connections to it.
    pub async fn drop(&self, name: &str) -> Result<()> {
        let admin = connect(&self.url("postgres")).await?;
        Ok(admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?)
    }

    /// Where it is.
    pub fn url(&self, name: &str) -> String {
        self.server.tcp_url(name)
    }

    /// The store in it.
    pub async fn store(&self, name: &str) -> Result<Arc<PostgresStore>> {
        let options = PostgresOptions { pool_size: 2, ..PostgresOptions::default() };
        Ok(Arc::new(PostgresStore::connect(&self.url(name), options).await?))
    }
}

pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// How many rows a table has.
pub async fn rows(client: &Client, table: &str) -> Result<u64> {
    let sql = format!("SELECT count(*) FROM punctual.{table}");
    Ok(client.query_one(&sql, &[]).await?.try_get::<_, i64>(0)?.cast_unsigned())
}
