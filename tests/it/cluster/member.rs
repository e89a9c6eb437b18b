//! A server of a cluster: its name, its settings, and its process while it is up.

use std::path::Path;

use testbed::postgres;

use crate::serve::process::Server;

/// A key that all of them have.
const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A server of a cluster.
pub struct Member {
    /// The node's name.
    pub name: String,
    store: String,
    variables: Vec<(&'static str, String)>,
    server: Option<Server>,
}

impl Member {
    /// A server that has not been started.
    pub fn new(name: &str, store: &str) -> Self {
        let variables = [
            ("PUNCTUAL_ENGINE__NAME", name),
            ("PUNCTUAL_MASTER_KEY", MASTER_KEY),
            ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
        ];
        Member {
            name: name.to_owned(),
            store: store.to_owned(),
            variables: variables.map(|(name, value)| (name, value.to_owned())).to_vec(),
            server: None,
        }
    }

    /// With one more variable of the environment.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// With a short lease, for tests that wait for the end of one.
    pub fn hasty(self) -> Self {
        self.with("PUNCTUAL_ENGINE__LEASE", "4s").with("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms")
    }

    /// Starts the server in its folder, and waits until it is ready.
    pub fn start(&mut self, folder: &Path) {
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let store = ["--store", self.store.as_str()];
        self.server = Some(Server::start_with(&folder.join(&self.name), &store, &variables));
    }

    /// Whether it was started and not taken.
    pub fn is_up(&self) -> bool {
        self.server.is_some()
    }

    /// Its process.
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap_or_else(|| panic!("{} is not up", self.name))
    }

    /// Its process, to be ended.
    pub fn take(&mut self) -> Server {
        self.server.take().unwrap_or_else(|| panic!("{} is not up", self.name))
    }
}

/// Does something with a connection.
pub fn ask<T>(url: &str, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        work(&client).await
    })
}

/// A new database on the server that tests share.
pub fn database(test: &str) -> String {
    let server = postgres::Server::shared();
    create_database(&server.url("postgres"), test);
    server.url(test)
}

/// A new database on another server.
pub fn create_database(url: &str, name: &str) {
    let create = format!("CREATE DATABASE {name}");
    ask(url, async |client| client.batch_execute(&create).await).unwrap();
}
