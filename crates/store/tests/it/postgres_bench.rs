//! A database of its own for each test of the PostgreSQL store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jiff::Timestamp;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::Server;
use tokio_postgres::{Client, NoTls};

use crate::bench::Bench;

/// A database on a server.
pub struct PostgresBench {
    server: &'static Server,
    database: String,
    /// Address for stores, if it is not the server's own.
    way: Option<String>,
}

impl PostgresBench {
    /// An empty database, without tables, on the server that the tests share.
    pub async fn empty() -> Self {
        Self::empty_on(Server::shared()).await
    }

    /// An empty database on a server of one's own.
    pub async fn empty_on(server: &'static Server) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let database = format!("test_{}", LAST.fetch_add(1, Ordering::SeqCst));
        let create = format!("CREATE DATABASE {database} TEMPLATE template0");
        connect(&server.url("postgres")).await.batch_execute(&create).await.unwrap();
        PostgresBench { server, database, way: None }
    }

    /// The same, reached by stores through another address; `DATABASE` in it is the name.
    pub fn reached_by(self, url: String) -> Self {
        PostgresBench { way: Some(url.replace("DATABASE", &self.database)), ..self }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.server.url(&self.database)
    }

    /// A connection beside the store.
    pub async fn connect(&self) -> Client {
        connect(&self.url()).await
    }
}

impl Bench for PostgresBench {
    type S = PostgresStore;

    async fn open() -> Self {
        PostgresBench::empty().await
    }

    async fn handle(&self) -> Arc<PostgresStore> {
        // Few connections, so that calls meet on them.
        let options = PostgresOptions { pool_size: 4, ..PostgresOptions::default() };
        let url = self.way.clone().unwrap_or_else(|| self.url());
        Arc::new(PostgresStore::connect(&url, options).await.unwrap())
    }

    async fn reach(&self, at: Timestamp) {
        let seconds = at.as_microsecond() as f64 / 1e6 + 0.001;
        let sleep = "SELECT pg_sleep_until(to_timestamp($1))";
        self.connect().await.query(sleep, &[&seconds]).await.unwrap();
    }

    async fn close(self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.database);
        connect(&self.server.url("postgres")).await.batch_execute(&drop).await.unwrap();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
