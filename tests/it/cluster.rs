//! Several servers on one PostgreSQL: what they did is read in a database that is not theirs.

mod failover;
mod ledger;
mod racing;
mod shards;

use std::path::Path;

use serde_json::{Value, json};

use crate::serve::process::{Server, until};
use ledger::Ledger;

/// A key that all of them have.
const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A cluster, and the ledger that its jobs write to.
struct Cluster {
    servers: Vec<(String, Server)>,
    ledger: Ledger,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts a server for each name.
    fn start(test: &str, names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(test);
        let servers = names
            .iter()
            .map(|name| ((*name).to_owned(), serve(folder.path(), name, &ledger)))
            .collect();
        Cluster { servers, ledger, _folder: folder }
    }

    fn server(&self, name: &str) -> &Server {
        &self.servers.iter().find(|(of, _)| of == name).unwrap().1
    }

    /// Takes a server out of the list, to be ended.
    fn take(&mut self, name: &str) -> Server {
        let place = self.servers.iter().position(|(of, _)| of == name).unwrap();
        self.servers.remove(place).1
    }

    /// The names of all servers but one.
    fn others(&self, name: &str) -> Vec<String> {
        self.servers.iter().map(|(of, _)| of.clone()).filter(|of| of != name).collect()
    }

    /// A job that writes a row into the ledger every second.
    fn create_job(&self, name: &str, more: &Value) {
        let mut job = json!({
            "name": name, "job_type": "INTERVAL", "interval_seconds": 1, "catch_up": "ALL",
            "max_catch_up": 1000, "overlap": "ALLOW",
            "payload": {"type": "SQL", "database": "ledger", "sql": Ledger::WRITE},
        });
        for (field, value) in more.as_object().unwrap() {
            job[field] = value.clone();
        }
        let (status, made) = self.servers[0].1.call("POST", "/v1/jobs", Some(&job));
        assert_eq!(status, 201, "{made}");
    }
}

/// A server of the cluster.
fn serve(folder: &Path, name: &str, ledger: &Ledger) -> Server {
    let variables = [
        ("PUNCTUAL_ENGINE__NAME", name),
        ("PUNCTUAL_MASTER_KEY", MASTER_KEY),
        ("PUNCTUAL_DATABASES__LEDGER", &ledger.url),
        ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
    ];
    Server::start_with(&folder.join(name), &["--store", &ledger.store], &variables)
}

/// What a server says about the nodes.
fn nodes(server: &Server) -> Vec<Value> {
    let (status, mut said) = server.call("GET", "/v1/nodes", None);
    assert_eq!(status, 200, "{said}");
    match said["data"].take() {
        Value::Array(nodes) => nodes,
        _ => panic!("no list: {said}"),
    }
}

fn node_named(server: &Server, name: &str) -> Option<Value> {
    nodes(server).into_iter().find(|node| node["name"] == name)
}

/// The name and the epoch of the leader.
fn leader(server: &Server) -> Option<(String, i64)> {
    let nodes = nodes(server);
    let leader = nodes.iter().find(|node| node["leader_epoch"].is_i64())?;
    Some((leader["name"].as_str()?.to_owned(), leader["leader_epoch"].as_i64()?))
}

/// The leader, when there is one.
fn wait_for_leader(server: &Server) -> (String, i64) {
    until(|| leader(server))
}
