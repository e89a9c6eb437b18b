//! The vault over a real store: scopes, lost keys, and rotation under load.

extern crate punctual_vault as vault;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agent::{SecretError, Secrets};
use domain::action::{Action, Assignment};
use domain::id::{JobId, RunId, TenantId};
use domain::secret::{Scope, SecretPlace};
use jiff::{SignedDuration, Timestamp};
use store::sqlite::{SqliteOptions, SqliteStore};
use store::{NodeInfo, SecretStore, Store};
use uuid::Uuid;
use vault::{Health, KeyCustody, MasterKey, Ring, SecretService, Set, Vault, VaultError};

/// Keys that are stored in memory, as they would be in a file.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<Vec<String>>>>);

impl KeyCustody for Memory {
    fn keep(&self, ring: &Ring) -> Result<(), String> {
        let ids = ring.keys().iter().map(|key| key.id().to_owned()).collect();
        self.0.lock().unwrap().push(ids);
        Ok(())
    }
}

/// Keys that an administrator manages outside of the process.
struct Elsewhere;

impl KeyCustody for Elsewhere {
    fn keep(&self, _: &Ring) -> Result<(), String> {
        Err("the keys come from a setting".to_owned())
    }
}

fn random() -> [u8; 32] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [7; 32];
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    bytes[..8].copy_from_slice(&number);
    bytes[24..].copy_from_slice(&number);
    bytes
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    let options = SqliteOptions { durable: false };
    Arc::new(SqliteStore::open_with(&folder.join("it.db"), Arc::new(now), options).unwrap())
}

fn key(n: u8) -> MasterKey {
    MasterKey::new([n; 32])
}

fn assignment(tenant: TenantId, job: JobId) -> Assignment {
    Assignment {
        effect: None,
        run: RunId(Uuid::from_u128(1)),
        job,
        job_name: "job".into(),
        tenant,
        attempt: 1,
        fence: 1,
        scheduled_for: now(),
        deadline: now(),
        grace_period: SignedDuration::ZERO,
        shard: String::new(),
        run_as: None,
        parameters: BTreeMap::new(),
        action: Action::Noop,
    }
}

fn place(scope: Scope, name: &str) -> SecretPlace {
    SecretPlace { scope, name: name.to_owned() }
}

const JOB: JobId = JobId(Uuid::from_u128(5));
const OTHER: TenantId = TenantId(Uuid::from_u128(9));

#[tokio::test]
async fn the_nearest_scope_wins_and_strangers_see_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(open(folder.path()), Ring::new([key(1)]), Memory::default(), random);
    for (scope, value) in [
        (Scope::Cluster, "of the cluster"),
        (Scope::Tenant(TenantId::DEFAULT), "of the tenant"),
        (Scope::Job(TenantId::DEFAULT, JOB), "of the job"),
    ] {
        for (name, most) in [("ALL", 3), ("TENANT", 2), ("JOB", 1)] {
            let rank = match scope {
                Scope::Cluster => 3,
                Scope::Tenant(_) => 2,
                Scope::Job(..) | Scope::Object(..) => 1,
            };
            if rank <= most {
                let set = vault.put(&place(scope, name), value, 0, "anna").await.unwrap();
                assert_eq!(set, Set::Done(1));
            }
        }
    }
    vault.put(&place(Scope::Cluster, "ONE"), "everybody's", 0, "anna").await.unwrap();
    let another = JobId(Uuid::from_u128(6));
    for (tenant, job, name, expected) in [
        (TenantId::DEFAULT, JOB, "ALL", Some("of the job")),
        (TenantId::DEFAULT, another, "ALL", Some("of the tenant")),
        (OTHER, another, "ALL", Some("of the cluster")),
        (OTHER, JOB, "ALL", Some("of the cluster")),
        (TenantId::DEFAULT, another, "TENANT", Some("of the tenant")),
        (OTHER, another, "TENANT", None),
        (TenantId::DEFAULT, another, "JOB", None),
        (OTHER, JOB, "JOB", None),
        (OTHER, JOB, "ONE", Some("everybody's")),
        (OTHER, JOB, "NONE", None),
    ] {
        let assignment = assignment(tenant, job);
        let found = vault.get(&assignment, name).await.unwrap();
        assert_eq!(found.as_deref(), expected, "{tenant} {job} {name}");
    }
}

