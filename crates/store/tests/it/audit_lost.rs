//! An action whose audit row cannot be written does not happen.

use domain::access::{Award, Awarded, Entry, Privilege, Role, User};
use domain::id::{RoleId, TenantId, UserId};
use domain::run::RunState;
use domain::secret::{Scope, SecretPlace};
use store::{ClaimRequest, SYSTEM, Store};
use store::{
    GrantOutcome, Identity, KeptSecret, Prepared, Recorded, Removed, Sealed, SecretStore, Settings,
};

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
    let change = store::Change {
        job: job.clone(),
        expected: Some(1),
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    assert!(lab.store.define(&[change], SYSTEM).await.is_err());
    assert!(lab.store.cancel(queued.id, &stop(), SYSTEM).await.is_err());
    assert!(lab.store.cancel(held.run.id, &stop(), SYSTEM).await.is_err());
    assert!(lab.store.set("limit", Some("1"), 0, SYSTEM).await.is_err());
    assert!(lab.store.keep_secret(&secret).await.is_err());
    let exchanged = lab
        .store
        .complete_and_claim(node, std::slice::from_ref(&finish), ClaimRequest::default())
        .await;
    assert!(exchanged.is_err());
    rename("audit_gone", "audit").await;
    assert_eq!(lab.stored(&job).await.unwrap().version, 1);
    assert_eq!(lab.state(queued.id).await, RunState::Queued);
    assert_eq!(lab.state(held.run.id).await, RunState::Running);
    assert_eq!(lab.store.settings().await.unwrap(), []);
    assert_eq!(lab.store.secrets(std::slice::from_ref(&secret.place)).await.unwrap(), []);
    let change = store::Change {
        job,
        expected: Some(1),
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    lab.store.define(&[change], SYSTEM).await.unwrap();
    lab.finish(node, finish).await;
    assert!(matches!(lab.state(held.run.id).await, RunState::Ended(_)));
}

/// The same for what identity does.
async fn nobody_changes_unrecorded<B: Bench>(lab: &Lab<B>, rename: impl AsyncFn(&str, &str)) {
    let tenant = domain::access::Tenant {
        id: TenantId(lab.id()),
        name: "acme".to_owned(),
        tier: domain::fairness::Tier::default(),
        max_jobs: None,
        max_concurrent: None,
        requests_per_second: None,
        external_jobs: false,
        job_defaults: Default::default(),
    };
    let user = |name: &str| User {
        id: UserId(lab.id()),
        tenant: tenant.id,
        name: name.to_owned(),
        password: None,
        scram: None,
        disabled: false,
    };
    let (ann, bob) = (user("ann"), Entry::User(user("bob")));
    let role = Entry::Role(Role {
        id: RoleId(lab.id()),
        tenant: tenant.id,
        name: "ops".to_owned(),
        description: None,
        run_as: false,
    });
    let known = [Entry::Tenant(tenant.clone()), Entry::User(ann.clone()), role];
    for entry in &known {
        assert!(matches!(lab.store.put_entry(entry, None, SYSTEM).await, Ok(Recorded::Done(_))));
    }
    let award =
        |privilege| Award { tenant: tenant.id, to: ann.id.0, what: Awarded::Privilege(privilege) };
    let (given, wanted) = (award(Privilege::CreateJob), award(Privilege::DropJob));
    assert_eq!(lab.store.award(&given, SYSTEM).await.unwrap(), GrantOutcome::Done);
    let generation = lab.store.generation().await.unwrap();
    rename("audit", "audit_gone").await;
    assert!(lab.store.put_entry(&bob, None, SYSTEM).await.is_err());
    for entry in &known {
        assert!(lab.store.put_entry(entry, Some(1), SYSTEM).await.is_err());
    }
    for entry in &known[1..] {
        assert!(lab.store.remove_entry(entry.id(), None, SYSTEM).await.is_err());
    }
    assert!(lab.store.award(&wanted, SYSTEM).await.is_err());
    assert!(lab.store.revoke(given.id(), SYSTEM).await.is_err());
    rename("audit_gone", "audit").await;
    assert_eq!(lab.store.generation().await.unwrap(), generation);
    assert_eq!(lab.store.entries(&[bob.id()]).await.unwrap(), []);
    let ids = known.each_ref().map(Entry::id);
    let found = lab.store.entries(&ids).await.unwrap();
    assert_eq!(found.iter().map(|found| found.version).collect::<Vec<_>>(), [1, 1, 1]);
    let awards = lab.store.list_awards(tenant.id, None, None, 9).await.unwrap().items;
    assert_eq!(awards, std::slice::from_ref(&given));
    assert!(lab.store.revoke(given.id(), SYSTEM).await.unwrap());
    assert_eq!(lab.store.remove_entry(ann.id.0, Some(1), SYSTEM).await.unwrap(), Removed::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens_unrecorded_on_sqlite() {
    let bench = SqliteBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let connection = rusqlite::Connection::open(lab.bench.path()).unwrap();
    let connection = std::sync::Mutex::new(connection);
    let rename = async |from: &str, to: &str| {
        let rename = format!("ALTER TABLE {from} RENAME TO {to}");
        connection.lock().unwrap().execute_batch(&rename).unwrap();
    };
    nothing_happens_unrecorded(&lab, &rename).await;
    nobody_changes_unrecorded(&lab, &rename).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens_unrecorded_on_postgres() {
    let bench = PostgresBench::open().await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let client = lab.bench.connect().await;
    let rename = async |from: &str, to: &str| {
        let rename = format!("ALTER TABLE punctual.{from} RENAME TO {to}");
        client.batch_execute(&rename).await.unwrap();
    };
    nothing_happens_unrecorded(&lab, &rename).await;
    nobody_changes_unrecorded(&lab, &rename).await;
    drop(client);
    lab.close().await;
}
