//! The connections that read: a fixed number, however many clients ask.

use std::path::Path;
use std::sync::Arc;

use domain::id::TenantId;
use store::{RunFilter, RunsOf, Store};
use tokio::task::JoinSet;

use crate::bench::{Bench, SqliteBench};
use crate::lab::Lab;

/// The writer, four readers for clients and two for the engine.
const CONNECTIONS_MAX: usize = 7;

/// How often this process has a file open.
fn open_files(path: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .filter(|to| to == path)
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_reads_at_once_open_few_connections() {
    let bench = SqliteBench::open().await;
    let path = bench.path().canonicalize().unwrap();
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let job = lab.job("job").await;
    for _ in 0..50 {
        lab.due(&job).await;
    }
    let mut reads = JoinSet::new();
    for _ in 0..200 {
        let (store, job, path) = (Arc::clone(&lab.store), job.id, path.clone());
        reads.spawn(async move {
            let mut most = 0;
            for _ in 0..20 {
                let filter = RunFilter::new(RunsOf::Tenant(TenantId::DEFAULT));
                let page = store.list_runs(&filter, None, 50).await.unwrap();
                assert_eq!(page.items.len(), 50);
                assert_eq!(store.jobs_by_id(&[job]).await.unwrap().len(), 1);
                most = most.max(open_files(&path));
            }
            most
        });
    }
    let most = reads.join_all().await.into_iter().max().unwrap();
    assert!((3..=CONNECTIONS_MAX).contains(&most), "{most} connections");
}
