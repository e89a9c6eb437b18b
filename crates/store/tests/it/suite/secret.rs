//! Secrets: a change names the version it is based on, a secret belongs to one scope, and lists
//! show no values.

use domain::id::{JobId, ObjectId, TenantId};
use domain::job::JobState;
use domain::object::{Object, ObjectKind};
use domain::secret::{Scope, SecretPlace};
use store::{KeptSecret, NamedResources, Prepared, Rewrapped, SYSTEM, Sealed, SecretStore, Set};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, tenant};

fn place(scope: Scope, name: &str) -> SecretPlace {
    SecretPlace { scope, name: name.to_owned() }
}

fn secret(scope: Scope, name: &str, version: u32, value: &str) -> KeptSecret {
    KeptSecret {
        place: place(scope, name),
        version,
        sealed: Sealed {
            key: "k1".to_owned(),
            data_key: vec![0, 1, 255],
            value: value.as_bytes().to_vec(),
        },
        changed_by: "anna".to_owned(),
    }
}

const TENANT: Scope = Scope::Tenant(TenantId::DEFAULT);

async fn get<B: Bench>(lab: &Lab<B>, place: &SecretPlace) -> Option<KeptSecret> {
    lab.store.secrets(std::slice::from_ref(place)).await.unwrap().pop()
}

pub async fn a_secret_changes_for_who_has_seen_it<B: Bench>(lab: &Lab<B>) {
    let keep = async |version, value: &str| {
        lab.store.keep_secret(&secret(TENANT, "A", version, value)).await.unwrap()
    };
    let it = place(TENANT, "A");
    assert_eq!(get(lab, &it).await, None);
    assert_eq!(keep(2, "early").await, Set::Conflict(0));
    assert_eq!(keep(1, "one").await, Set::Done(1));
    assert_eq!(keep(1, "again").await, Set::Conflict(1));
    assert_eq!(keep(2, "two").await, Set::Done(2));
    assert_eq!(get(lab, &it).await, Some(secret(TENANT, "A", 2, "two")));
    let remove = async |expected| lab.store.remove_secret(&it, expected, SYSTEM).await.unwrap();
    assert_eq!(remove(1).await, Set::Conflict(2));
    assert_eq!(remove(2).await, Set::Done(0));
    assert_eq!(remove(2).await, Set::Conflict(0));
    assert_eq!(get(lab, &it).await, None);
}

pub async fn racing_changes_of_a_secret_win_once<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    for version in 1..5 {
        let (one, two) = (secret(TENANT, "A", version, "one"), secret(TENANT, "A", version, "two"));
        let (first, second) = tokio::join!(lab.store.keep_secret(&one), handle.keep_secret(&two));
        let mut answers = [first.unwrap(), second.unwrap()];
        answers.sort_by_key(|answer| matches!(answer, Set::Conflict(_)));
        assert_eq!(answers, [Set::Done(version), Set::Conflict(version)]);
    }
}

pub async fn a_secret_belongs_to_its_scope<B: Bench>(lab: &Lab<B>) {
    let job = JobId(Uuid::from_u128(5));
    let scopes = [
        Scope::Cluster,
        TENANT,
        Scope::Tenant(tenant(9)),
        Scope::Job(TenantId::DEFAULT, job),
        Scope::Job(tenant(9), job),
    ];
    for (n, scope) in scopes.into_iter().enumerate() {
        let kept = secret(scope, "A", 1, &n.to_string());
        assert_eq!(lab.store.keep_secret(&kept).await.unwrap(), Set::Done(1));
    }
    for (n, scope) in scopes.into_iter().enumerate() {
        let found = get(lab, &place(scope, "A")).await;
        assert_eq!(found, Some(secret(scope, "A", 1, &n.to_string())));
    }
    let seen = Scope::seen_by(TenantId::DEFAULT, job).map(|scope| place(scope, "A"));
    let mut found = lab.store.secrets(&seen).await.unwrap();
    found.sort_by_key(|secret| secret.place.clone());
    let values: Vec<_> = found.iter().map(|secret| secret.sealed.value.as_slice()).collect();
    assert_eq!(values, [b"0", b"1", b"3"]);
    assert_eq!(lab.store.secrets(&[]).await.unwrap(), []);
}

pub async fn lists_of_secrets_hold_no_values<B: Bench>(lab: &Lab<B>) {
    let job = JobId(Uuid::from_u128(5));
    let own = Scope::Job(TenantId::DEFAULT, job);
    for (scope, name) in [
        (own, "B"),
        (TENANT, "a"),
        (TENANT, "Z"),
        (own, "A"),
        (Scope::Cluster, "C"),
        (Scope::Tenant(tenant(9)), "D"),
        // Those of objects are not listed.
        (Scope::Object(TenantId::DEFAULT, ObjectId(Uuid::from_u128(6))), ":a"),
        (Scope::Object(TenantId::CLUSTER, ObjectId(Uuid::from_u128(6))), ":a"),
    ] {
        lab.store.keep_secret(&secret(scope, name, 1, "value")).await.unwrap();
    }
    for limit in 1..6 {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let page = lab.store.list_secrets(Some(TenantId::DEFAULT), after.as_ref(), limit);
            let page = page.await.unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let places: Vec<_> = seen.iter().map(|view| view.place.clone()).collect();
        let expected = [(TENANT, "Z"), (TENANT, "a"), (own, "A"), (own, "B")];
        assert_eq!(places, expected.map(|(scope, name)| place(scope, name)));
        let first = &seen[0];
        assert_eq!(
            (first.version, first.key.as_str(), first.changed_by.as_str()),
            (1, "k1", "anna")
        );
        assert!(first.changed_at <= lab.now().await);
    }
    let view = lab.store.secret_view(&place(own, "B")).await.unwrap().unwrap();
    assert_eq!((&view.place, view.version), (&place(own, "B"), 1));
    assert_eq!(lab.store.secret_view(&place(own, "C")).await.unwrap(), None);
    let cluster = lab.store.list_secrets(None, None, 10).await.unwrap();
    assert_eq!(cluster.items.len(), 1);
    assert_eq!(cluster.items[0].place, place(Scope::Cluster, "C"));
}

