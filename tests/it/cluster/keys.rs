//! The keys of a cluster: one master key, and an administrator's key that works on every node.

use std::process::Stdio;

use super::member::database;
use crate::binary::punctual;
use crate::serve::client;
use crate::serve::process::{Server, until};

/// A node whose name does not change with its port.
const NAMED: [(&str, &str); 1] = [("PUNCTUAL_ENGINE__NAME", "b")];

#[test]
fn a_node_needs_the_master_key_of_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let url = database("masterkeys");
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    let server = Server::start(&first, &["--store", &url]);
    let data = second.to_str().unwrap();
    let args = ["serve", "--data", data, "--http", "127.0.0.1:0", "--pg", "none", "--store", &url];
    let refused = punctual(args).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("the master key of this node is not that of the cluster"), "{text}");
    assert!(text.contains("copy master.key of a node that runs"), "{text}");
    // The step of the hint helps.
    std::fs::copy(first.join("master.key"), second.join("master.key")).unwrap();
    let other = Server::start_with(&second, &["--store", &url], &NAMED);

    // The key of one node works on the other, both ways, and over a restart with another key.
    assert_ne!(server.key, other.key);
    let status = |at: &Server, key: &str| {
        client::request(&at.address, key, "GET", "/v1/whoami", None).unwrap().0
    };
    until(|| (status(&server, &other.key) == 200).then_some(()));
    assert_eq!(status(&other, &server.key), 200);
    let old = other.key.clone();
    other.terminate();
    assert_eq!(other.wait(), Some(0));
    std::fs::remove_file(second.join("admin.key")).unwrap();
    let other = Server::start_with(&second, &["--store", &url], &NAMED);
    until(|| (status(&server, &other.key) == 200).then_some(()));
    until(|| (status(&server, &old) == 401).then_some(()));
    assert_eq!(status(&other, &old), 401);
}