#[tokio::test]
async fn a_lost_key_is_told_and_a_value_that_was_moved_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let vault = Vault::new(store.clone(), Ring::new([key(1)]), Memory::default(), random);
    let (cluster, tenant) = (Scope::Cluster, Scope::Tenant(TenantId::DEFAULT));
    vault.put(&place(cluster, "A"), "value", 0, "anna").await.unwrap();
    // An attacker with write access to the database gives a secret to another tenant.
    let mut moved = store.secrets(&[place(cluster, "A")]).await.unwrap().remove(0);
    moved.place.scope = tenant;
    store.keep_secret(&moved).await.unwrap();
    let it = assignment(TenantId::DEFAULT, JOB);
    let error = vault.get(&it, "A").await.unwrap_err();
    let SecretError::Unreadable { problem, .. } = &error else { panic!("{error}") };
    assert!(problem.contains("does not open"), "{problem}");
    // The secret that is not hidden can be decrypted.
    let elsewhere = assignment(OTHER, JOB);
    assert_eq!(vault.get(&elsewhere, "A").await.unwrap().as_deref(), Some("value"));

    let without = Vault::new(store.clone(), Ring::new([key(2)]), Memory::default(), random);
    let error = without.get(&elsewhere, "A").await.unwrap_err().to_string();
    assert!(error.contains(key(1).id()), "{error}");
    let health = without.health().await.unwrap();
    let unreadable = vec![(key(1).id().to_owned(), 2)];
    assert_eq!(health, Health { kept: 2, unreadable, behind: 0 });
    // Values that are stored from now on can be read.
    without.put(&place(Scope::Tenant(OTHER), "B"), "fresh", 0, "anna").await.unwrap();
    assert_eq!(without.get(&elsewhere, "B").await.unwrap().as_deref(), Some("fresh"));

    let none = Vault::new(store, Ring::default(), Elsewhere, random);
    let put = none.put(&place(cluster, "C"), "value", 0, "anna").await;
    assert!(matches!(put, Err(VaultError::NoKey(_))), "{put:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_under_load_fails_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let kept = Memory::default();
    let vault = Arc::new(Vault::new(store.clone(), Ring::new([key(1)]), kept.clone(), random));
    let tenant = Scope::Tenant(TenantId::DEFAULT);
    let names: Vec<String> = (0..450).map(|n| format!("KEY_{n}")).collect();
    for name in &names {
        vault.put(&place(tenant, name), name, 0, "anna").await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..3 {
        let (vault, stop, names) = (vault.clone(), stop.clone(), names.clone());
        tasks.spawn(async move {
            let it = assignment(TenantId::DEFAULT, JOB);
            let mut count = 0_u32;
            while !stop.load(Ordering::Relaxed) || count == 0 {
                for name in names.iter().skip(worker).step_by(7) {
                    let value = vault.get(&it, name).await.unwrap().unwrap();
                    assert!(value.starts_with(name.as_str()), "{name} {value}");
                    let version = count + 1;
                    let value = format!("{name} {version}");
                    let set = vault.put(&place(tenant, name), &value, version, "bob").await;
                    assert_eq!(set.unwrap(), Set::Done(version + 1));
                }
                count += 1;
            }
            count
        });
    }
    let mut last = String::new();
    for _ in 0..3 {
        let rotated = vault.rotate("anna").await.unwrap();
        assert_eq!(rotated.unreadable, 0);
        last = rotated.key;
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = tasks.join_all().await;
    assert!(rounds.iter().all(|rounds| *rounds > 0), "{rounds:?}");
    assert_eq!(store.secret_keys().await.unwrap(), [(last.clone(), names.len() as u64)]);
    // A new key is stored before anything is under it, and the old one as long as something is.
    let kept = kept.0.lock().unwrap().clone();
    assert_eq!(kept.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 2, 1, 2, 1]);
    assert_eq!(kept.last().unwrap(), &[last]);
}

#[tokio::test]
async fn a_rotation_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tenant = Scope::Tenant(TenantId::DEFAULT);
    let old = Vault::new(store.clone(), Ring::new([key(1)]), Memory::default(), random);
    for n in 0..5 {
        old.put(&place(tenant, &format!("OLD_{n}")), "value", 0, "anna").await.unwrap();
    }
    // The new key was stored, and one secret was re-encrypted, before the process ended.
    let ring = Ring::new([key(2), key(1)]);
    let kept = Memory::default();
    let next = Vault::new(store.clone(), ring, kept.clone(), random);
    next.put(&place(tenant, "NEW"), "value", 0, "anna").await.unwrap();
    assert_eq!(next.health().await.unwrap(), Health { kept: 6, unreadable: vec![], behind: 5 });
    let it = assignment(TenantId::DEFAULT, JOB);
    assert_eq!(next.get(&it, "OLD_3").await.unwrap().as_deref(), Some("value"));
    let rotated = next.resume().await.unwrap();
    assert_eq!((rotated.key.as_str(), rotated.rewrapped), (key(2).id(), 5));
    assert_eq!(*kept.0.lock().unwrap(), [[key(2).id().to_owned()]]);
    assert_eq!(next.get(&it, "OLD_3").await.unwrap().as_deref(), Some("value"));
    // A second call has nothing to do.
    assert_eq!(next.resume().await.unwrap().rewrapped, 0);
    assert_eq!(kept.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_damaged_secret_does_not_stop_a_rotation_and_keeps_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tenant = Scope::Tenant(TenantId::DEFAULT);
    let kept = Memory::default();
    let vault = Vault::new(store.clone(), Ring::new([key(1)]), kept.clone(), random);
    for name in ["A", "B", "C"] {
        vault.put(&place(tenant, name), "value", 0, "anna").await.unwrap();
    }
    let mut damaged = store.secrets(&[place(tenant, "B")]).await.unwrap().remove(0);
    (damaged.version, damaged.sealed.data_key[30]) = (2, damaged.sealed.data_key[30] ^ 1);
    store.keep_secret(&damaged).await.unwrap();
    let rotated = vault.rotate("anna").await.unwrap();
    assert_eq!((rotated.rewrapped, rotated.unreadable), (2, 1));
    assert_eq!(kept.0.lock().unwrap().last().unwrap().len(), 2);
    let it = assignment(TenantId::DEFAULT, JOB);
    assert!(vault.get(&it, "A").await.unwrap().is_some());
    assert!(vault.get(&it, "B").await.is_err());
}

#[tokio::test]
async fn a_key_that_others_need_is_not_made_here() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 0..2 {
        let lease = SignedDuration::from_mins(1);
        store
            .join(domain::id::NodeId(Uuid::from_u128(n)), &NodeInfo::named("n"), lease)
            .await
            .unwrap();
    }
    let vault = Vault::new(store.clone(), Ring::new([key(1)]), Memory::default(), random);
    let refused = vault.rotate("anna").await.unwrap_err().to_string();
    assert!(refused.contains("master_key"), "{refused}");
    // Keys that are managed outside of the process are not changed.
    store.leave(domain::id::NodeId(Uuid::from_u128(1)), &[]).await.unwrap();
    let vault = Vault::new(store, Ring::new([key(1)]), Elsewhere, random);
    let refused = vault.rotate("anna").await.unwrap_err().to_string();
    assert_eq!(refused, "the keys come from a setting");
}
