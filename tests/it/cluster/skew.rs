//! One node's clock is wrong: set forward and back, by an hour, while it leads.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testbed::load::Stopwatch;

use super::member::{Member, database};
use super::{Cluster, leader, wait_for_leader};
use crate::serve::process::until;

/// `libfaketime`, which gives a process another time, where Debian keeps it.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|library| library.is_file())
}

/// Whether the binary can be started with it; not when it is linked statically.
fn is_loaded(library: &Path) -> bool {
    let mut command = crate::binary::punctual(["cron", "next", "0 0 1 1 *", "--tz", "UTC"]);
    let output = command.env("LD_PRELOAD", library).env("FAKETIME", "+40y").output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("206")
}

#[test]
fn a_node_with_a_wrong_clock_does_nothing_until_it_is_right() {
    let Some(library) = library().filter(|library| is_loaded(library)) else {
        eprintln!("SKIPPED: libfaketime is not here or cannot be loaded (`cargo xtask needs`)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    let set = |offset: &str| {
        let next = folder.path().join("next");
        fs::write(&next, offset).unwrap();
        fs::rename(&next, &clock).unwrap();
    };
    set("+0");
    let store = database("skew");
    let pretended = Member::new("b", &store)
        .hasty()
        .with("LD_PRELOAD", library.to_str().unwrap())
        .with("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap())
        .with("FAKETIME_NO_CACHE", "1")
        .with("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    // It is alone at first, so it leads.
    let mut cluster = Cluster::create(vec![pretended]);
    let mut old = wait_for_leader(cluster.any());
    let mut other = Member::new("a", &store).hasty();
    other.start(cluster.folder.path());
    cluster.members.push(other);
    cluster.create_job("every", &json!({}));
    cluster.create_job("only", &json!({"class": "LEADER_ONLY"}));
    for offset in ["+1h", "-1h"] {
        cluster.wait_for_effects("only", 2);
        let began = Stopwatch::start();
        set(offset);
        cluster.server("b").line_with("this machine's clock is not the store's");
        let next = cluster.followed("a", &old, began);
        assert_eq!(next.0, "a");
        cluster.wait_for_effects("every", 2);
        set("+0");
        cluster.server("b").line_with("this machine's clock is the store's again");
        // It can do everything alone again.
        let (status, said) = cluster.server("a").call("POST", "/v1/nodes/a/drain", None);
        assert_eq!(status, 200, "{said}");
        old = until(|| leader(cluster.server("a")).filter(|(name, _)| name == "b"));
        cluster.wait_for_effects("every", 2);
        let (status, said) = cluster.server("a").call("POST", "/v1/nodes/a/resume", None);
        assert_eq!(status, 200, "{said}");
    }
    cluster.settle(&["every", "only"]);
}
