//! A database of its own for each test of the PostgreSQL store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use store::postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::NoTls;

use crate::bench::Bench;
use crate::postgres_server::Server;

/// A database on the shared server.
pub struct PostgresBench {
    database: String,
}

impl PostgresBench {
    /// An empty database, without tables.
    pub async fn empty() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let database = format!("test_{}", LAST.fetch_add(1, Ordering::SeqCst));
        administer(&format!("CREATE DATABASE {database} TEMPLATE template0")).await;
        PostgresBench { database }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        Server::shared().url(&self.database)
    }

    /// A connection beside the store.
    pub async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.database).await
    }
}

impl Bench for PostgresBench {
    type S = PostgresStore;

    async fn open() -> Self {
        PostgresBench::empty().await
    }

    async fn door(&self) -> Arc<PostgresStore> {
        // Few connections, so that calls meet on them.
        let options = PostgresOptions { pool_size: 4, ..PostgresOptions::default() };
        Arc::new(PostgresStore::connect(&self.url(), options).await.unwrap())
    }

    async fn close(self) {
        administer(&format!("DROP DATABASE {} WITH (FORCE)", self.database)).await;
    }
}

async fn administer(statement: &str) {
    connect("postgres").await.batch_execute(statement).await.unwrap();
}

async fn connect(database: &str) -> tokio_postgres::Client {
    let url = Server::shared().url(database);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
