//! The servers of a campaign: one on SQLite, or a cluster on a PostgreSQL server of its own.

use std::collections::BTreeMap;

use serde_json::Value;
use testbed::postgres::{self, Setup};

use crate::cluster::member::{Member, create_database};
use crate::proxy::Proxy;
use crate::serve::client;
use crate::serve::process::until;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

pub struct Stage {
    pub kind: StoreKind,
    pub members: Vec<Member>,
    /// The line of each member to PostgreSQL.
    pub lines: Vec<Proxy>,
    pub postgres: Option<postgres::Server>,
    /// Members that a fault holds: no request is sent to them.
    pub hurt: Vec<usize>,
    /// After the members: they work in it.
    folder: tempfile::TempDir,
}

impl Stage {
    /// Starts the servers; `nodes` is the size of a cluster.
    pub fn start(kind: StoreKind, nodes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut stage = match kind {
            StoreKind::Sqlite => Stage {
                kind,
                members: vec![campaign_member("a", "sqlite")],
                lines: Vec::new(),
                postgres: None,
                hurt: Vec::new(),
                folder,
            },
            StoreKind::Postgres => {
                let postgres = Setup::default().tcp().unwrap().start();
                create_database(&postgres.url("postgres"), "campaign");
                let lines: Vec<Proxy> = (0..nodes).map(|_| Proxy::to(postgres.address())).collect();
                let member = |(name, line): (&&str, &Proxy)| {
                    let store = format!("postgres://postgres@{}/campaign", line.address);
                    campaign_member(name, &store)
                };
                let members = ["a", "b", "c"].iter().zip(&lines).map(member).collect();
                let hurt = Vec::new();
                Stage { kind, members, lines, postgres: Some(postgres), hurt, folder }
            }
        };
        stage.start_all();
        stage
    }

    /// Starts every member that is not up, all at once.
    pub fn start_all(&mut self) {
        let folder = self.folder.path();
        std::thread::scope(|scope| {
            for member in self.members.iter_mut().filter(|member| !member.is_up()) {
                scope.spawn(|| member.start(folder));
            }
        });
    }

    /// Starts one member again, in its own folder.
    pub fn start_one(&mut self, index: usize) {
        self.members[index].start(self.folder.path());
    }

    /// Sends a request to a member that no fault holds; none if the answer did not arrive or is a
    /// server error.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let usable = |(i, member): &(usize, &Member)| member.is_up() && !self.hurt.contains(i);
        let (i, _) = self.members.iter().enumerate().find(usable)?;
        self.request_to(i, method, path, body)
    }

    pub fn request_to(
        &self,
        index: usize,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let server = self.members[index].server();
        let (status, text) =
            client::request(&server.address, &server.key, method, path, body).ok()?;
        let answer = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (status < 500).then_some((status, answer))
    }

    /// Sends a request until it is answered.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = until(|| self.request(method, path, body));
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// The ids of the nodes that are alive, by name. A node that lost its lease has another id.
    pub fn node_ids(&self) -> BTreeMap<String, String> {
        let nodes = self.call("GET", "/v1/nodes", None);
        let nodes = nodes["data"].as_array().cloned().unwrap_or_default();
        let active = nodes.iter().filter(|node| node["status"] == "ACTIVE");
        let text = |node: &Value, field: &str| node[field].as_str().unwrap_or("").to_owned();
        active.map(|node| (text(node, "name"), text(node, "worker_id"))).collect()
    }

    /// The index of the leader; the first member when none is known.
    pub fn leader(&self) -> usize {
        let nodes = self.call("GET", "/v1/nodes", None);
        let nodes = nodes["data"].as_array().cloned().unwrap_or_default();
        let leader = nodes.iter().find(|node| node["leader_epoch"].is_i64());
        let name = leader.and_then(|node| node["name"].as_str());
        self.members.iter().position(|member| Some(member.name.as_str()) == name).unwrap_or(0)
    }
}

/// The lease that members of a campaign have, in milliseconds, and how often they renew it.
pub const LEASE_MS: u64 = 4_000;
pub const RENEW_MS: u64 = 500;

fn campaign_member(name: &str, store: &str) -> Member {
    Member::new(name, store)
        .with("PUNCTUAL_ENGINE__LEASE", &format!("{LEASE_MS}ms"))
        .with("PUNCTUAL_ENGINE__RENEW_EVERY", &format!("{RENEW_MS}ms"))
        // Calls of the hostile job never end by themselves.
        .with("PUNCTUAL_SHUTDOWN_GRACE", "2s")
}
