//! Artifacts: a version is a number and a content, for ever.

use std::collections::BTreeMap;

use domain::artifact::{ArchiveFacts, ArtifactDigest, ArtifactVersion};
use domain::audit::Kind;
use domain::id::TenantId;
use jiff::{SignedDuration, Timestamp};
use store::{Artifacts, AuditFilter, AuditLog, PushedArtifact, SYSTEM};

use crate::bench::Bench;
use crate::lab::{Lab, tenant};

fn digest(byte: u8) -> ArtifactDigest {
    ArtifactDigest([byte; 32])
}

fn content(tenant: TenantId, name: &str, byte: u8) -> ArtifactVersion {
    ArtifactVersion {
        tenant,
        name: name.to_owned(),
        version: 0,
        archive: ArchiveFacts {
            digest: digest(byte),
            bytes: u64::from(byte),
            unpacked_bytes: u64::MAX >> 1,
            entries: 10_000,
        },
        labels: BTreeMap::from([("commit".to_owned(), "\u{2714}'\"".to_owned())]),
        created_at: Timestamp::UNIX_EPOCH,
        created_by: String::new(),
        deleted_at: None,
    }
}

async fn push(store: &impl Artifacts, name: &str, byte: u8) -> u32 {
    match store.push_artifact(&content(tenant(1), name, byte), "ann").await.unwrap() {
        PushedArtifact::New(new) => new.version,
        PushedArtifact::Same(same) => panic!("the same as {}", same.version),
    }
}

pub async fn versions_are_numbered_and_never_reused<B: Bench>(lab: &Lab<B>) {
    let store = &*lab.store;
    for (byte, number) in [(1, 1), (2, 2), (1, 3)] {
        assert_eq!(push(store, "sync", byte).await, number);
    }
    let newest = async || store.newest_artifact(tenant(1), "sync").await.unwrap();
    let found = newest().await.unwrap();
    let new = content(tenant(1), "sync", 1);
    assert_eq!((found.version, found.archive, &found.labels), (3, new.archive, &new.labels));
    assert!(found.created_at <= lab.now().await);
    assert!(store.delete_artifact(tenant(1), "sync", 3, SYSTEM).await.unwrap());
    assert!(!store.delete_artifact(tenant(1), "sync", 3, SYSTEM).await.unwrap());
    assert!(!store.delete_artifact(tenant(1), "sync", 9, SYSTEM).await.unwrap());
    assert!(!store.delete_artifact(tenant(2), "sync", 1, SYSTEM).await.unwrap());
    assert_eq!(newest().await.unwrap().version, 2);
    let deleted = store.artifact(tenant(1), "sync", 3).await.unwrap().unwrap();
    assert!(deleted.deleted_at.is_some());
    assert_eq!(push(store, "sync", 1).await, 4, "the number of a deleted version is not reused");
    assert_eq!(store.artifact(tenant(2), "sync", 1).await.unwrap(), None);
    assert_eq!(store.newest_artifact(tenant(2), "sync").await.unwrap(), None);
    assert_eq!(store.artifact_tenants().await.unwrap(), [tenant(1)]);
}

pub async fn the_same_content_is_the_same_version<B: Bench>(lab: &Lab<B>) {
    assert_eq!(push(&*lab.store, "sync", 1).await, 1);
    let again = content(tenant(1), "sync", 1);
    let answer = lab.store.push_artifact(&again, SYSTEM).await.unwrap();
    assert!(matches!(answer, PushedArtifact::Same(it) if it.version == 1));
    let elsewhere = lab.store.push_artifact(&content(tenant(2), "sync", 1), SYSTEM).await.unwrap();
    assert!(matches!(elsewhere, PushedArtifact::New(it) if it.version == 1));
}

pub async fn artifacts_are_listed_in_pages<B: Bench>(lab: &Lab<B>) {
    for (name, byte) in [("b", 1), ("a", 1), ("b", 2), ("a_b", 1), ("b", 3)] {
        push(&*lab.store, name, byte).await;
    }
    lab.store.delete_artifact(tenant(1), "b", 2, SYSTEM).await.unwrap();
    let all = [("a", 1), ("a_b", 1), ("b", 3), ("b", 1)];
    for limit in 1..=5 {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = lab.store.list_artifacts(tenant(1), None, after.as_ref(), limit);
            let page = page.await.unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items.into_iter().map(|it| (it.name, it.version)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let seen: Vec<_> = seen.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        assert_eq!(seen, all, "{limit}");
    }
    let one = lab.store.list_artifacts(tenant(1), Some("b"), None, 10).await.unwrap();
    assert_eq!(one.items.iter().map(|it| it.version).collect::<Vec<_>>(), [3, 1]);
    let none = lab.store.list_artifacts(tenant(2), None, None, 10).await.unwrap();
    assert_eq!(none.items, []);
}

pub async fn racing_pushes_have_numbers_of_their_own<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    let mut numbers = Vec::new();
    for round in 0..5_u8 {
        let (first, second) = tokio::join!(
            push(&*lab.store, "sync", 2 * round),
            push(&*handle, "sync", 2 * round + 1)
        );
        numbers.extend([first, second]);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

pub async fn content_is_needed_for_a_day_after_its_last_version<B: Bench>(lab: &Lab<B>) {
    push(&*lab.store, "sync", 1).await;
    push(&*lab.store, "sync", 2).await;
    lab.store.push_artifact(&content(tenant(2), "other", 2), SYSTEM).await.unwrap();
    let needed = async |grace| {
        let asked = [digest(1), digest(2), digest(3)];
        lab.store.needed_artifacts(&asked, grace).await.unwrap()
    };
    let day = SignedDuration::from_hours(24);
    assert_eq!(needed(day).await, [digest(1), digest(2)]);
    for number in [1, 2] {
        lab.store.delete_artifact(tenant(1), "sync", number, SYSTEM).await.unwrap();
    }
    assert_eq!(needed(day).await, [digest(1), digest(2)], "deleted a moment ago");
    assert_eq!(needed(SignedDuration::ZERO).await, [digest(2)], "another tenant has the second");
}

pub async fn pushes_and_deletions_are_audited<B: Bench>(lab: &Lab<B>) {
    push(&*lab.store, "sync", 1).await;
    let pushed = lab.store.artifact(tenant(1), "sync", 1).await.unwrap().unwrap();
    assert_eq!(pushed.created_by, "ann");
    assert!(lab.store.delete_artifact(tenant(1), "sync", 1, "bob").await.unwrap());
    let filter = AuditFilter { kinds: vec![Kind::ArtifactChanged], ..AuditFilter::of(tenant(1)) };
    let rows = lab.store.audit(&filter, None, 10).await.unwrap();
    let seen: Vec<_> =
        rows.iter().map(|it| (it.event.actor.as_str(), it.event.outcome.as_str())).collect();
    assert_eq!(seen, [("bob", "DELETED"), ("ann", "PUSHED")]);
    let digest = digest(1).to_string();
    assert!(rows.iter().all(|it| it.event.details.contains(&digest)), "{rows:?}");
}
