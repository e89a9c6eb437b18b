//! A node that joins says which cluster it joined, and with how many nodes.

use std::fs::File;
use std::process::Stdio;

use super::member::{Member, database};
use crate::binary::punctual;
use crate::serve::process::until;

#[test]
fn a_node_that_joins_prints_the_cluster_and_its_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let url = database("joining");
    let mut first = Member::new("a", &url);
    first.start(folder.path());
    let said = folder.path().join("said");
    let data = folder.path().join("b");
    let data = data.to_str().unwrap();
    let args = ["serve", "--data", data, "--http", "127.0.0.1:0", "--pg", "none", "--store", &url];
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let mut second = punctual(args)
        .env("PUNCTUAL_ENGINE__NAME", "b")
        .env("PUNCTUAL_MASTER_KEY", key)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let text = until(|| {
        let text = std::fs::read_to_string(&said).unwrap();
        text.contains("\"message\":\"ready\"").then_some(text)
    });
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(text.contains("\"message\":\"joined the cluster\""), "{text}");
    assert!(text.contains("\njoined cluster ") && text.contains(", 2 nodes: "), "{text}");
}
