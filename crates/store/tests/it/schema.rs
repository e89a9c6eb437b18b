//! The tables: what the migrations make of nothing is written down, an old database with data
//! becomes the same, and one from the future is refused.
#![expect(
    clippy::disallowed_methods,
    reason = "UPDATE_GOLDEN and the folder are in the environment"
)]

mod postgres;
mod rolling;
mod sqlite;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::id::{NodeId, TenantId};
use domain::run::{Outcome, RunState, Wait};
use store::{Alerts, Applied, JobFilter, NodeInfo, RunFilter, Store};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, completed, lost, retried, seconds, skipped, want};

/// Compares a dump with the file that is kept for it; `UPDATE_GOLDEN=1` writes the file instead.
fn compare(dump: &str, name: &str) {
    let file = folder("schema").join(name);
    if is_update() {
        fs::write(&file, dump).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        dump == golden,
        "the migrations do not make what {} says; if that is meant, UPDATE_GOLDEN=1 writes:\n{dump}",
        file.display()
    );
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Dumps of the tables of every release with data, as files of SQL. That of the newest version is
/// written anew with `UPDATE_GOLDEN=1`; once there is a newer one, it never changes again.
fn old_databases(store: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder("tests/data")).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap().to_string_lossy().starts_with(store));
    assert!(!files.is_empty(), "there is a dump of every release's tables");
    files
}

/// The store of a dump that was opened by this release.
fn upgraded<S>(opened: store::Result<S>, dump: &Path) -> S {
    opened.unwrap_or_else(|error| {
        panic!(
            "{}: {error}\nA migration that was released must not change; until then, \
             UPDATE_GOLDEN=1 writes the dump of the newest version anew",
            dump.display()
        )
    })
}

/// The file for a dump of the newest tables with data.
fn newest_database(store: &str) -> PathBuf {
    let (newest, _) = migrations(store).pop().unwrap();
    folder("tests/data").join(format!("{store}_v{newest}.sql"))
}

/// The migrations of a store by their numbers.
fn migrations(store: &str) -> Vec<(i32, String)> {
    let files = fs::read_dir(folder("migrations").join(store)).unwrap();
    let read = |file: PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let number = name.trim_start_matches('V').split("__").next().unwrap().parse().unwrap();
        (number, fs::read_to_string(file).unwrap())
    };
    let mut migrations: Vec<_> = files.map(|file| read(file.unwrap().path())).collect();
    migrations.sort();
    migrations
}

fn folder(name: &str) -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    PathBuf::from(crate_folder).join(name)
}

/// A little of everything: what [`goes_on`] finds in a dump.
async fn furnish<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let upstream = lab.job("upstream").await;
    let job = lab.job_after("Bericht \u{2714}", &[&upstream]).await;
    let ended = lab.started(node, &job).await;
    lab.finish(node, retried(node, &ended, seconds(0))).await;
    let again = lab.claim_one(node).await;
    lab.finish(node, completed(node, &again)).await;
    let missed = lab.started(node, &job).await;
    lab.finish(node, skipped(&missed, Outcome::Missed)).await;
    let waiting = lab.started(node, &job).await;
    lab.wait(node, &waiting, Wait::Upstream, None).await;
    lab.started(node, &upstream).await;
    lab.due(&upstream).await;
    lab.expire(node).await;
}

/// Whatever the release that wrote it: what was there is there, and work goes on.
async fn goes_on<S: Store + Alerts>(store: Arc<S>) {
    let found =
        store.list_jobs(&JobFilter::of_tenant(TenantId::DEFAULT), None, 9).await.unwrap().items;
    let names: Vec<_> = found.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["Bericht \u{2714}", "upstream"]);
    let (job, upstream) = (&found[0], &found[1]);
    let edges = store.dependencies(TenantId::DEFAULT).await.unwrap();
    assert_eq!(edges, [(job.id, upstream.id)]);
    let runs = store.list_runs(&RunFilter::of_job(job.id), None, 9).await.unwrap().items;
    let states: Vec<_> = runs.iter().rev().map(|run| run.state).collect();
    let [completed_run, missed] = [Outcome::Completed, Outcome::Missed].map(RunState::Ended);
    assert_eq!(states, [completed_run, missed, RunState::Pending]);
    assert_eq!(store.attempts(runs[2].id).await.unwrap().len(), 2);
    // The node that was at work then is gone; another one takes over.
    let reaped = store.reap(9).await.unwrap();
    assert_eq!((reaped.buried.len(), reaped.lost.len()), (1, 1));
    let settled: Vec<_> = reaped.lost.iter().map(|(node, claimed)| lost(*node, claimed)).collect();
    assert_eq!(store.bury(&settled).await.unwrap(), [Applied::Again]);
    let node = NodeId(Uuid::from_u128(99));
    store.join(node, &NodeInfo::named("new"), seconds(60)).await.unwrap();
    let held = store.pump(node, &[], want(9)).await.unwrap().claimed;
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|held| held.grant.fence > reaped.lost[0].1.grant.fence));
    let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
    let pumped = store.pump(node, &done, want(9)).await.unwrap();
    assert_eq!(pumped.applied, [Applied::Ended(Outcome::Completed); 2]);
    assert_eq!(pumped.claimed.len(), 1, "the end of the upstream job woke its dependent");
}
