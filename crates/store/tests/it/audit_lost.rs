//! An action whose audit row cannot be written does not happen.

use domain::id::TenantId;
use domain::run::RunState;
use domain::secret::{Scope, SecretPlace};
use store::{Desk, KeptSecret, Prepared, Safe, Sealed, Store, Want};

use crate::bench::{Bench, SqliteBench};
use crate::lab::{Lab, completed, stop};
use crate::postgres_bench::PostgresBench;

/// Takes the table away, looks that nothing can be done, and that everything can afterwards.
async fn nothing_happens_unrecorded<B: Bench>(lab: &Lab<B>, rename: impl AsyncFn(&str, &str)) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let (held, queued) = (lab.started(node, &job).await, lab.due(&job).await);
    let secret = KeptSecret {
        place: SecretPlace { scope: Scope::Tenant(TenantId::DEFAULT), name: "KEY".into() },
        version: 1,
        sealed: Sealed { key: "k".into(), data_key: vec![1], value: vec![2] },
        changed_by: "anna".into(),
    };
    let finish = completed(node, &held);
    rename("audit", "audit_gone").await;
    job.version += 1;
    let change = store::Change { job: job.clone(), expected: Some(1), prepared: Prepared::Keep };
    assert!(lab.store.define(&[change]).await.is_err());
    assert!(lab.store.cancel(queued.id, &stop()).await.is_err());
    assert!(lab.store.cancel(held.run.id, &stop()).await.is_err());
    assert!(lab.store.set("limit", Some("1"), 0).await.is_err());
    assert!(lab.store.keep_secret(&secret).await.is_err());
    let pumped = lab.store.pump(node, std::slice::from_ref(&finish), Want::default()).await;
    assert!(pumped.is_err());
    rename("audit_gone", "audit").await;
    assert_eq!(lab.stored(&job).await.unwrap().version, 1);
    assert_eq!(lab.state(queued.id).await, RunState::Queued);
    assert_eq!(lab.state(held.run.id).await, RunState::Running);
    assert_eq!(lab.store.settings().await.unwrap(), []);
    assert_eq!(lab.store.secrets(std::slice::from_ref(&secret.place)).await.unwrap(), []);
    let change = store::Change { job, expected: Some(1), prepared: Prepared::Keep };
    lab.store.define(&[change]).await.unwrap();
    lab.finish(node, finish).await;
    assert!(matches!(lab.state(held.run.id).await, RunState::Ended(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens_unrecorded_on_sqlite() {
    let bench = SqliteBench::open().await;
    let store = bench.door().await;
    let lab = Lab::new(bench, store);
    let connection = rusqlite::Connection::open(lab.bench.path()).unwrap();
    let connection = std::sync::Mutex::new(connection);
    nothing_happens_unrecorded(&lab, async |from: &str, to: &str| {
        let rename = format!("ALTER TABLE {from} RENAME TO {to}");
        connection.lock().unwrap().execute_batch(&rename).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens_unrecorded_on_postgres() {
    let bench = PostgresBench::open().await;
    let store = bench.door().await;
    let lab = Lab::new(bench, store);
    let client = lab.bench.connect().await;
    nothing_happens_unrecorded(&lab, async |from: &str, to: &str| {
        let rename = format!("ALTER TABLE punctual.{from} RENAME TO {to}");
        client.batch_execute(&rename).await.unwrap();
    })
    .await;
    drop(client);
    lab.close().await;
}
