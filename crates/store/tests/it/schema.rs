//! The tables: the result of all migrations is a recorded dump, an old database with data becomes
//! the same, and one from the future or from before the first release is refused.
//!
//! The dump of a released version with data is a file of `tests/data`, named
//! `<store>_v<number>.sql` after its newest migration. Before a migration is added, `WRITE_DUMP=1
//! cargo test -p punctual-store schema` writes the dump of the tables as they are; from then on it
//! never changes.
#![expect(
    clippy::disallowed_methods,
    reason = "UPDATE_GOLDEN, WRITE_DUMP and the folder are in the environment"
)]

mod postgres;
mod rolling;
mod sqlite;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use domain::id::{NodeId, TenantId};
use domain::run::{Outcome, RunState, Wait};
use store::{Alerts, Applied, JobFilter, NodeInfo, RunFilter, Store};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, completed, lost, retried, seconds, skipped, want};

/// Compares the tables with the file that is kept for them; `UPDATE_GOLDEN=1` writes the file
/// instead.
fn compare(dump: &str, name: &str) {
    if is_set("UPDATE_GOLDEN") {
        fs::write(folder("schema").join(name), dump).unwrap();
    }
    assert!(
        dump == golden(name),
        "the migrations do not make what schema/{name} says; if that is meant, UPDATE_GOLDEN=1 \
         writes:\n{dump}"
    );
}

/// The tables as they should be.
fn golden(name: &str) -> String {
    fs::read_to_string(folder("schema").join(name)).unwrap_or_default()
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Databases with data, as scripts, of every version up to this one: those of older versions are
/// files, and `newest` was made by this version.
fn databases(store: &str, newest: String) -> Vec<(i32, String)> {
    let numbers: Vec<i32> = migrations(store).into_iter().map(|(number, _)| number).collect();
    let (last, older) = numbers.split_last().unwrap();
    let file = |number: &i32| folder("tests/data").join(format!("{store}_v{number}.sql"));
    if is_set("WRITE_DUMP") {
        fs::create_dir_all(folder("tests/data")).unwrap();
        fs::write(file(last), &newest).unwrap();
    }
    let read = |number: &i32| {
        let script = fs::read_to_string(file(number)).unwrap_or_else(|error| {
            panic!(
                "{}: {error}\nWrite it with WRITE_DUMP=1 on the last commit without V{}",
                file(number).display(),
                number + 1
            )
        });
        (*number, script)
    };
    older.iter().map(read).chain([(*last, newest)]).collect()
}

/// The store of a dump that was opened by this version.
fn upgraded<S>(opened: store::Result<S>, number: i32) -> S {
    opened.unwrap_or_else(|error| {
        panic!("V{number}: {error}\nA migration that was released must not change")
    })
}

/// The migrations that development versions recorded before the first release, with the checksum
/// of each: the oldest such database, one on the way, and the last.
fn histories(checksums: &[&str]) -> Vec<String> {
    let rows: Vec<String> = checksums
        .iter()
        .enumerate()
        .map(|(at, checksum)| format!("({}, 'name', '2026-11-16T00:00:00Z', '{checksum}')", at + 1))
        .collect();
    [1, rows.len() / 2, rows.len()].map(|length| rows[..length].join(", ")).to_vec()
}

/// A development database was refused, with what to do about it.
fn refused<S>(opened: store::Result<S>, empty: &str) {
    match opened.err() {
        Some(store::StoreError::Refused { problem, advice }) => {
            assert!(problem.contains("development version"), "{problem}");
            assert!(problem.contains("migration V1"), "{problem}");
            for words in ["punctual export > jobs.yaml", empty, "punctual apply -f jobs.yaml"] {
                assert!(advice.contains(words), "{advice}");
            }
        }
        other => panic!("{other:?}"),
    }
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

/// Whatever release wrote it: its rows are there, and work goes on.
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
    assert_eq!((reaped.dead.len(), reaped.lost.len()), (1, 1));
    let settled: Vec<_> = reaped.lost.iter().map(|it| lost(it.node, &it.run)).collect();
    assert_eq!(store.settle_lost(&settled).await.unwrap(), [Applied::Again]);
    let node = NodeId(Uuid::from_u128(99));
    store.join(node, &NodeInfo::named("new"), seconds(60)).await.unwrap();
    let held = store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|held| held.grant.fence > reaped.lost[0].run.grant.fence));
    let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
    let exchanged = store.complete_and_claim(node, &done, want(9)).await.unwrap();
    assert_eq!(exchanged.applied, [Applied::Ended(Outcome::Completed); 2]);
    assert_eq!(exchanged.claimed.len(), 1, "the end of the upstream job woke its dependent");
}
