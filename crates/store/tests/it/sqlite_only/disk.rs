//! Disks that fail: a full one and one that cannot sync. Both are an error, never a false yes.
#![expect(clippy::disallowed_methods, reason = "mounting a disk and tracing take other programs")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fs};

use domain::run::NewRun;
use store::sqlite::SqliteStore;
use store::{ClaimFor, ClaimRequest, Store, StoreError};
use tokio::task::JoinSet;

use super::child::{self, Heard};
use crate::bench::ManualClock;
use crate::lab::{Lab, processes, want};

/// A small disk in memory, gone when this is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this process may not mount one.
    fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        let size = format!("size={size}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mount.is_ok_and(|status| status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Reports what a test did not do here, past the harness, which shows nothing of a test that
/// passes.
fn not_exercised(what: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("\nNOT EXERCISED: {what}: {why}\n").as_bytes());
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let Some(_disk) = SmallDisk::mount(&disk, "3m") else {
        return not_exercised("a full disk", "only root may mount one");
    };
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; 1 << 20]).unwrap();
    let file = disk.join("punctual.db");
    let clock = ManualClock::new();
    let store = Arc::new(SqliteStore::open(&file, clock.reader()).unwrap());
    let lab = Lab::new(Nowhere, Arc::clone(&store));
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let mut answered: Vec<NewRun> = Vec::new();
    let batch = || -> Vec<NewRun> {
        let run = |_| NewRun { parameters: Some("x".repeat(500)), ..lab.run(&job, due_at) };
        (0..20).map(run).collect()
    };
    let mut refused = loop {
        let batch = batch();
        match store.submit(&batch, None).await {
            Ok(submitted) => {
                assert_eq!(submitted.accepted, [true; 20]);
                answered.extend(batch);
            }
            Err(error) => break (batch, error),
        }
        assert!(answered.len() < 100_000, "the disk does not get full");
    };
    assert!(matches!(refused.1, StoreError::Unavailable(_)), "{:?}", refused.1);
    let text = refused.1.to_string();
    assert_eq!(text.matches("unavailable").count(), 1, "{text}: a cause is named once");
    // It stays an error, for every operation that writes, while existing rows can be read.
    for _ in 0..3 {
        let again = store.submit(&refused.0, None).await;
        assert!(matches!(again, Err(StoreError::Unavailable(_))), "{again:?}");
    }
    for run in &answered {
        assert!(store.run(run.id).await.unwrap().is_some());
    }
    // Many at once share a transaction, and claims that came to nothing are not counted. Space that
    // the journal has freed meanwhile is filled first.
    while let Ok(submitted) = store.submit(&refused.0, None).await {
        let fresh = refused.0.iter().zip(submitted.accepted).filter(|(_, is_new)| *is_new);
        answered.extend(fresh.map(|(run, _)| run.clone()));
        refused.0 = batch();
    }
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        // More than fit where a few of them would.
        let store = Arc::clone(&store);
        let batch: Vec<NewRun> = (0..10).flat_map(|_| batch()).collect();
        let born = Some(ClaimFor { node, max: processes(20) });
        callers.spawn(async move { store.submit(&batch, born).await });
    }
    for answer in callers.join_all().await {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    eprintln!("{} runs were answered before the disk was full", answered.len());
    fs::remove_file(&filler).unwrap();
    // Whether the refused ones were recorded is unknown; sent again, they are there once.
    let again = store.submit(&refused.0, None).await.unwrap();
    assert_eq!(again.accepted.len(), 20);
    answered.extend(refused.0);
    let limited = ClaimRequest { tenant_max: Some(10), ..want(20) };
    assert_eq!(lab.claim(node, limited).await.len(), 10);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.live.running + counts.live.queued) as usize, answered.len());
    drop((lab, store));
    let store = SqliteStore::open(&file, clock.reader()).unwrap();
    for run in &answered {
        assert!(store.run(run.id).await.unwrap().is_some());
    }
    let counts = store.counts().await.unwrap();
    assert_eq!(
        (counts.live.running, counts.live.running + counts.live.queued),
        (10, answered.len() as u64)
    );
}

/// Every third, fifth, … sync of the writer fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_is_no_answer() {
    if let Some((file, life)) = child::order() {
        return child::work(&file, life, 15).await;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|folder| folder.join("strace").is_file()) {
        return not_exercised("a failed fsync", "there is no strace");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.db");
    let mut heard = Heard::default();
    for (life, when) in ["1", "4+3", "2+5", "9+2", "11+7", "30+1"].into_iter().enumerate() {
        let life = life as u64 + 1;
        let inject = format!("inject=fdatasync,fsync:error=EIO:when={when}");
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject];
        let test = "sqlite_only::disk::a_failed_sync_is_no_answer";
        let mut process = child::start(&strace, test, &file, life);
        heard.listen(&mut process, life, None);
        if file.exists() {
            heard.check(&file).await;
        }
    }
    if heard.submitted.is_empty() && heard.refused == 0 {
        return not_exercised("a failed fsync", "strace may not trace here");
    }
    let (answered, refused) = (heard.submitted.len() + heard.ended.len(), heard.refused);
    eprintln!("{answered} writes were answered, {refused} calls refused");
    assert!(heard.refused > 0, "no sync failed");
    assert!(!heard.submitted.is_empty(), "every sync failed");
}

/// A bench for a store that the test opens by itself.
struct Nowhere;

impl crate::bench::Bench for Nowhere {
    type S = SqliteStore;

    async fn open() -> Self {
        Nowhere
    }

    async fn handle(&self) -> Arc<SqliteStore> {
        unreachable!("the test has the only handle")
    }

    async fn reach(&self, _: jiff::Timestamp) {
        unreachable!("the test has the only clock")
    }

    async fn close(self) {}
}