pub async fn secrets_of_a_job_go_with_it<B: Bench>(lab: &Lab<B>) {
    let (mut job, other) = (lab.job("job").await, lab.job("other").await);
    let own = |job: JobId| Scope::Job(TenantId::DEFAULT, job);
    for scope in [own(job.id), own(other.id), TENANT] {
        lab.store.keep_secret(&secret(scope, "A", 1, "value")).await.unwrap();
    }
    job.definition.tags = vec!["changed".into()];
    lab.update(&mut job, Prepared::Keep).await;
    assert!(get(lab, &place(own(job.id), "A")).await.is_some());
    job.state = JobState::Deleted;
    // A change that is refused takes nothing along.
    lab.change(&job, Some(job.version + 7), Prepared::Drop).await;
    assert!(get(lab, &place(own(job.id), "A")).await.is_some());
    lab.update(&mut job, Prepared::Drop).await;
    assert!(get(lab, &place(own(job.id), "A")).await.is_none());
    assert!(get(lab, &place(own(other.id), "A")).await.is_some());
    assert!(get(lab, &place(TENANT, "A")).await.is_some());
}

pub async fn secrets_of_an_object_go_with_it<B: Bench>(lab: &Lab<B>) {
    let at = lab.now().await;
    let object = |id: u128| Object {
        id: ObjectId(Uuid::from_u128(id)),
        tenant: TenantId::DEFAULT,
        kind: ObjectKind::Database,
        name: id.to_string(),
        body: "{}".to_owned(),
        version: 0,
        created_at: at,
        changed_at: at,
    };
    let places = [5, 6].map(|id| SecretPlace::of_object(TenantId::DEFAULT, object(id).id, "a"));
    for (id, place) in [5, 6].into_iter().zip(&places) {
        lab.store.put_object(&object(id), 0, SYSTEM).await.unwrap();
        let kept = secret(place.scope, &place.name, 1, "value");
        assert_eq!(lab.store.keep_secret(&kept).await.unwrap(), Set::Done(1));
        assert_eq!(get(lab, place).await, Some(kept));
    }
    let remove =
        |version| lab.store.remove_object(TenantId::DEFAULT, object(5).id, version, SYSTEM);
    // A removal that is refused takes nothing along.
    assert_eq!(remove(7).await.unwrap(), Set::Conflict(1));
    assert!(get(lab, &places[0]).await.is_some());
    assert_eq!(remove(1).await.unwrap(), Set::Done(0));
    assert!(get(lab, &places[0]).await.is_none());
    assert!(get(lab, &places[1]).await.is_some());
}

fn rewrapped(secret: &KeptSecret, key: &str) -> Rewrapped {
    Rewrapped {
        place: secret.place.clone(),
        version: secret.version,
        from: secret.sealed.key.clone(),
        key: key.to_owned(),
        data_key: vec![9, 9],
    }
}

pub async fn a_data_key_moves_to_another_master_key<B: Bench>(lab: &Lab<B>) {
    assert_eq!(lab.store.secret_keys().await.unwrap(), []);
    for (scope, name) in [(TENANT, "A"), (TENANT, "B"), (Scope::Cluster, "A")] {
        lab.store.keep_secret(&secret(scope, name, 1, "value")).await.unwrap();
    }
    assert_eq!(lab.store.secret_keys().await.unwrap(), [("k1".to_owned(), 3)]);
    let first = lab.store.secrets_under("k1", None, 2).await.unwrap();
    let places: Vec<_> = first.iter().map(|secret| secret.place.clone()).collect();
    assert_eq!(places, [place(Scope::Cluster, "A"), place(TENANT, "A")]);
    let rest = lab.store.secrets_under("k1", Some(&places[1]), 2).await.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(lab.store.secrets_under("k2", None, 2).await.unwrap(), []);
    let batch: Vec<_> = first.iter().map(|secret| rewrapped(secret, "k2")).collect();
    assert_eq!(lab.store.rewrap(&batch).await.unwrap(), 2);
    // Sent again, it finds nothing to do.
    assert_eq!(lab.store.rewrap(&batch).await.unwrap(), 0);
    let keys = [("k1".to_owned(), 1), ("k2".to_owned(), 2)];
    assert_eq!(lab.store.secret_keys().await.unwrap(), keys);
    let moved = get(lab, &place(TENANT, "A")).await.unwrap();
    let sealed = Sealed { key: "k2".into(), data_key: vec![9, 9], value: b"value".to_vec() };
    assert_eq!((moved.version, moved.sealed), (1, sealed));
    assert_eq!(lab.store.rewrap(&[]).await.unwrap(), 0);
}

pub async fn a_changed_secret_is_not_rewrapped<B: Bench>(lab: &Lab<B>) {
    let read = secret(TENANT, "A", 1, "one");
    lab.store.keep_secret(&read).await.unwrap();
    lab.store.keep_secret(&secret(TENANT, "A", 2, "two")).await.unwrap();
    assert_eq!(lab.store.rewrap(&[rewrapped(&read, "k2")]).await.unwrap(), 0);
    assert_eq!(get(lab, &read.place).await, Some(secret(TENANT, "A", 2, "two")));
}
